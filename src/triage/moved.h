/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a process makes progress after it was read: two samples of its main thread, without
 * stopping it. A single moment cannot tell a rank that hangs in a collective from one that is there
 * for a millisecond in every step.
 */
#ifndef VT_TRIAGE_MOVED_H
#define VT_TRIAGE_MOVED_H

#include <stdbool.h>
#include <stdint.h>

#include "target/proc.h"

struct vt_moved {
	pid_t pid; /* 0: no sample was taken */
	uint64_t glanced_ns;
	struct vt_thread_sample sample;
};

/*
 * Right after its threads were released. Takes some milliseconds: a thread that slept has to fall
 * asleep again.
 */
void vt_moved_begin(struct vt_moved *moved, pid_t pid);

/*
 * 1: the thread went on; 0: it slept on; -1: unknown, because it ran, or sleeps for short times to
 * poll something. was: its state when the threads were stopped. Waits until some 200 ms have passed
 * since the first sample, but not past the deadline.
 */
int vt_moved_end(const struct vt_moved *moved, char was, uint64_t deadline_ns);

#endif
