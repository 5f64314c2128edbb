/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A child process that works on hostile bytes and can do nothing but compute and write down its
 * results.
 */
#ifndef VT_BASE_SANDBOX_H
#define VT_BASE_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct vt_sandbox_limits {
	size_t memory_bytes; /* that it may allocate, in addition to what it has */
	uint64_t cpu_ns;     /* CPU time of its own, not wall-clock time */
};

/*
 * For the child of parent, right after fork(). The child ends with its parent, keeps no descriptor
 * but out (which becomes number 3; 0 to 2 are /dev/null), writes no core, and is the first to be
 * killed when memory runs out. It may only make system calls that allocate memory, write, and exit;
 * all others fail with EPERM. False when it cannot be confined.
 */
bool vt_sandbox_enter(pid_t parent, int out, const struct vt_sandbox_limits *limits);

#define VT_SANDBOX_OUT 3

/*
 * Limits how much more private memory this process (one of ours) may allocate; for_good: it cannot
 * lift that again. A lower limit that is already set stays. False: there is no limit.
 */
bool vt_limit_data(size_t bytes, bool for_good);

/* When memory runs out, the kernel kills this process first. */
void vt_be_first_to_go(void);

/*
 * For a child of such a process that becomes another program, and that must not end early: lifts
 * the limits that can be lifted.
 */
void vt_be_as_before(void);

#endif
