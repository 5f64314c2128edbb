/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When two frames are the same place of the program: also in two reports, where the same code may lie at other addresses.
 * Several places of one line are one; so are those of one function without lines.
 */
#ifndef VT_MODEL_PLACE_H
#define VT_MODEL_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "model/model.h"

/* NULL is the place of what has no frame: equal to itself only. Equal places have equal hashes. */
bool vt_place_equal(const struct vt_model_frame *a, const struct vt_model_frame *b);
uint64_t vt_place_hash(const struct vt_model_frame *f);

/* The name of its function, short, "??" without one; its file and line: "attn.py:57", "libfoo.so", "libfoo.so+0x12f0",
 * "0x7f0000123456". */
void vt_place_add_function(struct vt_str *text, const struct vt_model_frame *f, bool ascii);
void vt_place_add_where(struct vt_str *text, const struct vt_model_frame *f);

#endif
