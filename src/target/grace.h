/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A grace period: until each thread of a process that goes on has slept, or has been on a processor for some time. What a thread does
 * in less time than that, and had begun before, is done then.
 */
#ifndef VT_TARGET_GRACE_H
#define VT_TARGET_GRACE_H

#include <stdint.h>
#include <sys/types.h>

/*
 * Waits until each thread that there is now has been seen asleep, or ran for run_ns since; at most until deadline_ns. Returns how many
 * threads did neither. (The kernel adds up the time of a thread that runs when its clock ticks: 1 to 10 ms.)
 */
unsigned int vt_grace_wait(pid_t pid, uint64_t run_ns, uint64_t deadline_ns);

#endif
