/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How containers are laid out. A dict has a table of keys. That has an index, then entries in the
 * order in which they were put in. The values are in the entries, or, when the dict was made of an
 * instance's attributes, in an array of their own, for tables of keys are shared by the instances
 * of a class (PEP 412).
 */
#include "walk/pyheap/internal.h"

#define MAX_ENTRIES (UINT64_C(1) << 40)

/* The index comes before the entries: as many slots as there are, as wide as their number needs. */
static bool index_size(struct vt_pyheap *heap, uint64_t keys, uint64_t *size)
{
	uint64_t slots;

	if (vt_pyheap_has(heap, VT_PY_KEYS_LOG2_INDEX)) {
		uint8_t log2 = vt_pyheap_u8(heap, keys, VT_PY_KEYS_LOG2_INDEX);

		*size = UINT64_C(1) << (log2 & 63);
		return log2 >= 3 && log2 < 44;
	}
	slots = vt_pyheap_u64(heap, keys, VT_PY_KEYS_SIZE);
	*size = slots * (slots <= 0xff ? 1 : slots <= 0xffff ? 2 : slots <= UINT32_MAX ? 4 : 8);
	return slots && slots < MAX_ENTRIES;
}

bool vt_pyheap_table(struct vt_pyheap *heap, uint64_t keys, uint64_t values,
		     struct vt_pyheap_table *table)
{
	uint64_t index;

	if (!keys || keys & 7 || !index_size(heap, keys, &index))
		return false;
	table->n = vt_pyheap_u64(heap, keys, VT_PY_KEYS_NENTRIES);
	/* At most two thirds of the slots are used, and a slot has a byte at least. */
	if (table->n > index || table->n > VT_PYHEAP_MAX_ITEMS)
		return false;
	/* From 3.11 on tables of nothing but str have no room for hashes. */
	table->general = !vt_pyheap_has(heap, VT_PY_KEYS_KIND) ||
			 vt_pyheap_u8(heap, keys, VT_PY_KEYS_KIND) ==
				 vt_pyheap_at(heap, VT_PY_KEYS_KIND_GENERAL);
	table->entries = keys + vt_pyheap_at(heap, VT_PY_KEYS_INDICES) + index;
	table->entry_size = table->general ? 24 : 16;
	table->key_at = table->general ? 8 : 0;
	table->values = values ? values + vt_pyheap_at(heap, VT_PY_VALUES_ARRAY) : 0;
	return true;
}

bool vt_pyheap_table_of(struct vt_pyheap *heap, uint64_t dict, struct vt_pyheap_table *table)
{
	return vt_pyheap_table(heap, vt_pyheap_u64(heap, dict, VT_PY_DICT_KEYS),
			       vt_pyheap_u64(heap, dict, VT_PY_DICT_VALUES), table);
}

uint64_t vt_pyheap_table_key(struct vt_pyheap *heap, const struct vt_pyheap_table *table,
			     uint64_t i)
{
	if (i >= table->n)
		return 0;
	return vt_pyheap_get(heap, table->entries + i * table->entry_size + table->key_at);
}

uint64_t vt_pyheap_table_value(struct vt_pyheap *heap, const struct vt_pyheap_table *table,
			       uint64_t i)
{
	if (i >= table->n)
		return 0;
	return vt_pyheap_get(heap, table->values ? table->values + i * 8 :
						   table->entries + i * table->entry_size +
							   table->key_at + 8);
}

bool vt_pyheap_is_str(struct vt_pyheap *heap, uint64_t object, const char *text)
{
	char buf[VT_PYHEAP_MAX_NAME];
	size_t n = strlen(text);
	uint32_t state;
	uint64_t type;

	/* Only names of Python's own are asked for: they are compact and ASCII. */
	if (!object || object & 7 || n > sizeof(buf) ||
	    vt_pyheap_u64(heap, object, VT_PY_UNICODE_LENGTH) != n ||
	    !vt_pages_read(heap->pages, object + vt_pyheap_at(heap, VT_PY_UNICODE_ASCII_DATA), buf,
			   n) ||
	    memcmp(buf, text, n) != 0)
		return false;
	type = vt_pyheap_get(heap, object + heap->type_at);
	state = (uint32_t)vt_pyheap_i32(heap, object, VT_PY_UNICODE_STATE);
	return state & vt_pyheap_at(heap, VT_PY_STATE_ASCII) &&
	       vt_pyheap_u64(heap, type, VT_PY_TYPE_FLAGS) & VT_PYHEAP_STR;
}

uint64_t vt_pyheap_lookup_in(struct vt_pyheap *heap, const struct vt_pyheap_table *table,
			     const char *key, uint64_t max, uint64_t *at)
{
	for (uint64_t i = 0; i < table->n && i < max; i++) {
		if (vt_pyheap_is_str(heap, vt_pyheap_table_key(heap, table, i), key)) {
			*at = i;
			return vt_pyheap_table_value(heap, table, i);
		}
	}
	return 0;
}

uint64_t vt_pyheap_lookup(struct vt_pyheap *heap, uint64_t dict, const char *key, uint64_t max,
			  uint64_t *at)
{
	struct vt_pyheap_table table;

	return vt_pyheap_table_of(heap, dict, &table) ?
		       vt_pyheap_lookup_in(heap, &table, key, max, at) :
		       0;
}

uint64_t vt_pyheap_size(struct vt_pyheap *heap, uint64_t object)
{
	int64_t size = (int64_t)vt_pyheap_get(heap, object + heap->head);

	if (size == INT64_MIN)
		return 0;
	if (size < 0)
		size = -size;
	return (uint64_t)size <= VT_PYHEAP_MAX_ITEMS ? (uint64_t)size : 0;
}
