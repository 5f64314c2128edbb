/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VT_WALK_PYTHON_LOCALS_H
#define VT_WALK_PYTHON_LOCALS_H

#include "walk/python/python.h"

/*
 * Reads the local variables of all captured frames, innermost frames first, until the time for it is over; of a coherent source
 * only. What cannot be read costs its own variable. Fails only when out of memory, or when the target is gone.
 */
struct vt_error *vt_py_read_locals(struct vt_python *py, struct vt_memsrc *src);

#endif
