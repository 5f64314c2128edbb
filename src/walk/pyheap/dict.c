/* SPDX-License-Identifier: Apache-2.0 */
/* What a dict refers to. */
#include "walk/pyheap/internal.h"

/* sys.last_value and its like are roots: held by nothing else, they are left over. */
static bool is_last(const struct vt_pyheap *heap, uint64_t entry)
{
	for (size_t i = 0; i < sizeof(heap->last) / sizeof(heap->last[0]); i++) {
		if (heap->last[i] == entry)
			return true;
	}
	return false;
}

static void add_entries(struct vt_pyheap *heap, const struct vt_pyheap_table *table, bool of_sys)
{
	struct vt_pyheap_cursor cursor = { 0 };
	uint64_t at = table->entries + table->key_at, key, value;

	for (uint64_t i = 0; i < table->n; i++, at += table->entry_size) {
		if (!vt_pyheap_pay(heap, i, table->n) ||
		    !vt_pyheap_next(heap, &cursor, at + 8, &value)) {
			vt_pyheap_cut(heap);
			return;
		}
		if (!value /* deleted */ || (of_sys && is_last(heap, i)))
			continue;
		vt_pyheap_add(heap, VT_EDGE_VALUE, i, value);
		if (table->general && vt_pyheap_next(heap, &cursor, at, &key))
			vt_pyheap_add(heap, VT_EDGE_KEY, i, key);
	}
}

void vt_pyheap_dict(struct vt_pyheap *heap, uint64_t object)
{
	struct vt_pyheap_table table;

	if (!vt_pyheap_table_of(heap, object, &table)) {
		vt_pyheap_cut(heap);
		return;
	}
	if (table.values)
		vt_pyheap_array(heap, VT_EDGE_VALUE, 0, table.values, table.n);
	else
		add_entries(heap, &table, object == heap->sysdict);
}
