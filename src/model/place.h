/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether two frames are the same place of the program. The frames may be from two reports, where
 * the same code is at different addresses. A line is one place; so is a function without lines.
 */
#ifndef VT_MODEL_PLACE_H
#define VT_MODEL_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "model/model.h"

/* NULL stands for "no frame" and equals only NULL. Equal places have equal hashes. */
bool vt_place_equal(const struct vt_model_frame *a, const struct vt_model_frame *b);
uint64_t vt_place_hash(const struct vt_model_frame *f);

/* Adds the short name of the frame's function, "??" without one. */
void vt_place_add_function(struct vt_str *text, const struct vt_model_frame *f, bool ascii);
/* Adds its file and line: "attn.py:57", "libfoo.so", "libfoo.so+0x12f0", "0x7f0000123456". */
void vt_place_add_where(struct vt_str *text, const struct vt_model_frame *f);

/*
 * The innermost Python frame of the program itself; where there is none, the innermost of all; or
 * NULL.
 */
const struct vt_model_frame *vt_place_telling(const struct vt_model_stack *stack);

#endif
