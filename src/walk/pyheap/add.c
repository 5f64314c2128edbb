/* SPDX-License-Identifier: Apache-2.0 */
/* Adding edges, one at a time or many, to what is certainly an object and to what may be one. */
#include "walk/pyheap/internal.h"

void vt_pyheap_cut(struct vt_pyheap *heap)
{
	heap->graph->nodes.data[heap->graph->exploring].flags |= VT_NODE_CUT;
}

bool vt_pyheap_work(struct vt_pyheap *heap, uint64_t n)
{
	if (n > heap->work_left) {
		vt_pyheap_cut(heap);
		heap->graph->full = true;
		return false;
	}
	heap->work_left -= n;
	return true;
}

/*
 * An object has a plausible count, so that the second word of an array of pointers, one of which
 * happens to be a class, is not taken for a type. The upper half of a count is 0, or from 3.14 on
 * flags in its upper 16 bits (Include/refcount.h).
 */
static bool has_count(struct vt_pyheap *heap, uint64_t object)
{
	uint64_t count = vt_pyheap_get(heap, object);

	/*
	 * There the thread that owns it comes first, then flags and that thread's count, then all
	 * others' count, with two bits below it.
	 */
	if (heap->py->free_threaded)
		return vt_pyheap_get(heap, object + 8) >> 32 ||
		       vt_pyheap_get(heap, object + 16) >> 2;
	return (uint32_t)count && !(count >> 32 & 0xffff) &&
	       (!(count >> 48) || heap->py->layout->minor >= 14);
}

void vt_pyheap_guess(struct vt_pyheap *heap, enum vt_edge_kind kind, uint64_t number, uint64_t word)
{
	uint64_t type;
	bool leaf;

	/* No object is in the lowest page, nor in the kernel's half. */
	if (word & 7 || word < VT_HEAP_PAGE || word >> 47 ||
	    !vt_pyheap_word(heap, word + heap->type_at, &type) || type < VT_HEAP_PAGE ||
	    type >> 47 || vt_pyheap_class(heap, type, &leaf) == VT_GRAPH_NONE || leaf ||
	    !has_count(heap, word))
		return;
	vt_graph_edge(heap->graph, kind, number, word, VT_NODE_PYTHON);
}

void vt_pyheap_array(struct vt_pyheap *heap, enum vt_edge_kind kind, uint64_t first, uint64_t addr,
		     uint64_t n)
{
	struct vt_pyheap_cursor cursor = { 0 };
	uint64_t word;

	if (addr & 7) {
		vt_pyheap_cut(heap);
		return;
	}
	for (uint64_t i = 0; i < n; i++) {
		if (!vt_pyheap_pay(heap, i, n) ||
		    !vt_pyheap_next(heap, &cursor, addr + i * 8, &word)) {
			vt_pyheap_cut(heap);
			return;
		}
		vt_pyheap_add(heap, kind, first + i, word);
	}
}
