/* SPDX-License-Identifier: Apache-2.0 */
/* What the recorder must know about the target's interpreter. */
#ifndef VT_WALK_RECORDER_PYTHON_H
#define VT_WALK_RECORDER_PYTHON_H

#include "vramtap/recorder.h"
#include "walk/python/python.h"

/*
 * Fills out from an interpreter that vt_python_init() has found. VT_ERR_UNSUPPORTED: the recorder
 * cannot read its frames (the message says why). VT_ERR_BUSY: its layout is not confirmed yet,
 * because none of its threads runs Python code.
 */
struct vt_error *vt_recorder_python(struct vt_python *py, struct vt_modules *modules,
				    struct vt_memsrc *src, struct vt_recorder_python *out);

#endif
