/* SPDX-License-Identifier: Apache-2.0 */
#include "walk/pyheap/internal.h"

#define FIRST_WITH_IMMORTALS 12 /* minor of the first release (PEP 683) */

uint64_t vt_pyheap_count(const struct vt_pyheap *heap, uint64_t addr)
{
	uint64_t count;

	/* A free-threaded build defers counts, and splits them. */
	if (heap->py->free_threaded || !vt_pages_word(heap->pages, addr, &count))
		return UINT64_MAX;
	if (heap->py->layout->minor < FIRST_WITH_IMMORTALS)
		return count;
	/* Include/object.h, Include/refcount.h: 32 bits, and immortal when the highest is set. */
	return count >> 31 & 1 ? UINT64_MAX : (uint32_t)count;
}
