/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All threads of a process at a glance: what the kernel counts of each, read without stopping any.
 * Two glances tell which threads ran in between, and for how long.
 */
#ifndef VT_TARGET_GLANCE_H
#define VT_TARGET_GLANCE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/vec.h"
#include "target/proc.h"

struct vt_glance {
	pid_t tid;
	char state;
	uint64_t start_ticks; /* tells a reused tid apart */
	/* processor time: the scheduler's count, or else that of the clock's ticks */
	uint64_t cpu_ns;
	bool cpu_in_ticks; /* it is the latter: too coarse to tell less than a tick from nothing */
	struct vt_thread_sample sample;
};

struct vt_glances {
	VT_VEC(struct vt_glance) threads; /* by tid */
	uint64_t when_ns;                 /* CLOCK_MONOTONIC, at the begin */
	/*
	 * Which process it is: when it started, and where its stack begins, which exec() changes (0
	 * may not be read).
	 */
	uint64_t start_ticks, start_stack;
	uint64_t cpu_ns; /* of all its threads, those that have ended too; in ticks of the clock */
};

enum vt_same {
	VT_SAME_PROCESS,
	VT_SAME_NOT,     /* it has ended: another one has its number, or none */
	VT_SAME_BY_EXEC, /* it runs another program by now */
};

/* Threads that end meanwhile are left out. False: there is no such process, or no memory. */
bool vt_glances_take(struct vt_glances *glances, pid_t pid);
void vt_glances_deinit(struct vt_glances *glances);

const struct vt_glance *vt_glance_of(const struct vt_glances *glances, pid_t tid);

/* Whether pid is still the process of the glances. A zombie has ended. */
enum vt_same vt_glances_same(const struct vt_glances *glances, pid_t pid);

/*
 * The processor time between two glances at a thread. False: unknown, because they are of two
 * threads, or counted differently.
 */
bool vt_glance_cpu(const struct vt_glance *before, const struct vt_glance *after, uint64_t *ns);

#endif
