/* SPDX-License-Identifier: Apache-2.0 */
/* One evaluator frame of a target, in whatever form its release keeps it. */
#ifndef VT_WALK_PYTHON_FRAME_H
#define VT_WALK_PYTHON_FRAME_H

#include "walk/python/object.h"

struct vt_py_frame_info {
	struct vt_python_frame frame; /* not resolved */
	uint64_t previous;            /* address of the caller's frame, 0 none */
	bool shim; /* not a Python function: the evaluator's own mark of where its C call began (3.12+) */
};

/*
 * The innermost frame of a thread; *frame is 0 when it runs no Python code. Negative errno; -EAGAIN when the thread is between
 * the few instructions that begin a call, where it has none.
 */
int vt_py_frame_top(struct vt_python *py, struct vt_memsrc *src, uint64_t tstate, uint64_t *frame);

/* Where the innermost frame of a thread most probably is, unchecked; 0 unknown. */
uint64_t vt_py_frame_hint(const struct vt_python *py, struct vt_memsrc *src, uint64_t tstate);

/* Reads one frame. Negative errno. */
int vt_py_frame_read(struct vt_python *py, struct vt_memsrc *src, uint64_t addr, struct vt_py_frame_info *info);

#endif
