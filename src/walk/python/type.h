/* SPDX-License-Identifier: Apache-2.0 */
/* What kind of object one is: by its type's flags, and by the names of the built-in types that it derives from. */
#ifndef VT_WALK_PYTHON_TYPE_H
#define VT_WALK_PYTHON_TYPE_H

#include "base/map.h"
#include "walk/python/object.h"

enum vt_py_kind {
	VT_PY_KIND_UNKNOWN, /* no object, or of no type that makes sense */
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
	VT_PY_KIND_TENSOR, /* torch.Tensor and what derives from it */
};

#define VT_PY_TYPE_NAME_MAX 64

struct vt_py_type {
	enum vt_py_kind kind;
	bool builtin;                       /* the built-in type itself, not one that derives from it */
	bool heap;                          /* made by a class statement (or like one) */
	char name[VT_PY_TYPE_NAME_MAX + 1]; /* last part of tp_name, cut; hostile */
};

/* Types that were looked at. Good for one capture: a type can be freed and another be made in its place. */
struct vt_py_types {
	struct vt_map index; /* address → index in known */
	VT_VEC(struct vt_py_type) known;
};

void vt_py_types_deinit(struct vt_py_types *types);

/* The type of an object; its kind is UNKNOWN when there is none. NULL when out of memory. Valid until the next call. */
const struct vt_py_type *vt_py_type_of(struct vt_py_types *types, const struct vt_python *py, struct vt_memsrc *src,
				       uint64_t object);

/* The type that an object of kind TYPE is. */
const struct vt_py_type *vt_py_type_at(struct vt_py_types *types, const struct vt_python *py, struct vt_memsrc *src,
				       uint64_t type);

#endif
