/* SPDX-License-Identifier: Apache-2.0 */
#include "gdb/answer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gdb/escape.h"
#include "gdb/print.h"

#define FILE_NAME "answer"
#define TEXT_NAME "text" /* of a long answer, for gdb's Python */
#define MIN_GUARD 256
#define DIRECTORY_SIZE 32 /* a number of a process has at most ten digits */
#define PATH_SIZE (DIRECTORY_SIZE + 8)

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
	vt_gdb_add_escaped(&answer->commands, text, strlen(text));
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

/* A file in the directory. */
static struct vt_error *write_file(int dirfd, const char *path, const char *data, size_t size)
{
	VT_CLOSE int fd = openat(dirfd, strrchr(path, '/') + 1,
				 O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);

	for (size_t done = 0; fd >= 0 && done < size;) {
		ssize_t n = write(fd, data + done, size - done);

		if (n < 0 && errno != EINTR)
			return vt_error_create_os(errno, "cannot write %s", path);
		done += n > 0 ? (size_t)n : 0;
	}
	return fd < 0 ? vt_error_create_os(errno, "cannot write %s", path) : NULL;
}

/* The commands, and the text if gdb's Python is to read it: NULL when it is among the commands. */
static struct vt_error *write_commands(const struct vt_gdb_answer *answer, int dirfd,
				       const char *directory, const char *text)
{
	struct vt_str file = { 0 }, guarded = { 0 };
	char path[PATH_SIZE];

	if (text)
		vt_gdb_add_open(&file, text);
	/* gdb has what it reads open, and reads on. */
	vt_str_addf(&file, "pipe printf \"\" | rm -rf %s\n", directory);
	vt_str_addn(&file, vt_str_get(&answer->commands), answer->commands.n);
	(text ? vt_gdb_add_text_of_file : vt_gdb_add_text)(&file, answer->data, answer->n);
	add_guarded(&guarded, &file);
	snprintf(path, sizeof(path), "%s/" FILE_NAME, directory);

	struct vt_error *err = guarded.failed || answer->commands.failed ?
				       &vt_enomem :
				       write_file(dirfd, path, guarded.data, guarded.n);

	vt_str_deinit(&file);
	vt_str_deinit(&guarded);
	return err;
}

static struct vt_error *write_files(const struct vt_gdb_answer *answer, int dirfd,
				    const char *directory)
{
	char text[PATH_SIZE];

	if (!answer->python || !vt_gdb_serves_python(answer->data, answer->n))
		return write_commands(answer, dirfd, directory, NULL);
	snprintf(text, sizeof(text), "%s/" TEXT_NAME, directory);
	VT_TRY(write_file(dirfd, text, answer->data, answer->n));
	return write_commands(answer, dirfd, directory, text);
}

struct vt_error *vt_gdb_answer_write(struct vt_gdb_answer *answer, pid_t gdb)
{
	VT_CLOSE int dirfd = -1;
	char directory[DIRECTORY_SIZE];

	if (fflush(answer->text))
		return &vt_enomem;
	snprintf(directory, sizeof(directory), "/tmp/vramtap-gdb-%d", (int)gdb);
	VT_TRY(open_directory(directory, &dirfd));

	struct vt_error *err = write_files(answer, dirfd, directory);

	if (err) {
		unlinkat(dirfd, FILE_NAME, 0);
		unlinkat(dirfd, TEXT_NAME, 0);
		rmdir(directory);
	}
	return err;
}

void vt_gdb_answer_print(struct vt_gdb_answer *answer)
{
	fflush(answer->text);
	fwrite(answer->data, 1, answer->n, stdout);
	fflush(stdout);
}
