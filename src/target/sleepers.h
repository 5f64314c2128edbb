/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that sleep uninterruptibly. They cannot be stopped, and it is unknown for how long. So a
 * caller that stops several processes together waits for these threads first, and does not wait
 * again for those that are left.
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

/*
 * Waits, at most wait_ns, until every thread that slept at the start has woken up; those that slept
 * all the time remain.
 */
void vt_sleepers_init(struct vt_sleepers *sleepers, pid_t pid, uint64_t wait_ns);
void vt_sleepers_deinit(struct vt_sleepers *sleepers);

bool vt_sleepers_has(const struct vt_sleepers *sleepers, pid_t tid);

#endif
