/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA debugger, cuda-gdb, as a source: finding one that may be started, running it with a
 * deadline, and reading what it says of the kernels that run. It attaches to the process, and
 * stops it meanwhile: nothing here runs unless the user asks for it.
 */
#ifndef VT_KERNELS_KERNELS_H
#define VT_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "model/kernels.h"

/* ---- find.c ---- */

/*
 * The path of the debugger, in arena: what VRAMTAP_CUDA_GDB names; else cuda-gdb in PATH or where
 * the toolkit is installed, as cuda-gdb-minimal if that is beside it (it needs no Python). As root
 * only one that nobody else can change. VT_ERR_NOTFOUND; VT_ERR_PERMISSION: there is one, but
 * others can change it.
 */
struct vt_error *vt_debugger_find(struct vt_arena *arena, const char **path);

/* ---- run.c ---- */

enum vt_debugger_end {
	VT_DEBUGGER_EXITED,
	VT_DEBUGGER_DIED, /* by a signal */
	VT_DEBUGGER_RUNS, /* not ended at the deadline, and left alone */
};

struct vt_debugger_run {
	enum vt_debugger_end end;
	pid_t pid;
	int status;         /* exit status, or the signal */
	struct vt_str said; /* standard output and error together, the first bytes */
	bool cut;           /* it said more */
};

void vt_debugger_run_deinit(struct vt_debugger_run *run);

/*
 * Attaches it to the process, asks what runs, and waits for its end until the deadline. Then it
 * goes on without us, as it does if we are killed: ending it could end the process. An error: it
 * could not be started. run must be zeroed.
 */
struct vt_error *vt_debugger_run(const char *path, pid_t pid, uint64_t deadline_ns,
				 struct vt_debugger_run *run);

/* ---- session.c ---- */

/* Nobody but root and this user can write to it, nor replace what is in it. */
bool vt_debugger_is_safe(const struct stat *st);

/* Where the debugger puts files, as the driver in the process does. */
const char *vt_debugger_tmp(void);

/*
 * Makes the directory that the debugger will use, in the process that becomes it: its pid names
 * it. NULL: it is there, and nobody else can change it; else why not.
 */
const char *vt_debugger_session_create(void);

/* ---- parse.c ---- */

/*
 * Reads what it said, n bytes of any content, into kernels (zeroed): kernels, places, raised, more.
 * Strings go into arena. state becomes TOLD, NONE (it said so, and was attached to a device), or
 * FAILED with why, its last line. holds: it has the process still, and has not said that it let it
 * go. False when out of memory.
 */
bool vt_kernels_parse(struct vt_model_kernels *kernels, struct vt_arena *arena, const char *said,
		      size_t n, bool holds);

#endif
