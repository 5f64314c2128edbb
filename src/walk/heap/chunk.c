/* SPDX-License-Identifier: Apache-2.0 */
#include "walk/heap/chunk.h"

/* malloc/malloc.c, 2.26 to 2.41: a size before each chunk, with three flags in its low bits. */
enum {
	FLAGS = 7,
	PREV_INUSE = 1, /* in the next one's size: this one is in use */
	ALIGNMENT = 16,
	SMALLEST = 32,
	HEADER = 8,
};

uint64_t vt_chunk_guess(struct vt_pages *pages, uint64_t addr, uint64_t max)
{
	uint64_t size, next;

	if (addr < ALIGNMENT || addr % ALIGNMENT)
		return 0;
	size = vt_pages_u64(pages, addr - HEADER) & ~(uint64_t)FLAGS;
	if (size < SMALLEST || size - HEADER > max || size % ALIGNMENT)
		return 0;
	next = vt_pages_u64(pages, addr - HEADER + size);
	if (!(next & PREV_INUSE) || (next & ~(uint64_t)FLAGS) < SMALLEST)
		return 0;
	return size - HEADER;
}
