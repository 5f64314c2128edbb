/* SPDX-License-Identifier: Apache-2.0 */
#include "walk/pyheap/internal.h"

#define FIRST_WITH_IMMORTALS 12 /* minor of the first release (PEP 683) */

/*
 * Include/object.h, Include/internal/pycore_gc.h of free-threaded builds: the owner's tid; two
 * bytes, a lock, bits for the collector; the owner's count; all others' count, which may be
 * negative, above two bits of state. Objects whose count is deferred (functions, modules, types)
 * have references that nobody counts.
 */
static uint64_t split_count(const struct vt_pyheap *heap, uint64_t addr)
{
	enum { BITS_AT = 24, DEFERRED = 1 << 6 };
	uint64_t words[2], count;

	if (!vt_pages_read(heap->pages, addr + 8, words, sizeof(words)) ||
	    words[0] >> BITS_AT & DEFERRED || words[0] >> 32 == UINT32_MAX)
		return UINT64_MAX;
	count = (words[0] >> 32) + (uint64_t)((int64_t)words[1] >> 2);
	return count <= INT32_MAX ? count : UINT64_MAX;
}

uint64_t vt_pyheap_count(const struct vt_pyheap *heap, uint64_t addr)
{
	uint64_t count;

	if (heap->py->free_threaded)
		return split_count(heap, addr);
	if (!vt_pages_word(heap->pages, addr, &count))
		return UINT64_MAX;
	if (heap->py->layout->minor < FIRST_WITH_IMMORTALS)
		return count;
	/* Include/object.h, Include/refcount.h: 32 bits, and immortal when the highest is set. */
	return count >> 31 & 1 ? UINT64_MAX : (uint32_t)count;
}
