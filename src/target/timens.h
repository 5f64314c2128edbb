/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clocks of a process in a time namespace of its own (Linux 5.6; restored containers, unshare
 * --time).
 */
#ifndef VT_TARGET_TIMENS_H
#define VT_TARGET_TIMENS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * How far CLOCK_MONOTONIC of process pid is ahead of ours; mostly 0. False: the process has a time
 * namespace of its own, and its clock is unknown.
 */
bool vt_timens_ahead(pid_t pid, int64_t *ahead_ns);

/* The current CLOCK_MONOTONIC of process pid; ours where that is unknown. */
uint64_t vt_timens_now(pid_t pid);

#endif
