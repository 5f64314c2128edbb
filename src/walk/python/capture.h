/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VT_WALK_PYTHON_CAPTURE_H
#define VT_WALK_PYTHON_CAPTURE_H

#include "walk/python/python.h"

/* vt_python_capture() with at most max_frames frames of each thread. */
struct vt_error *vt_py_capture(struct vt_python *py, struct vt_memsrc *src, size_t max_frames);

/* Forgets what a capture found. */
void vt_py_drop_threads(struct vt_python *py);

#endif
