/* SPDX-License-Identifier: Apache-2.0 */
/* What the libraries' readers share: one pool as data, and where objects may be. */
#include <string.h>

#include "walk/libpools/internal.h"

/* Ranges of this size and alignment are glibc's arenas of threads. */
#define ARENA ((uint64_t)64 << 20)

void vt_libpool_deinit(struct vt_libpool *pool)
{
	vt_vec_deinit(&pool->regions);
	vt_vec_deinit(&pool->chunks);
}

bool vt_libpool_is_same(const struct vt_libpool *a, const struct vt_libpool *b)
{
	return !memcmp(&a->rec, &b->rec, sizeof(a->rec)) && a->regions.n == b->regions.n &&
	       a->chunks.n == b->chunks.n &&
	       (!a->regions.n || !memcmp(a->regions.data, b->regions.data,
					 a->regions.n * sizeof(*a->regions.data))) &&
	       (!a->chunks.n ||
		!memcmp(a->chunks.data, b->chunks.data, a->chunks.n * sizeof(*a->chunks.data)));
}

enum vt_libpool_memory vt_libpool_memory(const struct vt_map_entry *entry)
{
	const unsigned int writable = VT_MAP_READ | VT_MAP_WRITE;

	if ((entry->flags & writable) != writable || entry->flags & VT_MAP_SHARED ||
	    entry->path[0] == '/')
		return VT_N_MEMORIES;
	if (!strcmp(entry->path, "[heap]"))
		return VT_MEMORY_HEAP;
	return entry->start % ARENA == 0 && entry->end - entry->start <= ARENA ? VT_MEMORY_ARENA :
										 VT_MEMORY_OTHER;
}
