/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A grace period: it lasts until each thread of a running process has slept, or has been on a
 * processor for some time. After it, a thread has finished whatever it had begun before and takes
 * less time than that.
 */
#ifndef VT_TARGET_GRACE_H
#define VT_TARGET_GRACE_H

#include <stdint.h>
#include <sys/types.h>

/*
 * Waits until each thread that exists now was seen asleep, or ran for run_ns since; at most until
 * deadline_ns. Returns how many threads did neither. (The kernel updates the time of a running
 * thread when its clock ticks: every 1 to 10 ms.)
 */
unsigned int vt_grace_wait(pid_t pid, uint64_t run_ns, uint64_t deadline_ns);

#endif
