/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Python values as short text. Simple ones look as Python prints them. No code runs in the target.
 */
#ifndef VT_WALK_PYTHON_VALUE_H
#define VT_WALK_PYTHON_VALUE_H

#include "base/str.h"
#include "walk/python/tensor.h"
#include "walk/python/type.h"

struct vt_py_values {
	struct vt_python *py;
	struct vt_memsrc *src;
	struct vt_py_types types;
};

void vt_py_values_deinit(struct vt_py_values *values);

/*
 * Adds the text of an object, a few hundred bytes at most. The text is hostile: class names are
 * unchanged. Unreadable parts become "?". False when out of memory.
 */
bool vt_py_value_text(struct vt_py_values *values, uint64_t object, struct vt_str *out);

/* The object that a cell holds; 0 when empty. An object that is not a cell is its own value. */
uint64_t vt_py_cell_value(struct vt_py_values *values, uint64_t object);

#endif
