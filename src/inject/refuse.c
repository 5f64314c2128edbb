/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/refuse.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/room.h"
#include "base/str.h"

#define MQUEUE_MAGIC 0x19800202 /* ipc/mqueue.c */

/* At most so many descriptors are checked: 0.1 s. */
#define MANY_FDS 65536

/*
 * What the helper takes in the process: some 200 KiB at first (a stack, its image, page tables, the
 * file of the session), of which the kernel gives back a part later only. A control group with less
 * room than this may have the process killed for it.
 */
#define LEAST_ROOM (UINT64_C(4) << 20)

static bool is_gone(const struct vt_proc *proc)
{
	return proc->state == 'Z' || proc->state == 'X' || !vt_proc_is_alive(proc);
}

static bool is_kernel_thread(const struct vt_proc *proc)
{
	return proc->kernel_thread;
}

static bool is_32bit(const struct vt_proc *proc)
{
	return proc->is_32bit;
}

static bool is_musl(const struct vt_proc *proc)
{
	return proc->is_musl;
}

/*
 * SECCOMP_MODE_STRICT: read, write, exit and sigreturn only. Filters are checked later, when a
 * thread is stopped.
 */
static bool is_seccomp_strict(const struct vt_proc *proc)
{
	return proc->seccomp == 1;
}

static bool has_shadow_stack(const struct vt_proc *proc)
{
	return proc->shadow_stack;
}

/* Between vfork() and execve() a process runs in the memory of its parent. */
static bool shares_memory_with_parent(const struct vt_proc *proc)
{
	return proc->ppid > 0 && syscall(SYS_kcmp, proc->pid, proc->ppid, KCMP_VM, 0, 0) == 0;
}

/*
 * Descriptors of message queues are recognised by their names, which have only one slash, or by the
 * usual mount point of the file system. Asking another file system for its type could wait for a
 * server that is gone.
 */
static bool may_be_queue(int dir, const char *fd)
{
	char name[512];
	ssize_t n = readlinkat(dir, fd, name, sizeof(name) - 1);

	if (n <= 0 || name[0] != '/')
		return false;
	name[n] = '\0';
	return !strchr(name + 1, '/') || !strncmp(name, "/dev/mqueue/", strlen("/dev/mqueue/"));
}

/*
 * A message queue with which this process is registered by mq_notify() (or for which that cannot be
 * found out).
 */
static bool is_awaited_queue(pid_t pid, const char *entry)
{
	char path[64], text[128];
	struct statx stx;
	struct statfs st;
	const char *owner;

	snprintf(path, sizeof(path), "/proc/%d/fd/%.20s", (int)pid, entry);
	/*
	 * Rules out the root of a mounted file system, without a question to its server (a queue is
	 * a regular file, mqueue_get_inode()).
	 */
	if (!statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_TYPE, &stx) && !S_ISREG(stx.stx_mode))
		return false;
	if (statfs(path, &st) || st.f_type != MQUEUE_MAGIC)
		return false;

	VT_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (n <= 0)
		return true;
	text[n] = '\0';
	owner = strstr(text, "NOTIFY_PID:");
	return !owner || strtol(owner + strlen("NOTIFY_PID:"), NULL, 10) == pid;
}

/*
 * For an instant, the thread that maps the helper has copies of the descriptors. Closing the copy
 * of a queue removes the registration of the process that closes it (mqueue_flush_file()), and the
 * kernel copies at least the first 64 descriptors, even with close_range(CLOSE_RANGE_UNSHARE):
 * dup_fd().
 */
static bool awaits_messages(const struct vt_proc *proc)
{
	const struct dirent *entry;
	bool found = false;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)proc->pid);

	VT_CLOSEDIR DIR *dir = opendir(path);

	for (int i = 0; dir && !found && i < MANY_FDS && (entry = readdir(dir)); i++)
		found = may_be_queue(dirfd(dir), entry->d_name) &&
			is_awaited_queue(proc->pid, entry->d_name);
	return found;
}

static bool has_no_room(const struct vt_proc *proc)
{
	return vt_memory_room_of(proc->pid) < LEAST_ROOM;
}

static const struct {
	bool (*applies)(const struct vt_proc *proc);
	enum vt_error_code code;
	const char *why;
} refusals[] = {
	{ is_gone, VT_ERR_GONE, "has ended" },
	{ is_kernel_thread, VT_ERR_UNSUPPORTED, "is a kernel thread" },
	{ is_32bit, VT_ERR_UNSUPPORTED, "is a 32-bit program" },
	{ is_musl, VT_ERR_UNSUPPORTED, "uses musl; only the GNU C library is supported" },
	{ is_seccomp_strict, VT_ERR_UNSUPPORTED, "is in seccomp strict mode, which would kill it" },
	{ has_shadow_stack, VT_ERR_UNSUPPORTED,
	  "uses a shadow stack (CET), which returning from injected code would violate" },
	{ shares_memory_with_parent, VT_ERR_UNSUPPORTED,
	  "shares its memory with its parent (it is between vfork and exec)" },
	{ awaits_messages, VT_ERR_UNSUPPORTED,
	  "waits for a message queue with mq_notify(), which an injection would cancel" },
	{ has_no_room, VT_ERR_UNSUPPORTED,
	  "has less than 4 MiB left of its control group's memory: what takes more may have it "
	  "killed" },
};

struct vt_error *vt_inject_refusal(const struct vt_proc *proc)
{
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
		if (refusals[i].applies(proc))
			return vt_error_create(refusals[i].code, "process %d %s", (int)proc->pid,
					       refusals[i].why);
	if (proc->tracer) {
		struct vt_str name = { 0 };
		struct vt_error *err;

		vt_str_add_escaped(&name, proc->tracer_name, strlen(proc->tracer_name));
		err = vt_error_create(VT_ERR_BUSY, "process %d is traced by process %d (%s)",
				      (int)proc->pid, (int)proc->tracer, vt_str_get(&name));
		vt_str_deinit(&name);
		return err;
	}
	return NULL;
}
