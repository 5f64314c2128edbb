/* SPDX-License-Identifier: Apache-2.0 */
/* A child process that works on hostile bytes and can do nothing but compute and write down its results. */
#ifndef VT_BASE_SANDBOX_H
#define VT_BASE_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct vt_sandbox_limits {
	size_t memory_bytes; /* that it may allocate, beside what it has */
	uint64_t cpu_ns; /* of work; time that others had the processor does not count */
};

/*
 * For the child of parent, right after fork(): it ends with its parent, keeps no descriptor but out (which becomes number 3; 0 to 2 are
 * /dev/null), writes no core, is the first to be ended when memory runs out, and may only make system calls that allocate memory, write, and exit; all others fail with
 * EPERM. False when it cannot be confined.
 */
bool vt_sandbox_enter(pid_t parent, int out, const struct vt_sandbox_limits *limits);

#define VT_SANDBOX_OUT 3

/* For a process of ours: how much memory of its own it may allocate, beside what it has. False: there is no limit. */
bool vt_limit_data(size_t bytes);

/* When memory runs out, this process is the first to be ended. */
void vt_be_first_to_go(void);

#endif
