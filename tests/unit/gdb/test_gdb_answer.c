/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file that gdb executes: a real gdb shows what was meant and nothing else, and nobody else's
 * file is taken for it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gdb/answer.h"

extern const char vt_gdb_script[];

static char directory[64], file[80], text_file[80], script_file[80];
static struct vt_gdb_answer answer;

static int begin(void **state)
{
	(void)state;
	snprintf(directory, sizeof(directory), "/tmp/vramtap-gdb-%d", (int)getpid());
	snprintf(file, sizeof(file), "%s/answer", directory);
	snprintf(text_file, sizeof(text_file), "%s/text", directory);
	snprintf(script_file, sizeof(script_file), "/tmp/vramtap-test-%d.gdb", (int)getpid());
	return vt_gdb_answer_init(&answer) ? -1 : 0;
}

static int end(void **state)
{
	(void)state;
	vt_gdb_answer_deinit(&answer);
	if (remove(directory)) {
		remove(file);
		remove(text_file);
		remove(directory);
	}
	return access(directory, F_OK) ? 0 : -1;
}

static bool have_gdb(void)
{
	return !system("command -v gdb >/dev/null 2>&1");
}

static bool has_python(void)
{
	return !system("gdb -nx -batch -ex 'python print(4711)' 2>/dev/null | grep -q 4711");
}

/* gdb's commands, which those of an answer call. */
static void write_script(void)
{
	FILE *out = fopen(script_file, "we");

	assert_non_null(out);
	fputs(vt_gdb_script, out);
	fclose(out);
}

/* What gdb prints when it sources the answer, and then executes a command. The
 * caller frees it. */
static char *source(const char *then, size_t *n)
{
	char command[1024], *text = NULL, piece[4096];
	FILE *all = open_memstream(&text, n), *out;
	size_t some;

	snprintf(command, sizeof(command),
		 "LC_ALL=C exec gdb -nx -batch -iex 'set width 0' -iex 'set "
		 "max-value-size 1000' -x %s -ex 'with max-value-size unlimited -- "
		 "source %s' -ex 'set max-value-size unlimited' -ex 'set print "
		 "elements 0' -ex 'set print repeats unlimited' "
		 "-ex '%s' 2>&1",
		 script_file, file, then);
	write_script();
	out = popen(command, "re");
	assert_non_null(all);
	assert_non_null(out);
	while ((some = fread(piece, 1, sizeof(piece), out)) > 0)
		fwrite(piece, 1, some, all);
	fclose(all);
	pclose(out);
	remove(script_file);
	return text;
}

static void shows_as(const char *text, size_t n, bool python)
{
	char *shown;
	size_t n_shown;

	vt_gdb_answer_deinit(&answer);
	assert_null(vt_gdb_answer_init(&answer));
	answer.python = python;
	fwrite(text, 1, n, answer.text);
	assert_null(vt_gdb_answer_write(&answer, getpid()));
	assert_int_equal(access(text_file, F_OK), python ? 0 : -1);
	shown = source("echo", &n_shown);
	assert_int_equal(n_shown, n);
	assert_memory_equal(shown, text, n);
	free(shown);
	/* It is gone, and so is the directory. */
	assert_int_equal(access(directory, F_OK), -1);
}

/* In gdb's own language, and after so much that Python reads it. */
static void shows(const char *text, size_t n)
{
	char *long_text = NULL;
	size_t n_long;
	FILE *out = open_memstream(&long_text, &n_long);

	assert_non_null(out);
	for (int i = 0; i < 1000; i++)
		fprintf(out, "line %d\n", i);
	fwrite(text, 1, n, out);
	fclose(out);
	shows_as(text, n, false);
	shows_as(long_text, n_long, false);
	if (has_python())
		shows_as(long_text, n_long, true);
	free(long_text);
}

/* A printf of the whole text would end there. */
static void no_python_for_a_nul(void **state)
{
	(void)state;
	answer.python = true;
	for (int i = 0; i < 1000; i++)
		fprintf(answer.text, "line %d%c\n", i, 0);
	assert_null(vt_gdb_answer_write(&answer, getpid()));
	assert_int_equal(access(text_file, F_OK), -1);
}

/*
 * Each by itself on a line, at both ends of one, doubled, and all in a row.
 * gdb's echo has no way to print a NUL.
 */
static void every_byte(void **state)
{
	char text[256 * 16];
	size_t n = 0;

	(void)state;
	if (!have_gdb())
		skip();
	for (int c = 1; c < 256; c++) {
		const char line[] = { (char)c, '\n',    (char)c, 'x', (char)c,
				      '\n',    (char)c, (char)c, '7', '\n' };

		memcpy(text + n, line, sizeof(line));
		n += sizeof(line);
	}
	for (int c = 1; c < 256; c++)
		text[n++] = (char)c;
	text[n++] = '\n';
	shows(text, n);
}

static void awkward_lines(void **state)
{
	static const char text[] =
		"\n\n  two before\nand after  \n \n\\\n\\\\\nends with \\\n$arg0 $argc "
		"$x\n#\n# no comment\nend\nquit\nshell touch pwned\n"
		"\"\n shell touch pwned\n'\nif 1\npython "
		"print(1)\n\033[31mred\033[0m\n\xff\xc3\x28 \xe2\x82\n%d %s %%\nno end";

	(void)state;
	if (!have_gdb())
		skip();
	shows(text, sizeof(text) - 1);
	assert_int_equal(access("pwned", F_OK), -1);
}

/*
 * Many lines in a command, some that need another form, and lines as long as
 * that has room for.
 */
static void many_lines(void **state)
{
	static const char *const some[] = {
		"plain",
		"50% of \"that\" %d %s %%",
		"back\\slash\\",
		"\xe2\x97\x8f \xc3\xa9",
		"",
		"  indented  ",
	};
	char *text = NULL;
	size_t n;
	FILE *out = open_memstream(&text, &n);

	(void)state;
	assert_non_null(out);
	for (int i = 0; i < 3000; i++) {
		fprintf(out, "%s\n", some[i % 6]);
		if (i % 500 == 499)
			fprintf(out, "$arg0 # \x1b[31m\xff\n");
		if (i % 100 == 0)
			fprintf(out, "%*s\n", 4080 + i % 37, "x");
	}
	fprintf(out, "no end");
	fclose(out);
	if (have_gdb())
		shows(text, n);
	free(text);
}

/* As in the list of all blocks, and what nearly is: other tails, more than
 * there are letters, other beginnings, too few in a row. */
static void rows_of_a_table(void **state)
{
	char *text = NULL;
	size_t n;
	FILE *out = open_memstream(&text, &n);

	(void)state;
	assert_non_null(out);
	for (unsigned int i = 0; i < 4000; i++) {
		unsigned int tail = i < 1000 ? i % 3 : i < 2000 ? i % 40 : i * i % 27;

		if (i % 150 == 0)
			fprintf(out, "Blocks \"of\" $arg0 %%s\n  0x7f%x no row\n 0x1234\n", i);
		if (i % 100 == 99)
			fprintf(out,
				"    0x7f261200\n    0x7f2612000000G\n    0x7f26120000001 12\n");
		fprintf(out, "    0x%x%06x%*u KiB \"$arg%u\\%%d\033\xff # in use%s\n",
			0x7f26 + i / 700, i * 512 + i / 3000, 11, tail, tail, i % 13 ? "" : " ");
	}
	fprintf(out, "    0x7f2612000000 no end");
	fclose(out);
	if (have_gdb())
		shows(text, n);
	free(text);
}

/* What eight rows take of a file, which is why they are there. */
static void rows_are_short(void **state)
{
	struct stat st;

	(void)state;
	for (int i = 0; i < 8000; i++)
		fprintf(answer.text, "    0x7f2612%06x       %d.00 KiB   in use, asked for 600 B\n",
			i * 512, 1 + i % 20);
	assert_null(vt_gdb_answer_write(&answer, getpid()));
	assert_int_equal(stat(file, &st), 0);
	assert_in_range(st.st_size, 1, 8000 * 10);
}

static void no_text(void **state)
{
	(void)state;
	if (!have_gdb())
		skip();
	shows("", 0);
}

static void a_very_long_line(void **state)
{
	size_t n = 1u << 20;
	char *text = malloc(n);

	(void)state;
	assert_non_null(text);
	if (!have_gdb()) {
		free(text);
		skip();
	}
	for (size_t i = 0; i < n; i++)
		text[i] = (char)('!' + i % 90);
	text[n - 1] = '\n';
	shows(text, n);
	free(text);
}

/* gdb prints an array of char as numbers: {0x1, 0x2, ...}. */
static void text_values(void **state)
{
	char text[256 + 64], *shown, *at;
	size_t n = 0, n_shown;

	(void)state;
	if (!have_gdb())
		skip();
	for (int c = 1; c < 256; c++)
		text[n++] = (char)c;
	strcpy(text + n, "  \\\"\n shell touch pwned\n\\");
	vt_gdb_set_text(&answer, "vt_text", text);
	vt_gdb_set_number(&answer, "vt_number", UINT64_MAX);
	vt_gdb_set_text(&answer, "vt_empty", "");
	vt_gdb_set_void(&answer, "vt_void");
	vt_gdb_command(&answer, "set $vt_%s = %d", "other", 5);
	assert_null(vt_gdb_answer_write(&answer, getpid()));
	shown = source("output/x $vt_text", &n_shown);
	at = strchr(shown, '{');
	assert_non_null(at);
	for (size_t i = 0; i <= strlen(text); i++) {
		unsigned long c = strtoul(at + 1, &at, 16);

		assert_int_equal(c, (unsigned char)text[i]);
	}
	assert_int_equal(*at, '}');
	free(shown);
	assert_int_equal(access("pwned", F_OK), -1);
}

static void values_come_before_text(void **state)
{
	char *shown;
	size_t n;

	(void)state;
	if (!have_gdb())
		skip();
	fputs("text\n", answer.text);
	vt_gdb_set_number(&answer, "vt_number", UINT64_MAX);
	vt_gdb_set_text(&answer, "vt_empty", "");
	vt_gdb_set_void(&answer, "vt_void");
	vt_gdb_command(&answer,
		       "printf \"%%lx %%d %%d\\n\", $vt_number, sizeof($vt_empty), "
		       "$_isvoid($vt_%s)",
		       "void");
	assert_null(vt_gdb_answer_write(&answer, getpid()));
	shown = source("echo", &n);
	assert_string_equal(shown, "ffffffffffffffff 1 1\ntext\n");
	free(shown);
}

/* What gdb before 13 may execute once more. */
static void nothing_is_left_in_gdbs_buffer(void **state)
{
	char line[4096];
	size_t longest = 0, first = 0, last = 0;
	FILE *in;

	(void)state;
	fprintf(answer.text, "%*s\nshort\nshell touch pwned\n", 2000, "x$");
	vt_gdb_set_number(&answer, "vt_number", 1);
	assert_null(vt_gdb_answer_write(&answer, getpid()));
	in = fopen(file, "re");
	assert_non_null(in);
	for (int i = 0; fgets(line, sizeof(line), in); i++) {
		last = strlen(line);
		longest = last > longest ? last : longest;
		first = i == 0 ? last : first;
		if (i == 0)
			assert_int_equal(line[strspn(line, " ")], '\n');
	}
	fclose(in);
	assert_int_equal(line[strspn(line, " ")], '\n');
	assert_true(longest > 2000);
	assert_int_equal(first, longest);
	assert_int_equal(last, longest);
}

static void refuses(enum vt_error_code code)
{
	struct vt_error *err;
	struct stat st;

	fputs("text\n", answer.text);
	err = vt_gdb_answer_write(&answer, getpid());
	assert_non_null(err);
	assert_int_equal(err->code, code);
	vt_error_destroy(err);
	assert_true(stat(file, &st) || !st.st_size);
}

/* A gdb before, with the same number, may have left one. */
static void one_that_is_ours_is_used_again(void **state)
{
	struct stat st;
	FILE *stale;

	(void)state;
	assert_int_equal(mkdir(directory, 0700), 0);
	stale = fopen(file, "we");
	assert_non_null(stale);
	assert_int_equal(ftruncate(fileno(stale), 100000), 0);
	fclose(stale);
	fputs("text\n", answer.text);
	assert_null(vt_gdb_answer_write(&answer, getpid()));
	assert_int_equal(stat(file, &st), 0);
	assert_true(st.st_size < 10000);
}

static void not_through_a_link(void **state)
{
	(void)state;
	assert_int_equal(mkdir(directory, 0700), 0);
	assert_int_equal(symlink("/dev/null", file), 0);
	refuses(VT_ERR_OS);
}

static void text_not_through_a_link(void **state)
{
	(void)state;
	answer.python = true;
	fprintf(answer.text, "%*s\n", 10000, "x");
	assert_int_equal(mkdir(directory, 0700), 0);
	assert_int_equal(symlink("/dev/null", text_file), 0);
	refuses(VT_ERR_OS);
	assert_int_equal(access(directory, F_OK), -1);
}

static void not_a_link(void **state)
{
	char other[] = "/tmp/vramtap-test-XXXXXX";

	(void)state;
	assert_non_null(mkdtemp(other));
	assert_int_equal(symlink(other, directory), 0);
	refuses(VT_ERR_OS);
	assert_int_equal(rmdir(other), 0); /* nothing was put there */
}

static void not_what_others_can_write(void **state)
{
	(void)state;
	assert_int_equal(mkdir(directory, 0700), 0);
	assert_int_equal(chmod(directory, 0770), 0);
	refuses(VT_ERR_PERMISSION);
	assert_int_equal(chmod(directory, 0701), 0);
	refuses(VT_ERR_PERMISSION);
}

static void not_somebody_elses(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	assert_int_equal(mkdir(directory, 0700), 0);
	assert_int_equal(chown(directory, 1, 1), 0);
	refuses(VT_ERR_PERMISSION);
}

static void not_a_file(void **state)
{
	FILE *other = fopen(directory, "we");

	(void)state;
	assert_non_null(other);
	fclose(other);
	refuses(VT_ERR_OS);
}

/* Half an answer is none. */
static void a_full_disk(void **state)
{
	struct rlimit before, some = { .rlim_cur = 10 };
	struct vt_error *err;

	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	some.rlim_max = before.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &some), 0);
	fputs("text\n", answer.text);
	err = vt_gdb_answer_write(&answer, getpid());
	setrlimit(RLIMIT_FSIZE, &before);
	assert_non_null(err);
	vt_error_destroy(err);
	assert_int_equal(access(directory, F_OK), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_byte, begin, end),
		cmocka_unit_test_setup_teardown(awkward_lines, begin, end),
		cmocka_unit_test_setup_teardown(many_lines, begin, end),
		cmocka_unit_test_setup_teardown(rows_of_a_table, begin, end),
		cmocka_unit_test_setup_teardown(rows_are_short, begin, end),
		cmocka_unit_test_setup_teardown(no_text, begin, end),
		cmocka_unit_test_setup_teardown(no_python_for_a_nul, begin, end),
		cmocka_unit_test_setup_teardown(a_very_long_line, begin, end),
		cmocka_unit_test_setup_teardown(text_values, begin, end),
		cmocka_unit_test_setup_teardown(values_come_before_text, begin, end),
		cmocka_unit_test_setup_teardown(nothing_is_left_in_gdbs_buffer, begin, end),
		cmocka_unit_test_setup_teardown(one_that_is_ours_is_used_again, begin, end),
		cmocka_unit_test_setup_teardown(not_through_a_link, begin, end),
		cmocka_unit_test_setup_teardown(text_not_through_a_link, begin, end),
		cmocka_unit_test_setup_teardown(not_a_link, begin, end),
		cmocka_unit_test_setup_teardown(not_what_others_can_write, begin, end),
		cmocka_unit_test_setup_teardown(not_somebody_elses, begin, end),
		cmocka_unit_test_setup_teardown(not_a_file, begin, end),
		cmocka_unit_test_setup_teardown(a_full_disk, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
