/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kind of an object, from its type's flags and the names of the built-in types that it derives
 * from.
 */
#ifndef VT_WALK_PYTHON_TYPE_H
#define VT_WALK_PYTHON_TYPE_H

#include "base/map.h"
#include "walk/python/object.h"

enum vt_py_kind {
	VT_PY_KIND_UNKNOWN, /* not an object, or its type is not plausible */
	VT_PY_KIND_OTHER,
	VT_PY_KIND_NONE,
	VT_PY_KIND_ELLIPSIS,
	VT_PY_KIND_BOOL,
	VT_PY_KIND_INT,
	VT_PY_KIND_FLOAT,
	VT_PY_KIND_STR,
	VT_PY_KIND_BYTES,
	VT_PY_KIND_TUPLE,
	VT_PY_KIND_LIST,
	VT_PY_KIND_DICT,
	VT_PY_KIND_SET,
	VT_PY_KIND_CELL,
	VT_PY_KIND_EXCEPTION,
	VT_PY_KIND_TYPE,   /* the object is a class */
	VT_PY_KIND_TENSOR, /* torch.Tensor and derived classes */
};

#define VT_PY_TYPE_NAME_MAX 64

struct vt_py_type {
	enum vt_py_kind kind;
	bool builtin;                       /* the built-in type itself, not a derived one */
	bool heap;                          /* made by a class statement or the like */
	char name[VT_PY_TYPE_NAME_MAX + 1]; /* last part of tp_name, cut; hostile */
};

/*
 * The types seen so far. Valid for one capture only: the target can free a type and make another in
 * its place.
 */
struct vt_py_types {
	struct vt_map index; /* address → index in known */
	VT_VEC(struct vt_py_type) known;
};

void vt_py_types_deinit(struct vt_py_types *types);

/*
 * The type of an object; kind UNKNOWN when it has none. NULL when out of memory. Valid until the
 * next call.
 */
const struct vt_py_type *vt_py_type_of(struct vt_py_types *types, const struct vt_python *py,
				       struct vt_memsrc *src, uint64_t object);

/* The type that an object of kind TYPE represents. */
const struct vt_py_type *vt_py_type_at(struct vt_py_types *types, const struct vt_python *py,
				       struct vt_memsrc *src, uint64_t type);

#endif
