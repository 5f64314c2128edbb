/* SPDX-License-Identifier: Apache-2.0 */
/* Lists, tuples, sets, deques, queues: whose items are numbered, or in no order. */
#include "walk/pyheap/internal.h"

#define TEE_ITEMS 57 /* LINKCELLS in Modules/itertoolsmodule.c */

/* How many items it has; 0 as well when it cannot have as many. */
static uint64_t n_items(struct vt_pyheap *heap, uint64_t object)
{
	uint64_t n = vt_pyheap_size(heap, object);

	if (!n && vt_pyheap_get(heap, object + heap->head))
		vt_pyheap_cut(heap);
	return n;
}

void vt_pyheap_list(struct vt_pyheap *heap, uint64_t object)
{
	uint64_t n = n_items(heap, object);
	/* How many there is room for follows the pointer to them. */
	uint64_t room = vt_pyheap_get(heap, object + vt_pyheap_at(heap, VT_PY_LIST_ITEMS) + 8);

	if (n > room)
		vt_pyheap_cut(heap);
	else if (n)
		vt_pyheap_array(heap, VT_EDGE_ITEM, 0,
				vt_pyheap_u64(heap, object, VT_PY_LIST_ITEMS), n);
}

void vt_pyheap_tuple(struct vt_pyheap *heap, uint64_t object)
{
	uint64_t n = n_items(heap, object);

	if (n)
		vt_pyheap_array(heap, VT_EDGE_ITEM, 0,
				object + vt_pyheap_at(heap, VT_PY_TUPLE_ITEMS), n);
}

/* Pairs of key and hash (Include/cpython/setobject.h). A removed one has the hash -1. */
void vt_pyheap_set(struct vt_pyheap *heap, uint64_t object)
{
	uint64_t mask = vt_pyheap_u64(heap, object, VT_PY_SET_MASK);
	uint64_t at = vt_pyheap_u64(heap, object, VT_PY_SET_TABLE), key, hash;
	struct vt_pyheap_cursor cursor = { 0 };

	if (!vt_pyheap_u64(heap, object, VT_PY_SET_USED))
		return;
	if (mask >= VT_PYHEAP_MAX_ITEMS || at & 7) {
		vt_pyheap_cut(heap);
		return;
	}
	for (uint64_t i = 0; i <= mask; i++, at += 16) {
		if (!vt_pyheap_pay(heap, i, mask + 1) || !vt_pyheap_next(heap, &cursor, at, &key)) {
			vt_pyheap_cut(heap);
			return;
		}
		if (key && vt_pyheap_next(heap, &cursor, at + 8, &hash) && hash != UINT64_MAX)
			vt_pyheap_add(heap, VT_EDGE_ELEMENT, i, key);
	}
}

/*
 * Modules/_collectionsmodule.c, the same in 3.8 to 3.14: ob_size, leftblock, rightblock, leftindex.
 * A block has the one to its left, 64 items, and the one to its right.
 */
#define DEQUE_BLOCK 64

void vt_pyheap_deque(struct vt_pyheap *heap, uint64_t object)
{
	uint64_t left = object + heap->head, n = vt_pyheap_size(heap, object);
	uint64_t block = vt_pyheap_get(heap, left + 8);
	uint64_t index = vt_pyheap_get(heap, left + 24);

	for (uint64_t done = 0; done < n; index = 0) {
		uint64_t part = DEQUE_BLOCK - index;

		if (part > n - done)
			part = n - done;
		/* Blocks that were read as one in a ring are paid for as often as they are read. */
		if (index >= DEQUE_BLOCK || !block || block & 7 || !vt_pyheap_work(heap, 8)) {
			vt_pyheap_cut(heap);
			return;
		}
		vt_pyheap_array(heap, VT_EDGE_ITEM, done, block + 8 + index * 8, part);
		done += part;
		block = vt_pyheap_get(heap, block + 8 + DEQUE_BLOCK * 8);
	}
}

/*
 * Modules/_queuemodule.c of 3.13 on: a bool, then a ring buffer: where the next is put, where it is
 * taken, items, room for how many, how many. (Before 3.13 it is a list.)
 */
void vt_pyheap_queue(struct vt_pyheap *heap, uint64_t object)
{
	uint64_t words[5]; /* put, get, items, room, n */

	if (!vt_pages_read(heap->pages, object + heap->head + 8, words, sizeof(words)) ||
	    words[3] >= VT_PYHEAP_MAX_ITEMS || words[4] > words[3] ||
	    words[1] >= words[3] + !words[3]) {
		vt_pyheap_cut(heap);
		return;
	}

	uint64_t part = words[3] - words[1];

	if (part > words[4])
		part = words[4];
	vt_pyheap_array(heap, VT_EDGE_ITEM, 0, words[2] + words[1] * 8, part);
	vt_pyheap_array(heap, VT_EDGE_ITEM, part, words[2], words[4] - part);
}

/* Only so many of its items are there: the rest was never written. */
void vt_pyheap_tee(struct vt_pyheap *heap, uint64_t object)
{
	int32_t n;

	if (vt_pages_read(heap->pages, object + heap->head + 8, &n, sizeof(n)) && n > 0 &&
	    n <= TEE_ITEMS)
		vt_pyheap_array(heap, VT_EDGE_ITEM, 0, object + heap->head + 24, (uint64_t)n);
}
