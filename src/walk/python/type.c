/* SPDX-License-Identifier: Apache-2.0 */
#include "walk/python/type.h"

#include "walk/python/pages.h"

#define MAX_BASES 32      /* of one type; deeper hierarchies do not exist */
#define MAX_TYPES 20000   /* bounds our memory: 2 MB */
#define MAX_FULL_NAME 256 /* of a tp_name, with the module's name in front */

/*
 * Bits of tp_flags (Include/object.h); part of the stable ABI, the same in 3.8 to 3.14. Inherited
 * but for the first two.
 */
enum {
	FLAG_HEAP = 1 << 9,
	FLAG_READY = 1 << 12,
};

static const struct {
	unsigned int bit;
	enum vt_py_kind kind;
	const char *name; /* of the built-in type */
} by_flag[] = {
	{ 24, VT_PY_KIND_INT, "int" },     { 25, VT_PY_KIND_LIST, "list" },
	{ 26, VT_PY_KIND_TUPLE, "tuple" }, { 27, VT_PY_KIND_BYTES, "bytes" },
	{ 28, VT_PY_KIND_STR, "str" },     { 29, VT_PY_KIND_DICT, "dict" },
	{ 30, VT_PY_KIND_EXCEPTION, "" },  { 31, VT_PY_KIND_TYPE, "type" },
};

#define IS_TYPE_FLAG (UINT64_C(1) << 31)

/*
 * Types without a flag. All are static types of C: a class of the program with the same name is a
 * heap type.
 */
static const struct {
	const char *name;
	enum vt_py_kind kind;
} by_name[] = {
	{ "bool", VT_PY_KIND_BOOL },
	{ "float", VT_PY_KIND_FLOAT },
	{ "set", VT_PY_KIND_SET },
	{ "frozenset", VT_PY_KIND_SET },
	{ "NoneType", VT_PY_KIND_NONE },
	{ "ellipsis", VT_PY_KIND_ELLIPSIS },
	{ "cell", VT_PY_KIND_CELL },
	/* torch/csrc/autograd/python_variable.cpp: the base class in C, of 2.1 on and before it */
	{ "torch._C.TensorBase", VT_PY_KIND_TENSOR },
	{ "torch._C._TensorBase", VT_PY_KIND_TENSOR },
};

void vt_py_types_deinit(struct vt_py_types *types)
{
	vt_map_deinit(&types->index);
	vt_vec_deinit(&types->known);
}

/* The parts of a type object that we need. */
struct type_head {
	uint64_t flags, base;
	char name[MAX_FULL_NAME + 1];
};

/*
 * A C string of at most size - 1 bytes; longer ones are cut. False when it cannot be read, or is
 * empty.
 */
static bool read_text(struct vt_memsrc *src, uint64_t addr, char *text, size_t size)
{
	size_t n = size - 1, in_page = VT_PY_PAGE - addr % VT_PY_PAGE;
	int ret = vt_mem_read(src, addr, text, n);

	/* It may end at the end of memory, which ends with a page. */
	if (ret && in_page < n) {
		n = in_page;
		ret = vt_mem_read(src, addr, text, n);
	}
	text[ret ? 0 : n] = '\0';
	return text[0];
}

static bool read_head(const struct vt_python *py, struct vt_memsrc *src, uint64_t type,
		      struct type_head *head)
{
	struct vt_py_view view;

	if (!type || type % 8 ||
	    vt_py_view_read(src, py->layout, type, VT_PY_TYPE_NAME, VT_PY_TYPE_BASE, &view))
		return false;
	head->flags = vt_py_view_u64(&view, py->layout, VT_PY_TYPE_FLAGS);
	head->base = vt_py_view_u64(&view, py->layout, VT_PY_TYPE_BASE);
	return head->flags & FLAG_READY &&
	       read_text(src, vt_py_view_u64(&view, py->layout, VT_PY_TYPE_NAME), head->name,
			 sizeof(head->name));
}

/* Whether there is a type at this address: its own type derives from type. */
static bool is_type(const struct vt_python *py, struct vt_memsrc *src, uint64_t type)
{
	uint64_t meta, flags;

	return !vt_py_field_u64(src, py->layout, type, VT_PY_OBJECT_TYPE, &meta) && meta &&
	       !vt_py_field_u64(src, py->layout, meta, VT_PY_TYPE_FLAGS, &flags) &&
	       flags & FLAG_READY && flags & IS_TYPE_FLAG;
}

static enum vt_py_kind kind_by_name(const struct type_head *head)
{
	for (size_t i = 0; i < sizeof(by_name) / sizeof(by_name[0]) && !(head->flags & FLAG_HEAP);
	     i++) {
		if (!strcmp(head->name, by_name[i].name))
			return by_name[i].kind;
	}
	return VT_PY_KIND_OTHER;
}

/* For a type without a flag: the first base with one of the names. */
static enum vt_py_kind kind_by_bases(const struct vt_python *py, struct vt_memsrc *src,
				     const struct type_head *first)
{
	struct type_head head = *first;
	enum vt_py_kind kind = kind_by_name(&head);

	for (int i = 0; kind == VT_PY_KIND_OTHER && head.base && i < MAX_BASES; i++) {
		if (!read_head(py, src, head.base, &head))
			break;
		kind = kind_by_name(&head);
	}
	return kind;
}

static void classify(const struct vt_python *py, struct vt_memsrc *src,
		     const struct type_head *head, struct vt_py_type *type)
{
	const char *name = head->name;

	type->heap = head->flags & FLAG_HEAP;
	for (size_t i = 0; i < sizeof(by_flag) / sizeof(by_flag[0]); i++) {
		if (!(head->flags >> by_flag[i].bit & 1))
			continue;
		type->kind = by_flag[i].kind;
		name = by_flag[i].name;
	}
	if (type->kind == VT_PY_KIND_INT && kind_by_name(head) == VT_PY_KIND_BOOL) {
		type->kind = VT_PY_KIND_BOOL;
		name = head->name;
	}
	if (type->kind == VT_PY_KIND_UNKNOWN) {
		type->kind = kind_by_bases(py, src, head);
		if (kind_by_name(head) != type->kind)
			name = "";
	}
	type->builtin = !type->heap && !strcmp(head->name, name);
}

/* Heap types have only the name in tp_name, static ones also that of the module in front of it. */
static void copy_name(const struct type_head *head, struct vt_py_type *type)
{
	const char *dot = type->heap ? NULL : strrchr(head->name, '.');
	const char *name = dot && dot[1] ? dot + 1 : head->name;
	size_t n = strnlen(name, VT_PY_TYPE_NAME_MAX);

	memcpy(type->name, name, n);
	type->name[n] = '\0';
}

const struct vt_py_type *vt_py_type_at(struct vt_py_types *types, const struct vt_python *py,
				       struct vt_memsrc *src, uint64_t type)
{
	static const struct vt_py_type unknown;
	const uint64_t *index = vt_map_get(&types->index, type);
	struct vt_py_type found = { 0 };
	struct type_head head;

	if (index)
		return &types->known.data[*index];
	if (types->known.n >= MAX_TYPES)
		return &unknown;
	if (vt_py_has(py->layout, VT_PY_TYPE_BASE) && read_head(py, src, type, &head) &&
	    is_type(py, src, type)) {
		classify(py, src, &head, &found);
		copy_name(&head, &found);
	}

	struct vt_py_type *added = vt_vec_append(&types->known);

	if (!added || !vt_map_put(&types->index, type, types->known.n - 1))
		return NULL;
	*added = found;
	return added;
}

const struct vt_py_type *vt_py_type_of(struct vt_py_types *types, const struct vt_python *py,
				       struct vt_memsrc *src, uint64_t object)
{
	static const struct vt_py_type unknown;
	uint64_t type;

	if (!object || object % 8 ||
	    vt_py_field_u64(src, py->layout, object, VT_PY_OBJECT_TYPE, &type))
		return &unknown;
	return vt_py_type_at(types, py, src, type);
}
