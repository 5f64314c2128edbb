/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One piece of glibc's malloc(), where a word may point to one: without a list of all (chunks.h).
 */
#ifndef VT_WALK_HEAP_CHUNK_H
#define VT_WALK_HEAP_CHUNK_H

#include "walk/heap/pages.h"

/*
 * The usable bytes of the chunk in use that seems to begin at addr, at most max; 0: none does. A
 * guess: its header and the next one's make sense.
 */
uint64_t vt_chunk_guess(struct vt_pages *pages, uint64_t addr, uint64_t max);

#endif
