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

/*
 * Objects/obmalloc.c: small objects are in pools of blocks of one size. Its header has the number
 * of that size, where the next block will be, and where the last one can be. False when the object
 * is in a pool but no block could hold it. Before it in its block are the collector's words, from
 * 3.11 on those of its dict and weak references, too.
 */
static bool fits_block(struct vt_pyheap *heap, uint64_t object, uint32_t cls)
{
	enum { SIZE, NEXT, LAST, N_WORDS, HEADER = 48, WORDS_AT = 36, N_SIZES = 32, BEFORE = 32 };
	uint64_t pool_size = heap->py->layout->minor < 10 ? 4096 : 16384, size, at, before;
	uint32_t words[N_WORDS];

	at = object % pool_size;
	if (heap->py->free_threaded ||
	    !vt_pages_read(heap->pages, object - at + WORDS_AT, words, sizeof(words)))
		return true;
	size = ((uint64_t)words[SIZE] + 1) * 16;
	if (words[SIZE] >= N_SIZES || words[LAST] != pool_size - size || words[NEXT] > pool_size)
		return true; /* no pool */
	if (at < HEADER)
		return false;
	before = (at - HEADER) % size;
	return at - before < words[NEXT] && before <= BEFORE &&
	       before + (uint64_t)heap->classes.data[cls].basicsize <= size;
}

void vt_pyheap_guess(struct vt_pyheap *heap, enum vt_edge_kind kind, uint64_t number, uint64_t word)
{
	uint64_t type;
	uint32_t cls;
	bool leaf;

	/* No object is in the lowest page, nor in the kernel's half. */
	if (word & 7 || word < VT_HEAP_PAGE || word >> 47 ||
	    !vt_pyheap_word(heap, word + heap->type_at, &type) || type < VT_HEAP_PAGE || type >> 47)
		return;
	cls = vt_pyheap_class(heap, type, &leaf);
	if (cls == VT_GRAPH_NONE || leaf || !has_count(heap, word) || !fits_block(heap, word, cls))
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
