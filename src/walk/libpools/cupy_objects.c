/* SPDX-License-Identifier: Apache-2.0 */
/* The few kinds of Python objects that lead to CuPy's pools. */
#include <string.h>

#include "base/clock.h"
#include "walk/libpools/cupy.h"

#define MAX_ITEMS (UINT64_C(1) << 22)
#define MAX_NAME 80
#define DEADLINE_EVERY 1024

bool vt_cupy_pay(struct vt_cupy_objects *o, uint64_t items)
{
	if (items > o->work)
		return false;
	if (o->work / DEADLINE_EVERY != (o->work - items) / DEADLINE_EVERY &&
	    vt_now_ns() >= o->deadline_ns) {
		o->work = 0;
		return false;
	}
	o->work -= items;
	return true;
}

static uint64_t field(struct vt_cupy_objects *o, uint64_t object, enum vt_py_field which)
{
	return object ? vt_pages_u64(&o->pages, object + o->py->at[which]) : 0;
}

uint64_t vt_cupy_word(struct vt_cupy_objects *o, uint64_t object, uint32_t at)
{
	return object && !(object & 7) ? vt_pages_u64(&o->pages, object + o->head + at) : 0;
}

bool vt_cupy_class_name(struct vt_cupy_objects *o, uint64_t object, char *name, size_t size)
{
	uint64_t type = object & 7 ? 0 : field(o, object, VT_PY_OBJECT_TYPE);
	uint64_t at = type & 7 ? 0 : field(o, type, VT_PY_TYPE_NAME);
	size_t n = 0;

	for (; at && n + 1 < size; n++) {
		if (!vt_pages_read(&o->pages, at + n, &name[n], 1))
			return false;
		if (!name[n])
			return n > 0;
	}
	return false;
}

bool vt_cupy_is(struct vt_cupy_objects *o, uint64_t object, const char *name)
{
	char its[MAX_NAME];

	return vt_cupy_class_name(o, object, its, sizeof(its)) && !strcmp(its, name);
}

uint64_t vt_cupy_size(struct vt_cupy_objects *o, uint64_t object)
{
	uint64_t type = object & 7 ? 0 : field(o, object, VT_PY_OBJECT_TYPE);
	uint64_t size = type & 7 ? 0 : field(o, type, VT_PY_TYPE_BASICSIZE);

	return size > o->head ? size - o->head : 0;
}

/* PyWeakReference: wr_object comes first. Without a referent it is None. */
uint64_t vt_cupy_referent(struct vt_cupy_objects *o, uint64_t weakref)
{
	return vt_cupy_word(o, weakref, 0);
}

static bool each_word(struct vt_cupy_objects *o, uint64_t at, uint64_t n, uint32_t step,
		      bool (*visit)(void *arg, uint64_t object), void *arg)
{
	if (n > MAX_ITEMS || at & 7)
		return false;
	for (uint64_t i = 0; i < n; i++, at += step) {
		uint64_t object;

		if (!vt_cupy_pay(o, 1) || !vt_pages_word(&o->pages, at, &object))
			return false;
		if (object && !visit(arg, object))
			return false;
	}
	return true;
}

/* The index comes before the entries: as many slots as there are, as wide as they must be. */
static bool dict_index(struct vt_cupy_objects *o, uint64_t keys, uint64_t *size)
{
	uint64_t slots;

	if (o->py->at[VT_PY_KEYS_LOG2_INDEX] != VT_PY_NONE) {
		uint64_t log2 = field(o, keys, VT_PY_KEYS_LOG2_INDEX) & 0xff;

		*size = UINT64_C(1) << (log2 & 63);
		return log2 >= 3 && log2 < 32;
	}
	slots = field(o, keys, VT_PY_KEYS_SIZE);
	*size = slots * (slots <= 0xff ? 1 : slots <= 0xffff ? 2 : 4);
	return slots && slots <= UINT32_MAX;
}

/* Keys are numbers, so each entry has a hash, the key and the value (Objects/dictobject.c). */
static bool each_value(struct vt_cupy_objects *o, uint64_t dict,
		       bool (*visit)(void *arg, uint64_t object), void *arg)
{
	enum { ENTRY = 24, VALUE = 16 };
	uint64_t keys = field(o, dict, VT_PY_DICT_KEYS), n, index;

	if (!field(o, dict, VT_PY_DICT_USED))
		return keys != 0;
	if (!keys || keys & 7 || !dict_index(o, keys, &index))
		return false;
	if (o->py->at[VT_PY_KEYS_KIND] != VT_PY_NONE &&
	    (field(o, keys, VT_PY_KEYS_KIND) & 0xff) != o->py->at[VT_PY_KEYS_KIND_GENERAL])
		return false;
	n = field(o, keys, VT_PY_KEYS_NENTRIES);
	return n <= index && each_word(o, keys + o->py->at[VT_PY_KEYS_INDICES] + index + VALUE, n,
				       ENTRY, visit, arg);
}

/* Pairs of key and hash (Include/cpython/setobject.h). A removed one has the hash -1. */
static bool each_element(struct vt_cupy_objects *o, uint64_t set,
			 bool (*visit)(void *arg, uint64_t object), void *arg)
{
	uint64_t mask = field(o, set, VT_PY_SET_MASK), at = field(o, set, VT_PY_SET_TABLE);

	if (mask >= MAX_ITEMS || !at || at & 7)
		return false;
	for (uint64_t i = 0; i <= mask; i++, at += 16) {
		uint64_t key, hash;

		if (!vt_cupy_pay(o, 1) || !vt_pages_word(&o->pages, at, &key) ||
		    !vt_pages_word(&o->pages, at + 8, &hash))
			return false;
		if (key && hash != UINT64_MAX && !visit(arg, key))
			return false;
	}
	return true;
}

bool vt_cupy_each(struct vt_cupy_objects *o, uint64_t container,
		  bool (*visit)(void *arg, uint64_t object), void *arg)
{
	if (vt_cupy_is(o, container, "dict") || vt_cupy_is(o, container, "collections.defaultdict"))
		return each_value(o, container, visit, arg);
	if (vt_cupy_is(o, container, "set"))
		return each_element(o, container, visit, arg);
	if (vt_cupy_is(o, container, "list"))
		return each_word(o, field(o, container, VT_PY_LIST_ITEMS),
				 field(o, container, VT_PY_OBJECT_SIZE), 8, visit, arg);
	if (vt_cupy_is(o, container, "tuple"))
		return each_word(o, container + o->py->at[VT_PY_TUPLE_ITEMS],
				 field(o, container, VT_PY_OBJECT_SIZE), 8, visit, arg);
	return false;
}
