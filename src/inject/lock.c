/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One vramtap at a time: flock() on the target's own /proc/PID/status. The lock belongs to the
 * inode, which all openings through one procfs share while any of them exists. The kernel releases
 * it when the holder dies, and it leaves no file behind. (A tool in another pid namespace has
 * another procfs: then the exclusivity of the tracer and the random addresses of a session keep two
 * injections apart.)
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "inject/inject.h"

#define POLL_NS (5 * VT_NS_PER_MS)

/*
 * The pid of the process that has a lock on this file, from /proc/locks ("1: FLOCK ADVISORY WRITE
 * 4711 00:15:123 0 EOF"); 0.
 */
static pid_t find_holder(int fd)
{
	VT_FCLOSE FILE *fp = fopen("/proc/locks", "re");
	char line[256], want[64];
	struct stat st;

	if (!fp || fstat(fd, &st))
		return 0;
	snprintf(want, sizeof(want), "%02x:%02x:%llu", major(st.st_dev), minor(st.st_dev),
		 (unsigned long long)st.st_ino);
	while (fgets(line, sizeof(line), fp)) {
		char kind[16], pid[16], file[64];

		if (sscanf(line, "%*s %15s %*s %*s %15s %63s", kind, pid, file) == 3 &&
		    !strcmp(kind, "FLOCK") && !strcmp(file, want))
			return (pid_t)strtol(pid, NULL, 10);
	}
	return 0;
}

static struct vt_error *busy(int fd, pid_t pid)
{
	struct vt_error *err;
	struct vt_str name = { 0 };
	pid_t holder = find_holder(fd);
	char path[64], comm[64] = "";

	/* 0: in another pid namespace. */
	if (holder <= 0)
		return vt_error_create(VT_ERR_BUSY, "another vramtap is working on process %d",
				       (int)pid);
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)holder);

	VT_FCLOSE FILE *fp = fopen(path, "re");

	if (fp && fgets(comm, sizeof(comm), fp))
		comm[strcspn(comm, "\n")] = '\0';
	vt_str_add_escaped(&name, comm, strlen(comm));
	err = vt_error_create(VT_ERR_BUSY, "process %d (%s) is already working on process %d",
			      (int)holder, vt_str_get(&name), (int)pid);
	vt_str_deinit(&name);
	return err;
}

struct vt_error *vt_inject_lock(pid_t pid, uint64_t deadline_ns, int *ret_fd)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);

	VT_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 && (errno == ENOENT || errno == ESRCH))
		return vt_error_create(VT_ERR_GONE, "process %d does not exist", (int)pid);
	if (fd < 0)
		return vt_error_create_os(errno, "cannot open %s", path);
	while (flock(fd, LOCK_EX | LOCK_NB)) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return vt_error_create_os(errno, "cannot lock %s", path);
		if (vt_deadline_passed(deadline_ns))
			return busy(fd, pid);
		vt_sleep_ns(POLL_NS);
	}
	*ret_fd = vt_steal_fd(fd);
	return NULL;
}
