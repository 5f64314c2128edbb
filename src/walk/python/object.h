/* SPDX-License-Identifier: Apache-2.0 */
/* Reading single Python objects of a target: fields by layout, types, strings. */
#ifndef VT_WALK_PYTHON_OBJECT_H
#define VT_WALK_PYTHON_OBJECT_H

#include <errno.h>
#include <string.h>

#include "walk/python/python.h"
#include "walk/python/layout.h"

/* A copy of the head of one foreign struct. */
struct vt_py_view {
	size_t size;
	uint8_t bytes[512];
};

/*
 * Copies the part of the struct at addr that has its fields first to last. -EINVAL when the layout
 * needs more than a view can hold, else the errno of the memory source.
 */
int vt_py_view_read(struct vt_memsrc *src, const struct vt_python_layout *layout, uint64_t addr,
		    enum vt_py_field first, enum vt_py_field last, struct vt_py_view *view);

static inline bool vt_py_has(const struct vt_python_layout *layout, enum vt_py_field field)
{
	return layout->at[field] != VT_PY_NONE;
}

static inline uint64_t vt_py_view_get(const struct vt_py_view *view,
				      const struct vt_python_layout *layout, enum vt_py_field field,
				      size_t width)
{
	uint32_t offset = layout->at[field];
	uint64_t value = 0;

	/* Little-endian: the low bytes come first. A field that this release lacks reads as 0. */
	if (offset < view->size && width <= view->size - offset)
		memcpy(&value, view->bytes + offset, width);
	return value;
}

static inline uint64_t vt_py_view_u64(const struct vt_py_view *view,
				      const struct vt_python_layout *layout, enum vt_py_field field)
{
	return vt_py_view_get(view, layout, field, sizeof(uint64_t));
}

static inline int32_t vt_py_view_i32(const struct vt_py_view *view,
				     const struct vt_python_layout *layout, enum vt_py_field field)
{
	return (int32_t)vt_py_view_get(view, layout, field, sizeof(int32_t));
}

static inline uint8_t vt_py_view_u8(const struct vt_py_view *view,
				    const struct vt_python_layout *layout, enum vt_py_field field)
{
	return (uint8_t)vt_py_view_get(view, layout, field, sizeof(uint8_t));
}

/* One field of the struct at addr. -ENOENT: this release has no such field. */
static inline int vt_py_field_u64(struct vt_memsrc *src, const struct vt_python_layout *layout,
				  uint64_t addr, enum vt_py_field field, uint64_t *value)
{
	return vt_py_has(layout, field) ? vt_mem_read_u64(src, addr + layout->at[field], value) :
					  -ENOENT;
}

static inline int vt_py_field_i32(struct vt_memsrc *src, const struct vt_python_layout *layout,
				  uint64_t addr, enum vt_py_field field, int32_t *value)
{
	return vt_py_has(layout, field) ?
		       vt_mem_read(src, addr + layout->at[field], value, sizeof(*value)) :
		       -ENOENT;
}

/*
 * True if object is exactly of this built-in type: its ob_type is the interpreter's own type
 * object. We know the type object by its symbol. Without a symbol, or when another copy counts
 * (copy relocations of executables), we identify it once by its name.
 */
bool vt_py_is(struct vt_python *py, struct vt_memsrc *src, uint64_t object,
	      enum vt_python_type type);

#define VT_PY_STR_MAX 4096 /* bytes of UTF-8 kept from one string */

/*
 * Reads a str as UTF-8 into buf (VT_PY_STR_MAX + 1 bytes). Cuts longer ones at a character
 * boundary. Surrogates that encode non-UTF-8 bytes (os.fsdecode) become those bytes again. Returns
 * the length, or a negative errno: -EINVAL when object is not a str, or a damaged one.
 */
int vt_py_str_read(struct vt_python *py, struct vt_memsrc *src, uint64_t object, char *buf);

/*
 * The same for the first max (at most VT_PY_STR_MAX) characters of an object that is known to be a
 * str or of a derived type. Here each surrogate becomes three bytes, by UTF-8's general scheme.
 */
int vt_py_str_read_start(const struct vt_python *py, struct vt_memsrc *src, uint64_t object,
			 size_t max, char *buf);

#endif
