/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory source of a live process: process_vm_readv in bulk (up to IOV_MAX vectors a call),
 * /proc/PID/mem where that is refused; with a bounded page cache for the small reads of walkers and
 * the unwinder.
 */
#ifndef VT_TARGET_LIVE_H
#define VT_TARGET_LIVE_H

#include <sys/types.h>

#include "base/error.h"
#include "vramtap/mem.h"

struct vt_live; /* opaque */

/*
 * Opens the files that are needed to read the process. VT_ERR_PERMISSION, VT_ERR_GONE. *ret is set
 * only on success.
 */
struct vt_error *vt_live_create(pid_t pid, struct vt_live **ret);
void vt_live_destroy(struct vt_live *live);

/* Uncached: every read goes to the process. Owned by live. */
struct vt_memsrc *vt_live_source(struct vt_live *live);

/*
 * Cached by page: small reads are fast; the cache must be dropped whenever the target ran (the
 * session does that for the sources it knows). Owned by live.
 */
struct vt_memsrc *vt_live_cached_source(struct vt_live *live);
void vt_live_drop_cache(struct vt_live *live);

/* The thread by which its memory is read: the main thread may be gone. */
pid_t vt_live_tid(const struct vt_live *live);

/*
 * /proc/PID/task, open since the source was made: it is that process's for ever, whoever gets the
 * number after it. Owned by live.
 */
int vt_live_task_dir(const struct vt_live *live);

/* Large reads are shared with n more threads from now on. False: there are none. */
bool vt_live_read_together(struct vt_live *live, unsigned int n);

/*
 * Waits until the memory map is not locked. A thread that hangs in a driver may hold the lock, and
 * process_vm_readv() waits for it unkillably: not even the end of our process ends the wait
 * (mm/process_vm_access.c: mmap_read_lock()), and threads that we hold would stay stopped.
 * /proc/PID/mem waits killably (mm/memory.c), so call this before the first read when not all
 * threads stopped.
 */
void vt_live_wait_killably(struct vt_live *live);

/* Sets .coherent of both sources: the process cannot change now (all threads are stopped). */
void vt_live_set_coherent(struct vt_live *live, bool coherent);

/*
 * Writes through /proc/PID/mem, also to pages that are not writable there (FOLL_FORCE). Only
 * inject/ may call it.
 */
struct vt_error *vt_live_write(struct vt_live *live, uint64_t addr, const void *buf, size_t len);

/* A read that failed with ret (negative errno of vt_mem_*) as an error. what: "the block table". */
struct vt_error *vt_mem_error(const struct vt_memsrc *src, int ret, const char *what);

#endif
