/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single objects by name, without a graph: a module, an attribute, what a container has. Each call
 * is bounded by itself.
 */
#include <string.h>

#include "walk/pyheap/internal.h"

#define MAX_MODULES 65536
#define KEYS_AT_ONCE 512
#define MAX_ATTRIBUTES 65536 /* of a module; an instance has some ten */
#define MAX_INLINE 256       /* CPython shares tables of at most 30 keys */

/*
 * The lengths of the str that are the keys from first on, 0 where there is none. False: one cannot
 * be read.
 */
static bool read_lengths(struct vt_pyheap *heap, const struct vt_pyheap_table *table,
			 uint64_t first, size_t n, uint64_t *lengths)
{
	struct vt_memvec vec[KEYS_AT_ONCE];
	size_t asked = 0;

	for (size_t i = 0; i < n; i++) {
		uint64_t key = vt_pyheap_table_key(heap, table, first + i);

		lengths[i] = 0;
		if (key && !(key & 7))
			vec[asked++] = (struct vt_memvec){
				.addr = key + vt_pyheap_at(heap, VT_PY_UNICODE_LENGTH),
				.buf = &lengths[i],
				.len = sizeof(lengths[i]),
			};
	}
	return !asked || !vt_mem_readv(heap->pages->under, vec, asked);
}

/*
 * sys.modules has some thousand names, nearly each in a page of its own: so only their lengths are
 * read, together, and then the names that are as long.
 */
static uint64_t find_module(struct vt_pyheap *heap, const struct vt_pyheap_table *table,
			    const char *name)
{
	uint64_t lengths[KEYS_AT_ONCE];

	for (uint64_t first = 0; first < table->n; first += KEYS_AT_ONCE) {
		size_t n = table->n - first < KEYS_AT_ONCE ? (size_t)(table->n - first) :
							     KEYS_AT_ONCE;
		bool known = read_lengths(heap, table, first, n, lengths);

		for (size_t i = 0; i < n; i++)
			if ((!known || lengths[i] == strlen(name)) &&
			    vt_pyheap_is_str(heap, vt_pyheap_table_key(heap, table, first + i),
					     name))
				return vt_pyheap_table_value(heap, table, first + i);
	}
	return 0;
}

uint64_t vt_pyheap_module(struct vt_pyheap *heap, const char *name)
{
	uint64_t modules = vt_pyheap_u64(heap, heap->interpreter, VT_PY_INTERP_MODULES);
	struct vt_pyheap_table table;

	if (!modules || !vt_pyheap_table_of(heap, modules, &table))
		return 0;
	table.n = table.n < MAX_MODULES ? table.n : MAX_MODULES;
	return find_module(heap, &table, name);
}

/* Attributes in the object itself, named by the class's table of keys (instance.c says where). */
static uint64_t find_inline(struct vt_pyheap *heap, const struct vt_pyheap_class *cls,
			    uint64_t values, const char *name)
{
	struct vt_pyheap_table table;
	uint64_t at;

	return values && vt_pyheap_table(heap, cls->cached_keys, values, &table) ?
		       vt_pyheap_lookup_in(heap, &table, name, MAX_INLINE, &at) :
		       0;
}

uint64_t vt_pyheap_attribute(struct vt_pyheap *heap, uint64_t object, const char *name)
{
	uint32_t index = vt_pyheap_class_of(heap, object);
	struct vt_pyheap_attributes in = { 0 };
	const struct vt_pyheap_class *cls;
	uint64_t at;

	if (index == VT_GRAPH_NONE)
		return 0;
	cls = &heap->classes.data[index];
	/* A module's dict comes first in it. */
	if (cls->shape == VT_PYHEAP_MODULE)
		in.dict = vt_pyheap_get(heap, object + heap->head);
	else if (vt_pyheap_has(heap, VT_PY_OBJECT_DICT) && cls->flags & VT_PYHEAP_MANAGED_DICT)
		vt_pyheap_managed(heap, object, cls, &in);
	else if (cls->dictoffset > 0)
		in.dict = vt_pyheap_get(heap, object + (uint64_t)cls->dictoffset);
	if (in.dict && !(in.dict & 7))
		return vt_pyheap_lookup(heap, in.dict, name, MAX_ATTRIBUTES, &at);
	return find_inline(heap, cls, in.values, name);
}

uint64_t vt_pyheap_each(struct vt_pyheap *heap, uint64_t object, uint64_t max,
			void (*visit)(void *arg, uint64_t item), void *arg)
{
	uint32_t index = vt_pyheap_class_of(heap, object);
	uint64_t at = 0, n = 0, step = 8, item, hash = 0;

	if (index == VT_GRAPH_NONE)
		return 0;
	switch (heap->classes.data[index].shape) {
	case VT_PYHEAP_LIST:
		at = vt_pyheap_u64(heap, object, VT_PY_LIST_ITEMS);
		n = vt_pyheap_size(heap, object);
		break;
	case VT_PYHEAP_TUPLE:
		at = object + vt_pyheap_at(heap, VT_PY_TUPLE_ITEMS);
		n = vt_pyheap_size(heap, object);
		break;
	case VT_PYHEAP_SET:
		at = vt_pyheap_u64(heap, object, VT_PY_SET_TABLE);
		n = vt_pyheap_u64(heap, object, VT_PY_SET_USED) ?
			    vt_pyheap_u64(heap, object, VT_PY_SET_MASK) + 1 :
			    0;
		step = 16;
		break;
	default:
		return 0;
	}
	for (uint64_t i = 0; i < n && i < max; i++) {
		if (!vt_pyheap_word(heap, at + i * step, &item))
			return i;
		/* A set's item that was removed has the hash -1. */
		if (step == 16 &&
		    (!vt_pyheap_word(heap, at + i * step + 8, &hash) || hash == UINT64_MAX))
			continue;
		if (item)
			visit(arg, item);
	}
	return n;
}
