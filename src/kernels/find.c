/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which debugger is started. It gets all rights of this user over the process, so root starts none
 * that another user can change: neither the file nor any directory on the way to it.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "kernels/kernels.h"

#define VARIABLE "VRAMTAP_CUDA_GDB"
#define NAME "cuda-gdb"
#define MINIMAL "cuda-gdb-minimal" /* since CUDA 12.1: without Python, which it need not find */

/* Where the toolkit is installed, besides PATH. */
static const char *const directories[] = { "/usr/local/cuda/bin", "/opt/cuda/bin", "/opt/cuda" };

/* path: without links. For root. */
static bool can_others_change(const char *path)
{
	char part[PATH_MAX];
	struct stat st;
	size_t n = strlen(path);

	if (n >= sizeof(part))
		return true;
	memcpy(part, path, n + 1);
	for (;;) {
		char *slash;

		if (stat(*part ? part : "/", &st) || !vt_debugger_is_safe(&st))
			return true;
		if (!*part)
			return false;
		slash = strrchr(part, '/');
		if (!slash)
			return true;
		*slash = '\0';
	}
}

static bool is_program(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISREG(st.st_mode) && !access(path, X_OK);
}

/*
 * A script would start the debugger as another process, whose pid names the directory of its files
 * (session.c). Toolkits whose cuda-gdb is one have cuda-gdb-minimal beside it.
 */
static bool is_script(const char *path)
{
	VT_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	char magic[4] = "";

	return fd < 0 || read(fd, magic, sizeof(magic)) != sizeof(magic) ||
	       memcmp(magic, "\177ELF", sizeof(magic)) != 0;
}

/* real: the path without links. */
static struct vt_error *check(const char *path, char real[PATH_MAX])
{
	if (!realpath(path, real))
		return vt_error_create_os(errno, "cannot find %s", path);
	if (!is_program(real))
		return vt_error_create(VT_ERR_NOTFOUND, "%s is not a program that can be run",
				       path);
	if (geteuid() == 0 && can_others_change(real))
		return vt_error_create(
			VT_ERR_PERMISSION,
			"%s is not run as root: others than root can change it, or a directory that it is in",
			path);
	return NULL;
}

/* The one beside it, if that is as good. */
static void prefer_minimal(char real[PATH_MAX])
{
	const char *slash = strrchr(real, '/');
	char other[PATH_MAX], other_real[PATH_MAX];
	size_t n = slash ? (size_t)(slash + 1 - real) : 0;

	if (!n || n + sizeof(MINIMAL) > sizeof(other))
		return;
	memcpy(other, real, n);
	memcpy(other + n, MINIMAL, sizeof(MINIMAL));

	VT_ERROR struct vt_error *err = check(other, other_real);

	if (!err)
		memcpy(real, other_real, PATH_MAX);
}

static struct vt_error *check_format(const char *path, const char *real)
{
	return is_script(real) ?
		       vt_error_create(VT_ERR_NOTFOUND,
				       "%s is a script, and there is no " MINIMAL " beside it",
				       path) :
		       NULL;
}

/* found stays as it is: there is none. An error: there is one that may not be run. */
static struct vt_error *look_in(const char *directory, size_t n, char real[PATH_MAX], bool *found)
{
	char path[PATH_MAX];

	/* A directory that is relative, or empty, would be the one of whoever chose it. */
	if (!n || *directory != '/' || n + sizeof("/" NAME) > sizeof(path))
		return NULL;
	memcpy(path, directory, n);
	memcpy(path + n, "/" NAME, sizeof("/" NAME));
	if (!is_program(path))
		return NULL;
	VT_TRY(check(path, real));
	prefer_minimal(real);
	VT_TRY(check_format(path, real));
	*found = true;
	return NULL;
}

/* Goes on after one that may not be run; the first such is kept. */
static bool try_directory(const char *directory, size_t n, char real[PATH_MAX],
			  struct vt_error **refused)
{
	bool found = false;
	struct vt_error *err = look_in(directory, n, real, &found);

	if (err && *refused)
		vt_error_destroy(err);
	else if (err)
		*refused = err;
	return found;
}

static struct vt_error *look_around(char real[PATH_MAX])
{
	const char *at = getenv("PATH");
	VT_ERROR struct vt_error *refused = NULL;

	while (at && *at) {
		size_t n = strcspn(at, ":");

		if (try_directory(at, n, real, &refused))
			return NULL;
		at += n + (at[n] == ':');
	}
	for (size_t i = 0; i < sizeof(directories) / sizeof(directories[0]); i++)
		if (try_directory(directories[i], strlen(directories[i]), real, &refused))
			return NULL;
	if (refused)
		return vt_steal(refused);
	return vt_error_create(
		VT_ERR_NOTFOUND,
		"there is no cuda-gdb in PATH or /usr/local/cuda/bin: install it (it is a part of the CUDA toolkit, "
		"packages cuda-gdb-12-8, cuda-gdb-13-0, ...), or name it in " VARIABLE);
}

static struct vt_error *check_named(const char *path, char real[PATH_MAX])
{
	struct vt_error *err = check(path, real);

	if (!err)
		err = check_format(path, real);
	return err ? vt_error_prefix(err, VARIABLE) : NULL;
}

struct vt_error *vt_debugger_find(struct vt_arena *arena, const char **path)
{
	const char *named = getenv(VARIABLE);
	char real[PATH_MAX];

	if (named && *named)
		VT_TRY(check_named(named, real));
	else
		VT_TRY(look_around(real));

	const char *text = vt_arena_strdup(arena, real);

	if (!text)
		return &vt_enomem;
	*path = text;
	return NULL;
}
