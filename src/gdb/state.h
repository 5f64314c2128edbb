/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of gdb, as gdbcmds/vramtap.gdb prints it to our standard input ("_vramtap state"): the
 * process or core, the settings that matter, the selected thread, and registers. The parser finds
 * columns of gdb's tables by their heads, which gdb 10 to 16 have.
 */
#ifndef VT_GDB_STATE_H
#define VT_GDB_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "collect/held.h"

struct vt_gdb_state {
	pid_t pid;              /* 0: none */
	const char *core;       /* file, NULL: not a core */
	const char *exe;        /* of the core, NULL unknown */
	const char *connection; /* "native", "core", "remote host:1234", "" none */
	int width;              /* of gdb's terminal, 0 unlimited */
	bool python;            /* gdb has Python */
	int selected;           /* gdb's number of the selected thread, 0 none */
	uint64_t passed;        /* bit n: gdb passes signal n on; only SIGINT and SIGTRAP known */
	bool in_call;           /* gdb called a function in the process; it has not returned */
	int frame;              /* level of the selected frame, -1 unknown */
	bool on_device;         /* cuda-gdb shows a kernel, not the selected thread */
	uint64_t address;       /* the argument of "vramtap block" */
	const char *pattern;    /* the argument of "vramtap owners"; NULL none */
	struct vt_str cuda;     /* what cuda-gdb says of kernels; of gdb nothing */
	pid_t python_tid;       /* the thread of python_frame */
	size_t python_frame;    /* the selected Python frame ("vramtap pyframe"); 0 none selected */
	/*
	 * If gdb detached from a process and has not attached again: that process, the selection at
	 * that time, and the stack pointer of the selected thread.
	 */
	pid_t was_pid;
	pid_t was_tid;
	int was_frame;
	uint64_t was_sp;
	bool was_on_device;
	struct vt_held held;
	struct vt_arena arena;
};

/*
 * Reads all of in. VT_ERR_FORMAT when the script of this release does not print this text.
 * VT_ERR_INTERRUPTED when the end is missing: gdb has already printed why, and expects no answer.
 * state must be zeroed.
 */
struct vt_error *vt_gdb_state_init(struct vt_gdb_state *state, FILE *in);
void vt_gdb_state_deinit(struct vt_gdb_state *state);

#endif
