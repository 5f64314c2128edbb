/* SPDX-License-Identifier: Apache-2.0 */
/* NumPy's types of numbers. Private to src/walk/arrays. */
#ifndef VT_WALK_ARRAYS_DTYPE_H
#define VT_WALK_ARRAYS_DTYPE_H

#include "walk/pyheap/pyheap.h"

struct vt_dtype {
	const char *name; /* ours: "float32" */
	uint32_t bytes;
};

/* Of a numpy.dtype; NULL: none that is known here. */
const struct vt_dtype *vt_dtype_at(struct vt_pyheap *heap, uint64_t addr);

#endif
