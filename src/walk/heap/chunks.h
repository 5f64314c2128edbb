/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that glibc's malloc() has given out, for 2.31 to 2.41: each piece with its exact
 * beginning and size. Heaps are walked from their beginning, as malloc() lays them out; no symbol
 * is needed. What free() has taken back is left out, also where only a list of a thread's cache or
 * a fast bin knows of it. With another allocator there are no heaps.
 */
#ifndef VT_WALK_HEAP_CHUNKS_H
#define VT_WALK_HEAP_CHUNKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/vec.h"
#include "target/maps.h"
#include "target/resident.h"
#include "vramtap/mem.h"

struct vt_chunk {
	uint64_t addr;  /* what malloc() returned */
	uint64_t bytes; /* that can be used there */
};

/* A stretch of memory in which malloc() has all: what is no chunk there is free or its own. */
struct vt_chunk_heap {
	uint64_t start, end;
	uint32_t first, n;   /* of chunks */
	uint32_t page_index; /* private */
	bool whole;          /* false: it made no sense from end on */
};

struct vt_chunks {
	VT_VEC(struct vt_chunk) chunks;     /* in use; sorted by address */
	VT_VEC(struct vt_chunk_heap) heaps; /* sorted; each mapped chunk is one of its own */
	VT_VEC(uint32_t) page_index;        /* private */
	size_t n_freed;                     /* left out because of caches and fast bins */
	bool main_arena; /* found: else chunks in the fast bins of [heap] count as in use */
	bool full;       /* the bound was reached, or memory */
};

/*
 * resident: where pages are (target/resident.h); chunks that have a mapping of their own are looked
 * for there. NULL: only at the beginnings of mappings. A source that is not coherent gives a list
 * that may lack what changed. VT_ERR_NOMEM, VT_ERR_GONE.
 */
struct vt_error *vt_chunks_init(struct vt_chunks *chunks, struct vt_memsrc *src,
				const struct vt_maps *maps, const struct vt_resident *resident,
				size_t max_chunks);
void vt_chunks_deinit(struct vt_chunks *chunks);

/* The chunk in use that has this address in it; NULL: none. */
const struct vt_chunk *vt_chunks_at(const struct vt_chunks *chunks, uint64_t addr);

/* The usable bytes of the chunk that begins here; 0: none does. */
uint64_t vt_chunks_bytes(const struct vt_chunks *chunks, uint64_t addr);

/* The heap that has this address in it, chunk or not; NULL: malloc() has nothing there. */
const struct vt_chunk_heap *vt_chunks_heap(const struct vt_chunks *chunks, uint64_t addr);

#endif
