/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One look at a pool of RMM's. It knows what it got from below and what is free, by stream; what is
 * in use is the rest, and no table says where one piece of that ends. The fields up to the device
 * are the same from 24.12 to 26.10; the size of what follows them, the upstream, is not. So
 * current_pool_size_, the maximum (a std::optional) and upstream_blocks_ (a std::set) are where the
 * sum of the set is the size.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "walk/libpools/libstdcxx.h"
#include "walk/libpools/rmm.h"

#define MAX_COPY ((size_t)512 << 20)
#define MAX_BYTES (UINT64_C(1) << 43)
#define MAX_ADDRESS (UINT64_C(1) << 57)
#define MAX_BLOCKS (UINT64_C(1) << 22)
#define MAX_STREAMS 65536
#define MAX_DEVICES 64
#define UNIT UINT64_C(256) /* CUDA_ALLOCATION_ALIGNMENT; an upstream has it, too */

/* From the beginning of stream_free_blocks_. Pools that are polymorphic have their table before. */
enum {
	MAP_HEADER = 8,
	MUTEX = 104, /* glibc: the word that is not 0 while a thread has it */
	DEVICE = 144,
	SIZES_FIRST = 152, /* current_pool_size_ is here at the earliest */
	SIZES_LAST = 232,  /* and at the latest */
};

/* From current_pool_size_. */
enum { MAXIMUM = 8, HAS_MAXIMUM = 16, SET_HEADER = 32 };

/* Up to 26.04, from 26.06 on: these are tried first. */
static const uint32_t sizes_known[] = { 168, 208 };

/* Of a node of stream_free_blocks_: a stream, its event, and the free list with its table. */
enum { EVENT = 8, LIST = 24 };

struct block {
	uint64_t start, size;
	bool is_head; /* it begins what was got from below */
};

struct look {
	struct vt_pages pages;
	struct vt_libpool *pool;
	uint64_t map, sizes; /* addresses: of the map, of current_pool_size_ */
	uint64_t size, maximum;
	bool has_maximum, no_memory;
	uint64_t last, n, sum; /* of the tree that is being walked */
	uint64_t free_bytes;
};

static bool read_block(struct look *l, uint64_t at, struct block *block)
{
	uint64_t words[3];

	if (!vt_pages_read(&l->pages, at, words, sizeof(words)))
		return false;
	*block = (struct block){ words[0], words[1], (uint8_t)words[2] == 1 };
	return block->start && block->start < MAX_ADDRESS && block->size &&
	       block->size <= MAX_BYTES && (uint8_t)words[2] <= 1;
}

/* ---- what it got from below ---- */

static bool take_region(void *arg, uint64_t at)
{
	struct look *l = arg;
	struct vt_libpool_region *region;
	struct block block;

	if (!read_block(l, at, &block) || !block.is_head || block.start < l->last ||
	    block.start % UNIT)
		return false;
	region = vt_vec_append(&l->pool->regions);
	if (!region) {
		l->no_memory = true;
		return false;
	}
	*region = (struct vt_libpool_region){ block.start, block.size };
	l->last = block.start + block.size;
	l->sum += block.size;
	return l->sum <= l->size;
}

static bool try_sizes_at(struct look *l, uint32_t at)
{
	uint64_t words[3];

	l->sizes = l->map + at;
	if (!vt_pages_read(&l->pages, l->sizes, words, sizeof(words)) || words[0] > MAX_BYTES ||
	    (uint8_t)words[2] > 1)
		return false;
	l->size = words[0];
	l->maximum = words[1];
	l->has_maximum = (uint8_t)words[2];
	if (l->has_maximum && l->maximum < l->size)
		return false;
	l->last = l->sum = 0;
	l->pool->regions.n = 0;
	return vt_cxx_tree(&l->pages, l->sizes + SET_HEADER, MAX_BLOCKS, take_region, l) &&
	       l->sum == l->size;
}

static bool find_sizes(struct look *l)
{
	for (size_t i = 0; i < sizeof(sizes_known) / sizeof(sizes_known[0]); i++)
		if (try_sizes_at(l, sizes_known[i]))
			return true;
	for (uint32_t at = SIZES_FIRST; !l->no_memory && at <= SIZES_LAST; at += 8)
		if (try_sizes_at(l, at))
			return true;
	return false;
}

/* ---- what is free ---- */

static bool take_free(void *arg, uint64_t at)
{
	struct look *l = arg;
	struct vt_libpool_chunk *chunk;
	struct block block;

	if (!read_block(l, at, &block) || l->pool->chunks.n >= MAX_BLOCKS)
		return false;
	chunk = vt_vec_append(&l->pool->chunks);
	if (!chunk) {
		l->no_memory = true;
		return false;
	}
	*chunk = (struct vt_libpool_chunk){ .start = block.start, .size = block.size };
	chunk->in_use = block.is_head; /* until it is checked */
	return true;
}

/* Lists are in the order of events. */
static bool take_list(void *arg, uint64_t at)
{
	struct look *l = arg;
	uint64_t event = vt_pages_u64(&l->pages, at + EVENT);

	if (l->n++ && event <= l->last)
		return false;
	l->last = event;
	return vt_cxx_list(&l->pages, at + LIST, MAX_BLOCKS, take_free, l);
}

static int compare_chunks(const void *pa, const void *pb)
{
	const struct vt_libpool_chunk *a = pa, *b = pb;

	return (a->start > b->start) - (a->start < b->start);
}

/*
 * Each is in one region, and it is its head if it begins there. Sizes are rounded up; only what is
 * left at the end of a region may have any.
 */
static bool check_free(struct look *l)
{
	const struct vt_libpool *pool = l->pool;
	uint64_t end = 0;
	size_t k = 0;

	for (size_t i = 0; i < pool->chunks.n; i++) {
		struct vt_libpool_chunk *chunk = &pool->chunks.data[i];
		const struct vt_libpool_region *region;

		while (k < pool->regions.n &&
		       pool->regions.data[k].start + pool->regions.data[k].size <= chunk->start)
			k++;
		if (k == pool->regions.n)
			return false;
		region = &pool->regions.data[k];
		if (chunk->start < region->start || chunk->start < end ||
		    chunk->size > region->size - (chunk->start - region->start) ||
		    chunk->in_use != (chunk->start == region->start) ||
		    (chunk->start - region->start) % UNIT ||
		    (chunk->size % UNIT &&
		     chunk->start + chunk->size != region->start + region->size))
			return false;
		chunk->in_use = 0;
		end = chunk->start + chunk->size;
		l->free_bytes += chunk->size;
	}
	return true;
}

static bool read_free(struct look *l)
{
	l->n = l->last = 0;
	if (!vt_cxx_tree(&l->pages, l->map + MAP_HEADER, MAX_STREAMS, take_list, l))
		return false;
	if (l->pool->chunks.n)
		qsort(l->pool->chunks.data, l->pool->chunks.n, sizeof(*l->pool->chunks.data),
		      compare_chunks);
	return check_free(l);
}

/* ---- all of it ---- */

static void fill(struct look *l, uint32_t device)
{
	struct vt_libpool_rec *rec = &l->pool->rec;

	rec->object = l->map;
	rec->kind = VT_LIBPOOL_RMM;
	rec->state = VT_LIBPOOL_EXACT;
	rec->device = (int32_t)device;
	rec->held_bytes = l->size;
	rec->known = VT_LIBPOOL_HELD;
	if (l->has_maximum) {
		rec->limit_bytes = l->maximum;
		rec->known |= VT_LIBPOOL_LIMIT;
	}
	snprintf(rec->name, sizeof(rec->name), "pool_memory_resource");
}

static enum vt_rmm_outcome look(struct look *l)
{
	uint64_t mutex, device, mutex_after;

	if (!vt_pages_word(&l->pages, l->map + MUTEX, &mutex) ||
	    !vt_pages_word(&l->pages, l->map + DEVICE, &device) ||
	    (uint32_t)device >= MAX_DEVICES || !find_sizes(l))
		return l->no_memory ? VT_RMM_NO_MEMORY : VT_RMM_NOT_ONE;
	fill(l, (uint32_t)device);
	if (!read_free(l)) { /* which confirm where the regions are */
		l->pool->regions.n = l->pool->chunks.n = 0;
		return l->no_memory ? VT_RMM_NO_MEMORY : VT_RMM_PART;
	}
	l->pool->rec.used_bytes = l->size - l->free_bytes;
	l->pool->rec.known |= VT_LIBPOOL_USED;
	if (vt_mem_read(l->pages.under, l->map + MUTEX, &mutex_after, sizeof(mutex_after)))
		return VT_RMM_NOT_ONE;
	return (uint32_t)mutex || (uint32_t)mutex_after ? VT_RMM_LOCKED : VT_RMM_READ;
}

enum vt_rmm_outcome vt_rmm_read(struct vt_memsrc *mem, uint64_t map, struct vt_libpool *pool)
{
	struct look l = { .pool = pool, .map = map };
	struct vt_error *err = vt_pages_init(&l.pages, mem, MAX_COPY);
	enum vt_rmm_outcome outcome;

	if (err) {
		vt_error_destroy(err);
		return VT_RMM_NO_MEMORY;
	}
	outcome = look(&l);
	vt_pages_deinit(&l.pages);
	return outcome;
}
