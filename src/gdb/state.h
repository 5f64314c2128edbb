/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What gdb has before it, as gdbcmds/vramtap.gdb prints it into our standard input ("_vramtap state"): the process or core, the
 * settings that matter, the selected thread, and registers. Tables of gdb's are read by their column heads, which gdb 10 to 16 have.
 */
#ifndef VT_GDB_STATE_H
#define VT_GDB_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/error.h"
#include "collect/held.h"

struct vt_gdb_state {
	pid_t pid;              /* 0: none */
	const char *core;       /* file, NULL: it is no core */
	const char *exe;        /* of the core, NULL unknown */
	const char *connection; /* "native", "core", "remote host:1234", "" none */
	int width;              /* of gdb's terminal, 0 unlimited */
	int selected;           /* gdb's number of the selected thread, 0 none */
	uint64_t passed;        /* bit n: gdb passes signal n on to the process; only known of SIGINT and SIGTRAP */
	bool in_call;           /* a function that gdb called in the process has not returned */
	int frame;              /* level of the selected frame, -1 unknown */
	bool on_device;         /* cuda-gdb shows a kernel, not that thread */
	uint64_t address;       /* the argument of "vramtap block" */
	pid_t python_tid;       /* the thread of which ... */
	size_t python_frame;    /* ... this Python frame was selected ("vramtap pyframe"); 0 unless chosen */
	/* Before gdb let go of the process, if it has not come back to it: which one, what was selected, and where that thread stood: */
	pid_t was_pid;
	pid_t was_tid;
	int was_frame;
	uint64_t was_sp;
	bool was_on_device;
	struct vt_held held;
	struct vt_arena arena;
};

/*
 * Reads all of in. VT_ERR_FORMAT when it is not what the script of this release prints, VT_ERR_INTERRUPTED when its end is missing: gdb
 * has said why then, and waits for no answer. state must be zeroed.
 */
struct vt_error *vt_gdb_state_init(struct vt_gdb_state *state, FILE *in);
void vt_gdb_state_deinit(struct vt_gdb_state *state);

#endif
