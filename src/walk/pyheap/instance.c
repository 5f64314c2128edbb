/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attributes of instances of classes of the program. A dict at a fixed place is one of the class's
 * words; this is for the others:
 *
 *   up to 3.11  at the end of objects of no fixed size (tp_dictoffset is negative)
 *   3.11        before the object: a pointer to values, and one to a dict
 *   3.12        before the object: one word for both, with its lowest bit set for values
 *   3.13 on     before the object a dict, behind it values, which count while they are valid; if
 *               there is a dict, too, they are its own
 *
 * Values are named by the class's table of keys (ht_cached_keys).
 */
#include "walk/pyheap/internal.h"

#define MAX_INLINE 256 /* of one object; CPython shares tables of at most 30 keys */

/* values: the struct that VALUES_ARRAY is in. */
static void add_values(struct vt_pyheap *heap, uint32_t cls, uint64_t values)
{
	struct vt_pyheap_table table;

	if (!vt_pyheap_table(heap, heap->classes.data[cls].cached_keys, values, &table) ||
	    table.n > MAX_INLINE) {
		vt_pyheap_cut(heap);
		return;
	}
	/* The first byte says for how many there is room. */
	if (vt_pyheap_has(heap, VT_PY_VALUES_VALID)) {
		uint8_t room = 0;

		vt_pages_read(heap->pages, values, &room, 1);
		if (table.n > room)
			table.n = room;
	}
	vt_pyheap_array(heap, VT_EDGE_INLINE, 0, table.values, table.n);
}

void vt_pyheap_managed(struct vt_pyheap *heap, uint64_t object, const struct vt_pyheap_class *cls,
		       struct vt_pyheap_attributes *in)
{
	uint64_t dict = vt_pyheap_get(heap, object - vt_pyheap_at(heap, VT_PY_OBJECT_DICT));
	uint64_t values = 0;

	if (vt_pyheap_has(heap, VT_PY_OBJECT_VALUES)) {
		values = vt_pyheap_get(heap, object - vt_pyheap_at(heap, VT_PY_OBJECT_VALUES));
	} else if (vt_pyheap_has(heap, VT_PY_VALUES_VALID)) {
		if (cls->flags & VT_PYHEAP_INLINE_VALUES && !dict)
			values = object + (uint64_t)cls->basicsize;
		if (values && !vt_pyheap_u8(heap, values, VT_PY_VALUES_VALID))
			values = 0;
	} else if (dict & 1) {
		values = dict + 1;
		dict = 0;
	}
	*in = (struct vt_pyheap_attributes){ .dict = dict, .values = values };
}

static void add_managed(struct vt_pyheap *heap, uint64_t object, uint32_t cls)
{
	struct vt_pyheap_attributes in;

	vt_pyheap_managed(heap, object, &heap->classes.data[cls], &in);
	if (in.dict)
		vt_pyheap_add(heap, VT_EDGE_DICT, 0, in.dict);
	if (in.values)
		add_values(heap, cls, in.values);
}

static void add_at_end(struct vt_pyheap *heap, uint64_t object, const struct vt_pyheap_class *cls)
{
	uint64_t size =
		(uint64_t)cls->basicsize + vt_pyheap_size(heap, object) * (uint64_t)cls->itemsize;
	uint64_t at = object + ((size + 7) & ~UINT64_C(7)) + (uint64_t)cls->dictoffset;

	vt_pyheap_add(heap, VT_EDGE_DICT, 0, vt_pyheap_get(heap, at));
}

void vt_pyheap_attributes(struct vt_pyheap *heap, uint64_t object, uint32_t cls)
{
	const struct vt_pyheap_class *known = &heap->classes.data[cls];

	if (vt_pyheap_has(heap, VT_PY_OBJECT_DICT) && known->flags & VT_PYHEAP_MANAGED_DICT)
		add_managed(heap, object, cls);
	else if (known->dictoffset < 0)
		add_at_end(heap, object, known);
}
