/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that sleep uninterruptibly. None of them can be stopped, and it is not known for how long: so whoever stops several processes
 * together waits for them before, and does not wait again for those that are left.
 */
#ifndef VT_TARGET_SLEEPERS_H
#define VT_TARGET_SLEEPERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct vt_sleepers {
	pid_t *tids; /* ascending */
	size_t n;
};

/* Waits until no thread of the process sleeps that did so at first, at most wait_ns; left are those that slept all that time. */
void vt_sleepers_init(struct vt_sleepers *sleepers, pid_t pid, uint64_t wait_ns);
void vt_sleepers_deinit(struct vt_sleepers *sleepers);

bool vt_sleepers_has(const struct vt_sleepers *sleepers, pid_t tid);

#endif
