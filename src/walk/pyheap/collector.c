/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collector's lists. Their heads lie in a struct that differs even between patch releases, so
 * they are found by what they are: a head's next and previous both lead back to it.
 */
#include "walk/pyheap/internal.h"

#define FLAGS UINT64_C(3) /* bits of both pointers that are flags */
#define MAX_SIZE 4096u    /* of the collector's struct; some 300 bytes */
#define PYGC_HEAD 16u     /* before each object */
/*
 * struct _gc_runtime_state, 3.8 to 3.14: a pointer, an int, enabled. struct gc_generation: the head
 * of its list, then its threshold.
 */
#define ENABLED 12u
#define THRESHOLD 16u

static bool ring_word(struct vt_pyheap *heap, uint64_t addr, uint64_t *pointer)
{
	if (!vt_pyheap_word(heap, addr, pointer))
		return false;
	*pointer &= ~FLAGS;
	return *pointer >= VT_HEAP_PAGE;
}

static bool is_head(struct vt_pyheap *heap, uint64_t head)
{
	uint64_t next, previous, back, forth;

	return ring_word(heap, head, &next) && ring_word(heap, head + 8, &previous) &&
	       ring_word(heap, next + 8, &back) && ring_word(heap, previous, &forth) &&
	       back == (head & ~FLAGS) && forth == (head & ~FLAGS);
}

/* False: the list does not lead back to its head. */
static bool visit_list(struct vt_pyheap *heap, uint64_t head, size_t *left,
		       void (*visit)(void *arg, uint64_t object), void *arg)
{
	uint64_t at, mark = 0;

	if (!ring_word(heap, head, &at))
		return false;
	/* A mark that moves after 1, 2, 4, … steps finds a ring without the head (Brent). */
	for (uint64_t step = 0; at != (head & ~FLAGS); step++) {
		if (!*left || at == mark)
			return false;
		if (!(step & (step - 1)))
			mark = at;
		--*left;
		visit(arg, at + PYGC_HEAD);
		if (!ring_word(heap, at, &at))
			return false;
	}
	return true;
}

/* Whether collections begin by themselves: gc.disable() and a threshold of 0 keep them from it. */
static void read_settings(struct vt_pyheap *heap, uint64_t gc, uint64_t first_head)
{
	int32_t enabled, threshold;

	heap->collector = VT_PYHEAP_COLLECTOR_UNKNOWN;
	if (!vt_pages_read(heap->pages, gc + ENABLED, &enabled, sizeof(enabled)) ||
	    !vt_pages_read(heap->pages, first_head + THRESHOLD, &threshold, sizeof(threshold)) ||
	    enabled < 0 || enabled > 1 || threshold < 0)
		return;
	heap->collector = !enabled   ? VT_PYHEAP_COLLECTOR_OFF :
			  !threshold ? VT_PYHEAP_COLLECTOR_NO_THRESHOLD :
				       VT_PYHEAP_COLLECTOR_ON;
}

bool vt_pyheap_collectable(struct vt_pyheap *heap, size_t max,
			   void (*visit)(void *arg, uint64_t object), void *arg)
{
	uint64_t gc = heap->interpreter + vt_pyheap_at(heap, VT_PY_INTERP_GC);
	uint32_t size = vt_pyheap_at(heap, VT_PY_GC_SIZE);
	size_t n_heads = 0;

	if (vt_pyheap_has(heap, VT_PY_RUNTIME_GC)) /* 3.8: of the process */
		gc = heap->py->runtime + vt_pyheap_at(heap, VT_PY_RUNTIME_GC);
	else if (!vt_pyheap_has(heap, VT_PY_INTERP_GC))
		return false;
	if (heap->py->free_threaded || !heap->interpreter || size < 16 || size > MAX_SIZE)
		return false;
	/* During a collection objects are in lists whose heads are on a stack. */
	heap->collecting = vt_pyheap_i32(heap, gc, VT_PY_GC_COLLECTING) != 0;
	if (heap->collecting)
		return false;
	/* Debian's 3.13.5 has them at multiples of 4 only. */
	for (uint32_t at = 0; at + 16 <= size; at += 4) {
		if (!is_head(heap, gc + at))
			continue;
		if (!n_heads)
			read_settings(heap, gc, gc + at);
		heap->generation =
			(uint8_t)(n_heads < VT_PYHEAP_PERMANENT ? n_heads : VT_PYHEAP_PERMANENT);
		if (!visit_list(heap, gc + at, &max, visit, arg))
			return false;
		n_heads++;
		at += 12;
	}
	return n_heads > 0;
}
