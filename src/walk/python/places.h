/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names and lines of recorded places in Python code. A place is recorded as an address and an
 * offset.
 */
#ifndef VT_WALK_PYTHON_PLACES_H
#define VT_WALK_PYTHON_PLACES_H

#include "walk/python/python.h"

struct vt_python_place {
	uint64_t code;        /* PyCodeObject */
	int32_t lasti;        /* byte offset from PyFrame_GetLasti() */
	bool valid;           /* there is a code object */
	const char *function; /* as in struct vt_python_frame; owned by struct vt_python */
	const char *name;
	const char *file;
	int line;
};

/*
 * Names all places at once. It uses py->threads and overwrites them. Fails when the target is gone
 * or memory runs out.
 */
struct vt_error *vt_python_name_places(struct vt_python *py, struct vt_memsrc *src,
				       struct vt_python_place *places, size_t n);

#endif
