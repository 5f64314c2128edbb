/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/target: the files under /proc/PID/task/TID. */
#ifndef VT_TARGET_TASK_H
#define VT_TARGET_TASK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"

/*
 * Opens /proc/PID/task/TID/file (with O_CLOEXEC); a descriptor or a negative errno, -ESRCH for a
 * task that is gone.
 */
int vt_task_open(pid_t pid, pid_t tid, const char *file, int flags);

/* Opens the directory /proc/PID/task; a descriptor or a negative errno. */
int vt_task_dir(pid_t pid);

/*
 * "/proc/" tid rest, without anything that is not async-signal-safe. Room for a rest of up to 24
 * characters.
 */
#define VT_TASK_PATH 48
void vt_task_path(char path[VT_TASK_PATH], pid_t tid, const char *rest);

/*
 * Reads a small /proc file, relative to dirfd, into buf of size bytes and ends it with a NUL. The
 * number of bytes, or a negative errno; what does not fit is cut off.
 */
ssize_t vt_task_slurp(int dirfd, const char *path, char *buf, size_t size);

/*
 * The same of a file that the kernel makes whole at the first read if there is room (seq_file's
 * single_open(): stat, syscall, wchan, stack): with that one read.
 */
ssize_t vt_task_record(int dirfd, const char *path, char *buf, size_t size);

/*
 * All entries of the directory whose names are numbers, ascending; at most max. The caller frees
 * *tids. 0 or a negative errno.
 */
int vt_task_list(int dirfd, size_t max, pid_t **tids, size_t *n);

/* For qsort() and bsearch(). */
int vt_task_compare_tids(const void *a, const void *b);

/*
 * The state letter in the stat file of a thread (dirfd: /proc/PID/task), 0 when the thread does not
 * exist.
 */
char vt_task_state(int dirfd, pid_t tid);

/* Whether the thread is one of the process's (dirfd: /proc/PID/task), a zombie too. */
bool vt_task_exists(int dirfd, pid_t tid);

/*
 * Whether the thread itself has started processes that still exist, or are still to be waited for.
 * False, too, where the kernel has no list of them (CONFIG_PROC_CHILDREN).
 */
bool vt_task_has_children(int dirfd, pid_t tid);

/*
 * vt_parallel() over n threads whose files turn reads, with as many threads of ours as are worth
 * having: a file takes some 8 us, a thread 50.
 */
void vt_task_each(size_t n, void (*turn)(void *arg, size_t first, size_t end), void *arg);

/* A positive errno of one of the above as an error about "the <what> of process <pid>". */
struct vt_error *vt_task_error(int errnum, pid_t pid, const char *what);

#endif
