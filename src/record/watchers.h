/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several processes are watched by as many processes of ours: errors of ranks come at the same
 * moment, and no rank is to wait until another one's has been dealt with.
 */
#ifndef VT_RECORD_WATCHERS_H
#define VT_RECORD_WATCHERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

#define VT_WATCHERS_MAX 256 /* at one time */

/* What all of them share. */
struct vt_watchers_shared {
	uint32_t events; /* that were dealt with */
	uint32_t finish; /* who is told to end lets end by itself what it has started */
};

struct vt_watchers {
	const pid_t *pids;
	size_t n_pids;
	pid_t children_of; /* it and its descendants that use CUDA, now or later; 0: none */
	uint64_t until_ns; /* of vt_now_ns(); UINT64_MAX: no limit */
	uint32_t count;    /* events after which it ends; 0: no limit */
	/*
	 * In a process of its own, once for each process and each mode below n_modes. Returns the
	 * exit code. SIGTERM is to end it.
	 */
	int (*watch)(void *arg, pid_t pid, int mode, struct vt_watchers_shared *shared);
	int n_modes;
	void *arg;
	bool (*ended)(void);           /* the user wants to end it */
	void (*say)(const char *text); /* a line for people */
};

/* Returns when all have ended; *status: the exit code that follows from theirs. */
struct vt_error *vt_watchers_run(const struct vt_watchers *watchers, int *status);

/*
 * What a process prints between these is not mixed with what others print, unless one of them
 * prints for seconds. The lock is a file that all of them have; -1: there is none.
 */
int vt_watchers_lock_create(void);
void vt_watchers_lock(int lock);
void vt_watchers_unlock(int lock);

#endif
