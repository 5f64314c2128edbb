/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What gdb's commands print of its state, as gdb 10 to 16 print it, and what no gdb should print.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "gdb/state.h"
#include "target/arch/x86_64/regs.h"

#define FORMAT "vramtap-gdb 2\n"
#define REGISTERS "1 2 3 4 5 6 7 8 9 a b c d e f 10 11 12"

static struct vt_gdb_state gdb;

static struct vt_error *parse_bytes(const char *text, size_t n)
{
	FILE *in = fmemopen((void *)text, n, "re");
	struct vt_error *err;

	assert_non_null(in);
	vt_gdb_state_deinit(&gdb);
	err = vt_gdb_state_init(&gdb, in);
	fclose(in);
	return err;
}

#define END "\nend of state\n"

static void parse(const char *text)
{
	char *all = NULL;

	assert_true(asprintf(&all, "%s" END, text) > 0);
	assert_null(parse_bytes(all, strlen(all)));
	free(all);
}

static int forget(void **state)
{
	(void)state;
	vt_gdb_state_deinit(&gdb);
	return 0;
}

/* gdb 13 on a process. */
static void a_process(void **state)
{
	(void)state;
	parse(FORMAT
	      "setting width 80\nfunction _streq -- $_streq - check string equality.\n"
	      "  Num  Description       Connection           Executable        \n"
	      "* 1    process 31343     1 (native)           /tmp/my prog  two \n"
	      "  Id   Executable        Core File         \n"
	      "* 1    /tmp/my prog  two                   \n"
	      "\tBound inferiors: ID 1 (process 31343)\n"
	      "selected 3\non device 0\naddress 7f0012345678\nVRAMTAP_PATTERN = a['b c'] = d\npython 31345 2\nwas 31346 4 7ffc0 1 31345\n"
	      "thread 3 " REGISTERS " -1\nsignal 3 19\n"
	      "#2  0x00007fc70e3f1ea8 in main (...) at main.c:3\n3\tmain.c\n");
	assert_int_equal(gdb.pid, 31343);
	assert_null(gdb.core);
	assert_string_equal(gdb.connection, "native");
	assert_int_equal(gdb.width, 80);
	assert_true(gdb.python);
	assert_int_equal(gdb.selected, 3);
	assert_false(gdb.on_device);
	assert_int_equal(gdb.address, 0x7f0012345678);
	assert_string_equal(gdb.pattern, "a['b c'] = d");
	assert_int_equal(gdb.python_tid, 31345);
	assert_int_equal(gdb.python_frame, 2);
	assert_int_equal(gdb.was_tid, 31346);
	assert_int_equal(gdb.was_pid, 31345);
	assert_int_equal(gdb.was_frame, 4);
	assert_int_equal(gdb.was_sp, 0x7ffc0);
	assert_true(gdb.was_on_device);
	assert_int_equal(gdb.frame, 2);
	assert_int_equal(gdb.held.threads.n, 1);
	for (unsigned int i = 0; i < VT_N_REGS; i++)
		assert_int_equal(gdb.held.threads.data[0].regs.r[i], i + 1);
	assert_int_equal(gdb.held.threads.data[0].regs.thread_pointer, 0x12);
	assert_int_equal(gdb.held.threads.data[0].regs.syscall_nr, -1);
	assert_int_equal(gdb.held.threads.data[0].signal, 19);
	assert_int_equal(gdb.passed, 0);
}

static void signals_that_are_passed(void **state)
{
	(void)state;
	parse(FORMAT
	      "Signal        Stop\tPrint\tPass to program\tDescription\nSIGINT        Yes\tYes\tYes\t\tInterrupt\n"
	      "Signal        Stop\tPrint\tPass to program\tDescription\nSIGTRAP       Yes\tYes\tNo\t\tTrace/breakpoint trap\n");
	assert_int_equal(gdb.passed, 1u << SIGINT);
	parse(FORMAT "SIGTRAP       No\tNo\tYes\t\tYes\nSIGINT Yes Yes\nSIGINT \tYes\t\n");
	assert_int_equal(gdb.passed, 1u << SIGTRAP);
}

static void functions_called_from_gdb(void **state)
{
	(void)state;
	parse(FORMAT
	      "0x55557b4d19d0: id={stack=0x7ffdf24ffef8,code=0x00007ffdf24ffeff,!special}, ptid=13692.13692.0\n");
	assert_true(gdb.in_call);
	parse(FORMAT "0x5555 is no frame\n");
	assert_false(gdb.in_call);
}

static void a_core(void **state)
{
	(void)state;
	parse(FORMAT
	      "  Num  Description       Connection           Executable               \n"
	      "* 1    process 4711      1 (core)             /opt/a b/Core File Executable \n"
	      "  Id   Executable                    Core File          \n"
	      "* 1    /opt/a b/Core File Executable /tmp/core  of 4711 \n"
	      "\tBound inferiors: ID 1 (process 4711)\n"
	      "selected 1\n");
	assert_string_equal(gdb.connection, "core");
	assert_string_equal(gdb.core, "/tmp/core  of 4711");
	assert_string_equal(gdb.exe, "/opt/a b/Core File Executable");
	assert_int_equal(gdb.frame, -1);
}

/* A process that is called so does not make a gdb without Python run Python. */
static void python_in_a_name(void **state)
{
	(void)state;
	parse(FORMAT "setting width 80\n"
		     "  Num  Description       Connection           Executable        \n"
		     "* 1    process 12        1 (native)           /tmp/x\n"
		     "function _streq -- \n");
	assert_int_equal(gdb.pid, 12);
	assert_false(gdb.python);
}

/* No executable is known, no connection (gdb 9 has not the column at all), no process. */
static void empty_cells(void **state)
{
	(void)state;
	parse(FORMAT "  Num  Description       Connection           Executable        \n"
		     "* 1    <null>                                                   \n"
		     "  Id   Executable        Core File         \n"
		     "* 1                                        \n"
		     "selected 0\non device 1\n");
	assert_int_equal(gdb.pid, 0);
	assert_null(gdb.core);
	assert_null(gdb.exe);
	assert_string_equal(gdb.connection, "");
	assert_int_equal(gdb.selected, 0);
	parse(FORMAT
	      "  Num  Description       Executable        \n* 1    process 12        /bin/true \n");
	assert_int_equal(gdb.pid, 12);
	assert_string_equal(gdb.connection, "");
	parse(FORMAT "  Id   Executable  Core File \n* 1                /tmp/core \n");
	assert_null(gdb.exe);
	assert_string_equal(gdb.core, "/tmp/core");
}

/* What gdb is about is marked; a core may be another's. */
static void several_inferiors(void **state)
{
	(void)state;
	parse(FORMAT "  Num  Description       Connection           Executable        \n"
		     "  1    process 100       1 (native)           /bin/one \n"
		     "* 2    process 200       2 (native)           /bin/two \n"
		     "\tis vfork child of inferior 1\n"
		     "  10   process 300       3 (core)             /bin/three \n"
		     "  Id   Executable  Core File \n"
		     "  1    /bin/one              \n"
		     "* 2    /bin/two              \n"
		     "  10   /bin/three  /tmp/core \n");
	assert_int_equal(gdb.pid, 200);
	assert_null(gdb.core);
	assert_string_equal(gdb.exe, "/bin/two");
}

static void remote(void **state)
{
	(void)state;
	parse(FORMAT "  Num  Description       Connection                      Executable        \n"
		     "* 1    process 100       1 (extended-remote host:1234)   /bin/one \n");
	assert_string_equal(gdb.connection, "extended-remote host:1234");
}

/* gdb could not print all registers: the thread has none, and its signal is its own. */
static void registers_missing(void **state)
{
	(void)state;
	parse(FORMAT "thread 1 " REGISTERS
		     " 5\nsignal 1 5\nthread 2 1 2 3\nsignal 2 10\nthread 3\nthread 4 " REGISTERS
		     "\nsignal 9 12\nsignal 1 6\n");
	assert_int_equal(gdb.held.threads.n, 3);
	assert_int_equal(vt_held_numbered(&gdb.held, 1)->signal, 6);
	assert_int_equal(vt_held_numbered(&gdb.held, 2)->signal, 10);
	assert_int_equal(vt_held_numbered(&gdb.held, 9)->signal, 12);
	assert_null(vt_held_numbered(&gdb.held, 4));
	/* None of a thread without registers is at 0. */
	assert_ptr_equal(vt_held_find(&gdb.held, 8, 0x11), vt_held_numbered(&gdb.held, 1));
	vt_held_match(&gdb.held, 77, 8, 0x11);
	vt_held_match(&gdb.held, 78, 8, 0x12);
	assert_int_equal(vt_held_numbered(&gdb.held, 1)->tid, 77);
}

/* After gdb's description of the frame come names of the process's, perhaps with newlines. */
static void nothing_counts_after_the_frame(void **state)
{
	(void)state;
	parse(FORMAT
	      "pid 1\n#3  0x1 in f ()\npid 2\n#4  g ()\nthread 1 " REGISTERS " 0\n"
	      "  Num  Description       Connection           Executable        \n* 1    process 3         1 (native)           /x\n");
	assert_int_equal(gdb.pid, 1);
	assert_int_equal(gdb.frame, 3);
	assert_int_equal(gdb.held.threads.n, 0);
}

static void hostile_numbers(void **state)
{
	(void)state;
	parse(FORMAT
	      "pid 99999999999999999999\nselected -5\nsetting width 4294967296\npython -1 -1\nwas 4294967297 -2 ffffffffffffffffff\n"
	      "thread 99999999999 " REGISTERS
	      " 99999999999999999999\nsignal 1\nsignal\nsignal 0 -7\naddress zz\non device 9\n");
	assert_int_equal(gdb.pid, 0);
	assert_int_equal(gdb.selected, 0);
	assert_int_equal(gdb.width, 0);
	assert_int_equal(gdb.python_tid, 0);
	assert_int_equal(gdb.python_frame, 0);
	assert_int_equal(gdb.was_tid, 0);
	assert_int_equal(gdb.was_frame, 0);
	assert_int_equal(gdb.was_sp, UINT64_MAX);
	assert_int_equal(gdb.address, 0);
	assert_int_equal(gdb.held.threads.n, 1);
	assert_int_equal(gdb.held.threads.data[0].number, 0);
	assert_int_equal(gdb.held.threads.data[0].signal, 0);
}

/* Rows without heads, heads alone, a row that ends before its columns. */
static void torn_tables(void **state)
{
	(void)state;
	parse(FORMAT "* 1    process 5         1 (native)           /x\n*\n* \n");
	assert_int_equal(gdb.pid, 0);
	parse(FORMAT
	      "  Num  Description       Connection           Executable        \n* 1\n* 1    pro\n* 1    process 6\n");
	assert_int_equal(gdb.pid, 6);
	parse(FORMAT "  Id   Executable  Core File \n* 1\n* 1    /b");
	assert_string_equal(gdb.exe, "/b");
	assert_null(gdb.core);
}

/* A beginning of a sound state is refused, with NULs and with lines that have no end. */
static void cut_anywhere(void **state)
{
	static const char text[] = FORMAT
		"  Num  Description       Connection           Executable\n"
		"* 1    process 31343     1 (native)           /t\0mp/x\n"
		"  Id   Executable  Core File\n* 1    /tmp/x      /c\n\0\0selected 3\nthread 3 " REGISTERS
		" -1\nsignal 3 19" END;

	(void)state;
	for (size_t n = 1; n < sizeof(text); n++) {
		struct vt_error *err = parse_bytes(text, n);

		assert_true(!err == (n >= sizeof(text) - 2));
		if (err)
			assert_int_equal(err->code, n < strlen(FORMAT) - 1 ? VT_ERR_FORMAT :
									     VT_ERR_INTERRUPTED);
		vt_error_destroy(err);
	}
	assert_int_equal(gdb.held.threads.data[0].signal, 19);
}

static void long_lines(void **state)
{
	size_t n = 3u << 20;
	char *text = malloc(n);

	(void)state;
	assert_non_null(text);
	memset(text, 'a', n);
	memcpy(text, FORMAT "pid 7", strlen(FORMAT "pid 7"));
	memcpy(text + n - strlen("\npid 8" END), "\npid 8" END, strlen("\npid 8" END));
	/* An unknown line says nothing. */
	assert_null(parse_bytes(text, n));
	assert_int_equal(gdb.pid, 8);
	free(text);
}

/* As long as a path may be: gdb makes the column as wide. */
static void long_paths(void **state)
{
	char path[PATH_MAX], *text = NULL;

	(void)state;
	memset(path, 'p', sizeof(path));
	path[0] = '/';
	path[sizeof(path) - 1] = '\0';
	assert_true(asprintf(&text, FORMAT "  Id   %-*s Core File \n* 1    %s /tmp/core \n",
			     (int)strlen(path), "Executable", path) > 0);
	parse(text);
	assert_string_equal(gdb.exe, path);
	assert_string_equal(gdb.core, "/tmp/core");
	free(text);
}

static void other_releases(void **state)
{
	static const char *const texts[] = { "",
					     "\n",
					     "vramtap-gdb 1\nend of state\n",
					     "vramtap-gdb\n",
					     "vramtap-gdb x\nvramtap-gdb -1\n",
					     "selected 1\n" };

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct vt_error *err = *texts[i] ? parse_bytes(texts[i], strlen(texts[i])) :
						   parse_bytes("\0", 1);

		assert_non_null(err);
		assert_int_equal(err->code, VT_ERR_FORMAT);
		assert_int_equal(gdb.held.threads.n, 0);
		vt_error_destroy(err);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(a_process, forget),
		cmocka_unit_test_teardown(signals_that_are_passed, forget),
		cmocka_unit_test_teardown(functions_called_from_gdb, forget),
		cmocka_unit_test_teardown(a_core, forget),
		cmocka_unit_test_teardown(python_in_a_name, forget),
		cmocka_unit_test_teardown(empty_cells, forget),
		cmocka_unit_test_teardown(several_inferiors, forget),
		cmocka_unit_test_teardown(remote, forget),
		cmocka_unit_test_teardown(registers_missing, forget),
		cmocka_unit_test_teardown(nothing_counts_after_the_frame, forget),
		cmocka_unit_test_teardown(hostile_numbers, forget),
		cmocka_unit_test_teardown(torn_tables, forget),
		cmocka_unit_test_teardown(cut_anywhere, forget),
		cmocka_unit_test_teardown(long_lines, forget),
		cmocka_unit_test_teardown(long_paths, forget),
		cmocka_unit_test_teardown(other_releases, forget),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
