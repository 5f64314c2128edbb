/* SPDX-License-Identifier: Apache-2.0 */
/* vramtap run: handles a process at the gate. */
#ifndef VT_RECORD_RUN_GATE_H
#define VT_RECORD_RUN_GATE_H

#include <stdbool.h>
#include <sys/types.h>

#include "record/target.h"

struct vt_run_gate {
	struct vt_record_request request;
	bool children; /* processes that it starts are recorded as well */
	bool quiet;
	const char *on_oom; /* pattern of the files for errors that are caught; NULL: none are */
	unsigned int *processes; /* how many are recorded; shared with other processes of ours */
	int life;                /* a pipe that ends with vramtap run */
};

/*
 * Switches recording on in a process that waits at the gate, lets it go on, and stays until
 * PyTorch's allocator is recorded too (with on_oom: to catch errors), or the process or vramtap run
 * has ended. Runs in a separate
 * process. Returns its exit status: 0 it is recorded.
 */
int vt_run_gate(const struct vt_run_gate *gate, pid_t pid, int fd);

#endif
