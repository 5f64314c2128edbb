/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of this room only. */
#ifndef VT_WALK_PYTHON_INTERNAL_H
#define VT_WALK_PYTHON_INTERNAL_H

#include "walk/python/object.h"
#include "walk/python/python.h"

/* ---- scan.c: searches the writable data of an interpreter for what has no symbol ---- */

/* "3.9.18" and the like at text; *end is what follows. micro is -1 if it is missing. */
bool vt_py_parse_version(const char *text, const char **end, int version[3]);

/* The release in sys.version. False if it is not found. */
bool vt_py_scan_version(const struct vt_modules *modules, const struct vt_module *module,
			struct vt_memsrc *src, int version[3]);

/*
 * Finds _PyRuntime in a module that does not export it (stripped static executables): by its cookie
 * (3.13+) if layout is NULL, otherwise by its pointers with this layout. 0 if it is not there. The
 * result is still unproven.
 */
uint64_t vt_py_scan_runtime(const struct vt_modules *modules, const struct vt_module *module,
			    struct vt_memsrc *src, const struct vt_python_layout *layout);

/* ---- capture.c: all threads of a process ---- */

/* vt_python_capture() with at most max_frames frames of each thread. */
struct vt_error *vt_py_capture(struct vt_python *py, struct vt_memsrc *src, size_t max_frames);

/* Forgets what a capture found. */
void vt_py_drop_threads(struct vt_python *py);

/* ---- frame.c: one evaluator frame of a target, in any release's form ---- */

struct vt_py_frame_info {
	struct vt_python_frame frame; /* not resolved */
	uint64_t previous;            /* address of the caller's frame, 0 none */
	/* not a Python function: the evaluator's own mark of where its C call began (3.12+) */
	bool shim;
};

/*
 * The innermost frame of a thread; *frame is 0 if it runs no Python code. Negative errno; -EAGAIN
 * if the thread is between the few instructions that begin a call, where it has none.
 */
int vt_py_frame_top(struct vt_python *py, struct vt_memsrc *src, uint64_t tstate, uint64_t *frame);

/* The probable place of a thread's innermost frame, unchecked; 0 unknown. */
uint64_t vt_py_frame_hint(const struct vt_python *py, struct vt_memsrc *src, uint64_t tstate);

/* Reads one frame. Negative errno. */
int vt_py_frame_read(struct vt_python *py, struct vt_memsrc *src, uint64_t addr,
		     struct vt_py_frame_info *info);

/* ---- join.c ---- */

/*
 * A thread that runs code in several interpreters has a PyThreadState in each: makes one struct
 * vt_python_thread of those with the same pthread, with the frames of all. Those whose running
 * thread is unknown (subinterpreters of 3.8 and 3.9) lose their pthread and tid. Fails only when
 * out of memory.
 */
struct vt_error *vt_py_join_threads(struct vt_python *py);

/* ---- locals.c ---- */

/*
 * Reads the local variables of all captured frames, innermost frames first, until its time is over;
 * from a coherent source only. An unreadable variable loses only itself. Fails only when out of
 * memory, or when the target is gone.
 */
struct vt_error *vt_py_read_locals(struct vt_python *py, struct vt_memsrc *src);

#endif
