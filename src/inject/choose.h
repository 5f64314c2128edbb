/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which thread may be borrowed. A thread qualifies when it sleeps in a system call that was entered
 * from the C library, that the kernel restarts invisibly after a tracer's interruption, and in
 * which it cannot hold a lock that pthread_create() takes. Of these the best is the thread for
 * which the loss of a millisecond matters least.
 */
#ifndef VT_INJECT_CHOOSE_H
#define VT_INJECT_CHOOSE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "inject/arch/arch.h"
#include "inject/symbols.h"
#include "target/live.h"

/*
 * The exposure of a thread; 0 is best. Up to QUIET nothing can go wrong that we know of. Up to
 * VISIBLE the program may notice (an epoll_wait() that returns EINTR if we are killed in the wrong
 * microsecond, a longer sleep). Up to LAST_RESORT its stack has addresses that make it less certain
 * that it holds no lock.
 */
enum {
	VT_EXPOSURE_QUIET = 3,
	VT_EXPOSURE_VISIBLE = 9,
	VT_EXPOSURE_LAST_RESORT = 99,
	VT_EXPOSURE_NEVER = 100,
};

struct vt_candidate {
	pid_t tid;
	int exposure;
	struct vt_wait wait; /* where it was then */
};

/* The exposure for the system call alone, with its arguments. */
int vt_call_exposure(pid_t tid, struct vt_memsrc *src, long nr, const uint64_t args[6]);

/* The exposure for what the top of a stack shows. */
int vt_stack_exposure(struct vt_live *live, const struct vt_target_symbols *symbols, uint64_t sp);

struct vt_choice {
	pid_t pid;
	pid_t only_tid; /* if not 0: consider no other thread */
	struct vt_live *live;
	const struct vt_target_symbols *symbols;
	int max_exposure;
};

/*
 * Searches the threads of the process for up to max candidates; best first. Ends early when nothing
 * better can be found. *scene is set to a hash of where the examined threads are: as long as it
 * stays the same, waiting brings no better candidate. VT_ERR_GONE, VT_ERR_OS.
 */
struct vt_error *vt_choose(const struct vt_choice *choice, struct vt_candidate *candidates,
			   size_t max, size_t *n, uint64_t *scene);

#endif
