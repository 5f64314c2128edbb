/* SPDX-License-Identifier: Apache-2.0 */
/* Places in Python code that somebody recorded, as an address and an offset: their names and lines. */
#ifndef VT_WALK_PYTHON_PLACES_H
#define VT_WALK_PYTHON_PLACES_H

#include "walk/python/python.h"

struct vt_python_place {
	uint64_t code; /* PyCodeObject */
	int32_t lasti; /* byte offset, as PyFrame_GetLasti() gave it */
	bool valid;    /* there is a code object */
	const char *function; /* as in struct vt_python_frame; owned by struct vt_python */
	const char *file;
	int line;
};

/* Names all places at once. py->threads are used for it: what was there is gone. Fails when the target is gone, or memory is short. */
struct vt_error *vt_python_name_places(struct vt_python *py, struct vt_memsrc *src, struct vt_python_place *places, size_t n);

#endif
