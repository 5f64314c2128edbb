/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PyTorch's allocator of pinned host memory built by hand in a buffer, byte for byte as g++ lays it
 * out in several releases. The unit test and the fuzzer damage it.
 */
#ifndef VT_TESTS_PINNED_IMAGE_H
#define VT_TESTS_PINNED_IMAGE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "target/maps.h"
#include "vramtap/torch.h"
#include "walk/torch/abi.h"

/* Tests may as well stop here. */
static inline void image_check(bool condition)
{
	if (!condition)
		abort();
}

#define HEAP (512u << 10)
#define MEMORY UINT64_C(0x7e0000000000) /* where the pinned memory is pretended to be */
#define MEMORY_SIZE (UINT64_C(64) << 30)
#define BLOCKS_MAX 400

/* PyTorch's forms. The offsets are those of the compiled classes. */
enum form { PLAIN, STATS, POOLS, FUTURE, UNORDERED, FORMS };

static const struct {
	uint32_t tables; /* blocks_ in the object */
	uint32_t object_size;
	uint32_t stats;  /* the first Stat, 0 none */
	uint32_t vector; /* of statistics */
	uint32_t graph_pools;
	uint32_t size, allocated, events, streams, block_size;
	bool unordered;
} forms[] = {
	[PLAIN] = { 104, 384, 0, 0, 0, 40, 56, 64, 72, 104, false },        /* 2.4 to 2.6 */
	[STATS] = { 104, 768, 424, 488, 0, 40, 56, 64, 72, 104, false },    /* 2.7 to 2.10 */
	[POOLS] = { 296, 1024, 680, 744, 128, 40, 56, 64, 72, 144, false }, /* 2.11 to 2.15 */
	/* a guess: more before size_ and in between */
	[FUTURE] = { 360, 20000, 16488, 552, 128, 72, 88, 96, 104, 160, false },
	[UNORDERED] = { 104, 512, 0, 0, 0, 0, 56, 64, 72, 128, true }, /* 2.0 to 2.3 */
};

struct image {
	struct vt_memsrc src;
	uint8_t *heap;
	size_t used;
	enum form form;
	uint64_t object, entries, empty; /* of the first pool's set; of tables without elements */
	uint64_t tables[2];              /* of each pool */
	uint64_t blocks[BLOCKS_MAX];
	struct vt_pinned_block expected[BLOCKS_MAX];
	size_t n;
	uint64_t sum;
	struct vt_maps maps;
	struct vt_map_entry map;
	void (*after_read)(struct image *image);
	uint64_t reads;
};

/* ---- memory ---- */

static inline int image_read(struct vt_memsrc *src, uint64_t addr, void *buf, size_t len)
{
	struct image *image = (struct image *)src;
	uint64_t start = (uintptr_t)image->heap, end = start + HEAP;

	image->reads++;
	if (addr < start || addr > end || len > end - addr) {
		src->fault_addr = addr < start || addr >= end ? addr : end;
		return -EFAULT;
	}
	memcpy(buf, (const void *)(uintptr_t)addr, len);
	if (image->after_read)
		image->after_read(image);
	return 0;
}

static const struct vt_memsrc_ops image_ops = { .read = image_read };

static inline uint64_t take(struct image *image, size_t size, size_t align)
{
	uint64_t addr;

	image->used = (image->used + align - 1) / align * align;
	image_check(size <= HEAP - image->used);
	addr = (uintptr_t)(image->heap + image->used);
	image->used += size;
	return addr;
}

static inline void poke(uint64_t addr, uint64_t value)
{
	memcpy((void *)(uintptr_t)addr, &value, sizeof(value));
}

static inline uint64_t peek(uint64_t addr)
{
	return vt_load64((const uint8_t *)(uintptr_t)addr);
}

static inline void poke_byte(uint64_t addr, uint8_t value)
{
	*(uint8_t *)(uintptr_t)addr = value;
}

/* ---- tables ---- */

/* n elements of some words each, in every second slot. Returns where the slots are. */
static inline uint64_t put_ska(struct image *image, uint64_t addr, size_t words,
			       const uint64_t *values, size_t n)
{
	size_t slots = 1, slot = 8 + words * 8;
	struct vt_ska table = { .entries = image->empty,
				.shift = 63,
				.max_lookups = 3,
				.max_load_bits = VT_SKA_HALF,
				.n = n };

	while (n && slots < 2 * n)
		slots *= 2;
	if (n) {
		table.mask = slots - 1;
		table.shift = (int8_t)(64 - __builtin_ctzll(slots));
		table.entries = take(image, (slots + 4) * slot, 16);
		for (size_t i = 0; i < slots + 3; i++)
			poke_byte(table.entries + i * slot, i % 2 == 0 && i / 2 < n ? 0 : 0xff);
		for (size_t i = 0; i < n; i++)
			memcpy((void *)(uintptr_t)(table.entries + 2 * i * slot + 8),
			       values + i * words, words * 8);
	}
	memcpy((void *)(uintptr_t)addr, &table, sizeof(table));
	return table.entries;
}

static inline uint64_t put_unordered(struct image *image, uint64_t addr, size_t words,
				     const uint64_t *values, size_t n)
{
	uint64_t next = 0, buckets = n ? take(image, (n + 1) * 8, 8) : addr + 48;
	uint32_t one = 0x3f800000;

	for (size_t i = n; i-- > 0;) {
		uint64_t node = take(image, 8 + words * 8, 16);

		poke(node, next);
		memcpy((void *)(uintptr_t)(node + 8), values + i * words, words * 8);
		next = node;
	}
	poke(addr, buckets);
	poke(addr + 8, n ? n + 1 : 1);
	poke(addr + 16, next);
	poke(addr + 24, n);
	memcpy((void *)(uintptr_t)(addr + 32), &one, 4);
	return next;
}

static inline uint64_t put_table(struct image *image, uint64_t addr, size_t words,
				 const uint64_t *values, size_t n)
{
	return forms[image->form].unordered ? put_unordered(image, addr, words, values, n) :
					      put_ska(image, addr, words, values, n);
}

/* ---- the allocator ---- */

static inline void add_block(struct image *image, uint64_t addr, uint64_t size, uint8_t state,
			     bool is_private)
{
	uint64_t block = take(image, forms[image->form].block_size, 16);
	uint32_t events = state == VT_BLOCK_AWAITING_FREE ? 2 : 0,
		 streams = state == VT_BLOCK_ALLOCATED ? image->n % 2 : 0;
	uint64_t values[] = { 1, 2, 3, 4 };

	poke(block + forms[image->form].size, size);
	poke(block + forms[image->form].size + 8, addr);
	poke_byte(block + forms[image->form].allocated, state == VT_BLOCK_ALLOCATED);
	poke(block + forms[image->form].events, events);
	put_table(image, block + forms[image->form].streams, 2, values, streams);
	image->blocks[image->n] = block;
	image->expected[image->n++] =
		(struct vt_pinned_block){ .addr = addr,
					  .size = size,
					  .object = block,
					  .pool = is_private ? UINT64_C(7) << 32 | 9 : 0,
					  .events = events,
					  .streams = streams,
					  .state = state,
					  .private_pool = is_private };
	image->sum += size;
}

/* The two tables of a pool that has the blocks from first to end. */
static inline void put_pool(struct image *image, int pool, uint64_t tables, size_t first,
			    size_t end)
{
	uint64_t set[BLOCKS_MAX], map[2 * BLOCKS_MAX], entries;
	size_t n = end - first;

	for (size_t i = 0; i < n; i++) {
		/* neither table has them in order */
		size_t a = first + (i * 13 + 3) % n, b = first + (i * 17 + 5) % n;

		set[i] = image->blocks[a];
		map[2 * i] = image->expected[b].addr;
		map[2 * i + 1] = image->blocks[b];
	}
	entries = put_table(image, tables, 1, set, n);
	put_table(image, tables + (forms[image->form].unordered ? 56 : 32), 2, map, n);
	if (pool == 0)
		image->entries = entries;
	image->tables[pool] = tables;
}

static inline void put_stat(uint64_t addr, uint64_t current)
{
	poke(addr, current);
	poke(addr + 8, current + 3);
	poke(addr + 16, current + 5);
	poke(addr + 24, 5);
}

static inline const struct vt_maps *maps_now(void *arg)
{
	return &((struct image *)arg)->maps;
}

/* n blocks; the last n_private are in a private pool. */
static inline void image_init(struct image *image, enum form form, size_t n, size_t n_private)
{
	uint64_t pool, vector, values[3];

	*image = (struct image){ .src = { .ops = &image_ops, .coherent = true }, .form = form };
	image->heap = aligned_alloc(4096, HEAP);
	image_check(image->heap != NULL);
	memset(image->heap, 0, HEAP);
	image->empty = take(image, 128, 16);
	image->object = take(image, forms[form].object_size, 64);
	poke(image->object, 0x1234560);
	/* as malloc() leaves it, or another malloc() does */
	poke(image->object - 8, n % 2 ? 0 : forms[form].object_size + 16 + 1);
	for (size_t i = 0; i < n; i++)
		add_block(image, MEMORY + (i << 22), 1 << (4 + i % 18), i % 3, i >= n - n_private);
	put_pool(image, 0, image->object + forms[form].tables, 0, n - n_private);
	if (forms[form].graph_pools) {
		pool = take(image, 512, 64);
		poke(pool, 7);
		poke(pool + 8, 9);
		put_pool(image, 1, pool + 104, n - n_private, n);
		values[0] = 7;
		values[1] = 9;
		values[2] = pool;
		put_table(image, image->object + forms[form].graph_pools, 3, values, n_private > 0);
		put_table(image, image->object + forms[form].graph_pools + 32, 3, values, 0);
	}
	if (forms[form].stats) {
		put_stat(image->object + forms[form].stats, n);
		put_stat(image->object + forms[form].stats + 32, image->sum);
		for (uint64_t at = image->object + forms[form].vector, i = 0; i < 2;
		     i++, at += 24) {
			vector = take(image, 2048, 16);
			poke(at, vector);
			poke(at + 8, vector + 2048);
			poke(at + 16, vector + 2048);
		}
	}
	image->map = (struct vt_map_entry){ .start = MEMORY,
					    .end = MEMORY + MEMORY_SIZE,
					    .path = "",
					    .flags = VT_MAP_READ | VT_MAP_WRITE };
	image->maps.entries.data = &image->map;
	image->maps.entries.n = 1;
}

static inline void image_deinit(struct image *image)
{
	free(image->heap);
}

#endif
