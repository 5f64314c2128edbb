/* SPDX-License-Identifier: Apache-2.0 */
#include "gdb/answer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_NAME "answer"
#define CHUNK 512 /* of text in one command */
#define MIN_GUARD 256

struct vt_error *vt_gdb_answer_init(struct vt_gdb_answer *answer)
{
	*answer = (struct vt_gdb_answer){ 0 };
	answer->text = open_memstream(&answer->data, &answer->n);
	return answer->text ? NULL : &vt_enomem;
}

void vt_gdb_answer_deinit(struct vt_gdb_answer *answer)
{
	if (answer->text)
		fclose(answer->text);
	free(answer->data);
	vt_str_deinit(&answer->commands);
	*answer = (struct vt_gdb_answer){ 0 };
}

/*
 * Characters that gdb may interpret: a backslash, quotes, $ and #. Also non-ASCII ones, which still
 * go out as bytes.
 */
static void add_escaped(struct vt_str *out, const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)text[i];
		bool inner_space = c == ' ' && i > 0 && i + 1 < n;

		if (inner_space || (c > ' ' && c < 0x7f && !strchr("\\\"'$#", c)))
			vt_str_addn(out, text + i, 1);
		else
			vt_str_addf(out, "\\%03o", c);
	}
}

/*
 * The text up to and including the last newline in its first CHUNK bytes, or its whole first line.
 */
static const char *end_of_chunk(const char *text, const char *end)
{
	size_t n = (size_t)(end - text) < CHUNK ? (size_t)(end - text) : CHUNK;
	const char *last = memrchr(text, '\n', n);

	last = last ? last : memchr(text, '\n', (size_t)(end - text));
	return last ? last + 1 : end;
}

/* What printf can have between its quotes. It does not know octal numbers. */
static bool is_plain(const char *text, const char *end)
{
	unsigned int code_point;

	while (text < end) {
		unsigned char c = (unsigned char)*text;
		size_t n = c < 0x80 ? 1 : vt_utf8_sequence(text, (size_t)(end - text), &code_point);

		if (!n || (c < ' ' && c != '\n') || c == 0x7f || c == '$' || c == '#')
			return false;
		text += n;
	}
	return true;
}

/*
 * Half the time of echo, which takes a microsecond for each character. (The rest is that gdb reads
 * a file with two system calls a byte.)
 */
static void add_printf(struct vt_str *out, const char *text, const char *end)
{
	vt_str_add(out, "printf \"");
	for (size_t n; text < end; text += n) {
		n = strcspn(text, "\n\\\"%");
		n = n < (size_t)(end - text) ? n : (size_t)(end - text);
		vt_str_addn(out, text, n);
		if (text + n == end)
			break;
		vt_str_add(out, text[n] == '\n' ? "\\n" :
				text[n] == '%'  ? "%%" :
				text[n] == '"'  ? "\\\"" :
						  "\\\\");
		n++;
	}
	vt_str_add(out, "\"\n");
}

static void add_echo(struct vt_str *out, const char *text, const char *end)
{
	for (const char *next; text < end; text = next) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));

		next = newline ? newline + 1 : end;
		vt_str_add(out, "echo ");
		add_escaped(out, text, (size_t)((newline ? newline : end) - text));
		vt_str_add(out, newline ? "\\n\n" : "\n");
	}
}

static void add_text(struct vt_str *out, const char *text, size_t n)
{
	for (const char *end = text + n, *next; text < end; text = next) {
		next = end_of_chunk(text, end);
		if (is_plain(text, next))
			add_printf(out, text, next);
		else
			add_echo(out, text, next);
	}
}

void vt_gdb_set_number(struct vt_gdb_answer *answer, const char *name, uint64_t value)
{
	/*
	 * Hexadecimal, so that gdb's input-radix does not matter. A number that fits into 32 bits
	 * would be an int, and so would gdb's sum of two: 1.5 GiB + 1.5 GiB would be -1 GiB.
	 */
	vt_str_addf(&answer->commands, "set $%s = 0x%" PRIx64 "%s\n", name, value,
		    value > INT64_MAX ? "ull" : "ll");
}

void vt_gdb_set_text(struct vt_gdb_answer *answer, const char *name, const char *text)
{
	vt_str_addf(&answer->commands, "set $%s = \"", name);
	add_escaped(&answer->commands, text, strlen(text));
	vt_str_add(&answer->commands, "\"\n");
}

void vt_gdb_set_void(struct vt_gdb_answer *answer, const char *name)
{
	vt_str_addf(&answer->commands, "set $%s = (void)0\n", name);
}

void vt_gdb_command(struct vt_gdb_answer *answer, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vt_str_vaddf(&answer->commands, format, args);
	va_end(args);
	vt_str_add(&answer->commands, "\n");
}

static size_t longest_line(const struct vt_str *file)
{
	size_t longest = 0;

	for (const char *line = vt_str_get(file), *next; *line; line = next) {
		next = strchrnul(line, '\n');
		longest = (size_t)(next - line) > longest ? (size_t)(next - line) : longest;
		next += *next == '\n';
	}
	return longest;
}

/*
 * Up to version 12, gdb reads the lines of all files into one buffer. If a command of another
 * script executes one of ours several times ("thread apply all vramtap bt"), it then finds the
 * buffer's new contents instead of its own line: text from the process, as a command. So we make
 * the first line as long as any later one, to give the buffer its full length, and fill it with
 * spaces after the last line: an empty command.
 */
static void add_guarded(struct vt_str *out, const struct vt_str *file)
{
	size_t longest = longest_line(file);
	int n = (int)(longest > MIN_GUARD ? longest : MIN_GUARD);

	vt_str_addf(out, "%*s\n", n, "");
	vt_str_addn(out, vt_str_get(file), file->n);
	vt_str_addf(out, "%*s\n", n, "");
	out->failed = out->failed || file->failed;
}

/*
 * All users can write to /tmp. gdb executes what is in the directory, so we use an existing
 * directory only if it is ours and closed to others. No other user can then replace it (/tmp is
 * sticky).
 */
static struct vt_error *open_directory(const char *path, int *ret)
{
	struct stat st;
	VT_CLOSE int fd = -1;

	if (mkdir(path, 0700) && errno != EEXIST)
		return vt_error_create_os(errno, "cannot make %s", path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		return vt_error_create_os(errno, "cannot open %s", path);
	if (st.st_uid != geteuid() || (st.st_mode & 077))
		return vt_error_create(VT_ERR_PERMISSION, "%s is not ours alone", path);
	*ret = vt_steal_fd(fd);
	return NULL;
}

static struct vt_error *write_all(int dirfd, const char *directory, const struct vt_str *text)
{
	VT_CLOSE int fd = openat(dirfd, FILE_NAME,
				 O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);

	for (size_t done = 0; fd >= 0 && done < text->n;) {
		ssize_t n = write(fd, text->data + done, text->n - done);

		if (n < 0 && errno != EINTR)
			return vt_error_create_os(errno, "cannot write %s/" FILE_NAME, directory);
		done += n > 0 ? (size_t)n : 0;
	}
	return fd < 0 ? vt_error_create_os(errno, "cannot write %s/" FILE_NAME, directory) : NULL;
}

static struct vt_error *write_file(int dirfd, const char *directory, const struct vt_str *text)
{
	struct vt_error *err = write_all(dirfd, directory, text);

	if (err) {
		unlinkat(dirfd, FILE_NAME, 0);
		rmdir(directory);
	}
	return err;
}

struct vt_error *vt_gdb_answer_write(struct vt_gdb_answer *answer, pid_t gdb)
{
	VT_CLOSE int dirfd = -1;
	struct vt_str file = { 0 }, guarded = { 0 };
	char directory[64];

	if (fflush(answer->text))
		return &vt_enomem;
	snprintf(directory, sizeof(directory), "/tmp/vramtap-gdb-%d", (int)gdb);
	VT_TRY(open_directory(directory, &dirfd));
	/* gdb has the file open and reads on. */
	vt_str_addf(&file, "pipe printf \"\" | rm -rf %s\n", directory);
	vt_str_addn(&file, vt_str_get(&answer->commands), answer->commands.n);
	add_text(&file, answer->data, answer->n);
	add_guarded(&guarded, &file);

	struct vt_error *err = guarded.failed || answer->commands.failed ?
				       &vt_enomem :
				       write_file(dirfd, directory, &guarded);

	vt_str_deinit(&file);
	vt_str_deinit(&guarded);
	return err;
}

void vt_gdb_answer_print(struct vt_gdb_answer *answer)
{
	fflush(answer->text);
	fwrite(answer->data, 1, answer->n, stdout);
	fflush(stdout);
}
