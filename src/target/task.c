/* SPDX-License-Identifier: Apache-2.0 */
#include "target/task.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/parallel.h"
#include "base/vec.h"
#include "target/proc.h"
#include "target/readers.h"

/*
 * What getdents64() fills in (fs/readdir.c); glibc's readdir() adds a 32 KiB allocation and a copy
 * for each entry.
 */
struct raw_dirent {
	uint64_t ino;
	int64_t off;
	unsigned short reclen;
	unsigned char type;
	char name[];
};

static int open_retry(int dirfd, const char *path, int flags)
{
	int fd;

	do
		fd = openat(dirfd, path, flags | O_CLOEXEC);
	while (fd < 0 && errno == EINTR);
	if (fd >= 0)
		return fd;
	return errno == ENOENT ? -ESRCH : -errno;
}

int vt_task_open(pid_t pid, pid_t tid, const char *file, int flags)
{
	char path[96];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", (int)pid, (int)tid, file);
	return open_retry(AT_FDCWD, path, flags);
}

int vt_task_dir(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	return open_retry(AT_FDCWD, path, O_RDONLY | O_DIRECTORY);
}

ssize_t vt_task_slurp(int dirfd, const char *path, char *buf, size_t size)
{
	VT_CLOSE int fd = open_retry(dirfd, path, O_RDONLY);
	size_t n = 0;

	if (fd < 0)
		return fd;
	while (n + 1 < size) {
		ssize_t got = read(fd, buf + n, size - 1 - n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		n += (size_t)got;
	}
	buf[n] = '\0';
	return (ssize_t)n;
}

void vt_task_path(char path[VT_TASK_PATH], pid_t tid, const char *rest)
{
	char digits[12];
	int n = 0;

	path = stpcpy(path, "/proc/");
	do
		digits[n++] = (char)('0' + tid % 10);
	while ((tid /= 10) > 0);
	while (n > 0)
		*path++ = digits[--n];
	stpcpy(path, rest);
}

ssize_t vt_task_record(int dirfd, const char *path, char *buf, size_t size)
{
	VT_CLOSE int fd = open_retry(dirfd, path, O_RDONLY);
	ssize_t n;

	if (fd < 0)
		return fd;
	do
		n = read(fd, buf, size - 1);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	buf[n] = '\0';
	return n;
}

/* A name that is a positive decimal number, else 0. */
static pid_t number_of(const char *name)
{
	long v = 0;

	for (; *name; name++) {
		if (*name < '0' || *name > '9' || v > INT32_MAX / 10)
			return 0;
		v = v * 10 + (*name - '0');
	}
	return v > INT32_MAX ? 0 : (pid_t)v;
}

int vt_task_compare_tids(const void *a, const void *b)
{
	pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;

	return (x > y) - (x < y);
}

int vt_task_list(int dirfd, size_t max, pid_t **tids, size_t *n)
{
	_Alignas(struct raw_dirent) char buf[16384];
	VT_VEC(pid_t) found = { 0 };

	if (lseek(dirfd, 0, SEEK_SET) < 0)
		return -errno;
	for (;;) {
		long got = syscall(SYS_getdents64, dirfd, buf, sizeof(buf));

		if (got < 0) {
			int ret = errno == ENOENT ? -ESRCH : -errno;

			vt_vec_deinit(&found);
			return ret;
		}
		if (got == 0)
			break;
		for (long at = 0; at < got;) {
			const struct raw_dirent *entry =
				(const struct raw_dirent *)(const void *)(buf + at);
			pid_t tid = number_of(entry->name);
			pid_t *slot;

			at += entry->reclen;
			if (tid <= 0 || found.n >= max)
				continue;
			slot = vt_vec_append(&found);
			if (!slot) {
				vt_vec_deinit(&found);
				return -ENOMEM;
			}
			*slot = tid;
		}
	}
	if (found.n > 0)
		qsort(found.data, found.n, sizeof(*found.data), vt_task_compare_tids);
	*tids = found.data;
	*n = found.n;
	return 0;
}

char vt_task_state(int dirfd, pid_t tid)
{
	char path[32], stat[512];

	snprintf(path, sizeof(path), "%d/stat", (int)tid);
	if (vt_task_record(dirfd, path, stat, sizeof(stat)) <= 0)
		return 0;

	/* "tid (comm) S ...": the name may contain ") Z ", so the last parenthesis counts. */
	const char *p = strrchr(stat, ')');

	return p && p[1] == ' ' ? p[2] : 0;
}

bool vt_task_exists(int dirfd, pid_t tid)
{
	struct stat status;
	char path[32];

	snprintf(path, sizeof(path), "%d", (int)tid);
	/* faccessat() would ask as the real user, without our capabilities. */
	return !fstatat(dirfd, path, &status, 0);
}

bool vt_task_has_children(int dirfd, pid_t tid)
{
	char path[32], first[2];

	snprintf(path, sizeof(path), "%d/children", (int)tid);
	return vt_task_record(dirfd, path, first, sizeof(first)) > 0;
}

void vt_task_each(size_t n, void (*turn)(void *arg, size_t first, size_t end), void *arg)
{
	enum { AT_ONCE = 16, MANY = 64 };

	vt_parallel(n < MANY ? 0 : vt_readers_useful(), n, AT_ONCE, turn, arg);
}

bool vt_thread_has_children(pid_t pid, pid_t tid)
{
	VT_CLOSE int dirfd = vt_task_dir(pid);

	return dirfd >= 0 && vt_task_has_children(dirfd, tid);
}

/* Zombies and dead tasks have given back their memory, files and namespaces. */
static bool has_memory(int dirfd, pid_t tid)
{
	char state = vt_task_state(dirfd, tid);

	return state && state != 'Z' && state != 'X';
}

pid_t vt_proc_view(pid_t pid)
{
	VT_CLOSE int dirfd = vt_task_dir(pid);
	VT_FREE pid_t *tids = NULL;
	size_t n = 0;

	if (dirfd < 0 || has_memory(dirfd, pid) || vt_task_list(dirfd, VT_MAX_THREADS, &tids, &n))
		return pid;
	for (size_t i = 0; i < n; i++)
		if (has_memory(dirfd, tids[i]))
			return tids[i];
	return pid;
}

struct vt_error *vt_task_error(int errnum, pid_t pid, const char *what)
{
	if (errnum == ENOMEM)
		return &vt_enomem;
	if (errnum == ESRCH || errnum == ENOENT)
		return vt_error_create(VT_ERR_GONE,
				       "process %d does not exist any more (or has no %s)",
				       (int)pid, what);
	if (errnum == EPERM || errnum == EACCES) {
		struct vt_error *err = vt_error_create(VT_ERR_PERMISSION,
						       "not permitted to read the %s of process %d",
						       what, (int)pid);

		if (err != &vt_enomem)
			err->errnum = errnum;
		return err;
	}
	return vt_error_create_os(errnum, "cannot read the %s of process %d", what, (int)pid);
}
