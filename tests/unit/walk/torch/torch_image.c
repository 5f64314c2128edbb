/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/walk/torch/torch_image.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define NONE VT_TORCH_NO_FIELD
#define PAGE 4096u
#define CHUNK_HEADER 8

/*
 * What the releases look like: offsets of this project's research, checked there against real
 * binaries.
 */
struct release {
	uint32_t device_vector, allocator_size;
	uint16_t dca_size, large, active, graph_pools;
	uint16_t sets, pool_size, private_large, private_size;
	uint16_t n_other_tables, other_tables[8]; /* hash tables that stay empty */
	uint16_t stats_extra;
	uint64_t compare; /* what is in the place of the comparison function; 0: one */
	struct vt_torch_block_layout block;
};

#define BLOCK_OLD(mapped_, context_, expandable_, size_)                                         \
	{                                                                                        \
		.size_of = size_, .stream = 8, .stream_uses = 16, .size = 48,                    \
		.requested_size = 56, .pool = 64, .ptr = 72, .allocated = 80, .mapped = mapped_, \
		.prev = 88, .next = 96, .event_count = 104, .context = context_,                 \
		.expandable_segment = expandable_                                                \
	}
#define BLOCK_SHIFTED(by)                                                                          \
	{                                                                                          \
		.size_of = 160 + (by), .stream = 8, .stream_uses = 16, .size = 48 + (by),          \
		.requested_size = 56 + (by), .pool = 64 + (by), .ptr = 72 + (by),                  \
		.allocated = 80 + (by), .mapped = 81 + (by), .prev = 88 + (by), .next = 96 + (by), \
		.event_count = 104 + (by), .context = 120 + (by), .expandable_segment = 152 + (by) \
	}

static const struct release releases[IMAGE_RELEASES] = {
	[IMAGE_2_0] = { 80,
			2048,
			1400,
			992,
			1120,
			1280,
			1,
			64,
			8,
			136,
			4,
			{ 1160, 1184, 1312, 1344 },
			0,
			0,
			BLOCK_OLD(NONE, NONE, NONE, 128) },
	[IMAGE_2_2] = { 16096,
			16384,
			1568,
			992,
			1216,
			1424,
			2,
			112,
			8,
			232,
			3,
			{ 1280, 1456, 1488 },
			0,
			0,
			BLOCK_OLD(81, 112, 144, 152) },
	[IMAGE_2_6] = { 22584,
			22700,
			1688,
			1016,
			1256,
			1520,
			2,
			120,
			8,
			248,
			2,
			{ 1336, 1552 },
			0,
			0,
			BLOCK_OLD(81, 120, 152, 160) },
	[IMAGE_2_10] = { 22584,
			 22700,
			 2860,
			 1024,
			 1264,
			 2704,
			 2,
			 120,
			 32,
			 272,
			 7,
			 { 1320, 1352, 1384, 1416, 1448, 1480, 2736 },
			 0,
			 0,
			 BLOCK_OLD(81, 120, 152, 160) },
	[IMAGE_2_11] = { 22584,
			 22700,
			 2904,
			 1024,
			 1264,
			 2736,
			 2,
			 120,
			 40,
			 280,
			 7,
			 { 1320, 1352, 1384, 1416, 1448, 1480, 2768 },
			 0,
			 0,
			 BLOCK_SHIFTED(8) },
	[IMAGE_2_14] = { 22584,
			 22800,
			 3100,
			 1064,
			 1400,
			 2880,
			 3,
			 168,
			 40,
			 376,
			 7,
			 { 1464, 1496, 1528, 1560, 1592, 1624, 2912 },
			 32,
			 0,
			 BLOCK_SHIFTED(8) },
	[IMAGE_2_15] = { 22584,
			 22800,
			 3112,
			 1064,
			 1400,
			 2880,
			 3,
			 168,
			 40,
			 376,
			 7,
			 { 1464, 1496, 1528, 1560, 1592, 1624, 2912 },
			 32,
			 0x6b726f63,
			 BLOCK_SHIFTED(8) },
	[IMAGE_FUTURE] = { 23000,
			   23200,
			   3400,
			   1096,
			   1448,
			   3000,
			   3,
			   176,
			   48,
			   400,
			   3,
			   { 1500 / 8 * 8, 1600, 3032 },
			   32,
			   0,
			   BLOCK_SHIFTED(24) },
};

/* ---- the memory source ---- */

static bool mapped(const struct image *image, uint64_t addr, size_t len)
{
	uint64_t base = (uint64_t)(uintptr_t)image->base;

	return addr >= base && len <= image->size && addr - base <= image->size - len;
}

static struct image *image_of(struct vt_memsrc *src)
{
	return (struct image *)((char *)src - offsetof(struct image, src));
}

static int image_read(struct vt_memsrc *src, uint64_t addr, void *buf, size_t len)
{
	struct image *image = image_of(src);

	image->reads++;
	if (!mapped(image, addr, len)) {
		src->fault_addr = addr;
		return -EFAULT;
	}
	memcpy(buf, (const void *)(uintptr_t)addr, len);
	if (image->after_read)
		image->after_read(image);
	return 0;
}

static const void *image_direct(struct vt_memsrc *src, uint64_t addr, size_t len)
{
	return mapped(image_of(src), addr, len) ? (const void *)(uintptr_t)addr : NULL;
}

static const struct vt_memsrc_ops copied_ops = { .read = image_read };
static const struct vt_memsrc_ops direct_ops = { .read = image_read, .direct = image_direct };

void image_set_direct(struct image *image, bool direct)
{
	image->src.ops = direct ? &direct_ops : &copied_ops;
}

/* ---- building ---- */

static const struct release *release_of(const struct image *image)
{
	return &releases[image->release];
}

/* A piece of the heap as malloc() gives it: 16-byte aligned, its chunk's size in front. */
static uint64_t new_object(struct image *image, size_t size)
{
	uint64_t addr;

	size = (size + CHUNK_HEADER + 15) / 16 * 16;
	if (image->used + size + CHUNK_HEADER > image->size)
		abort();
	addr = (uint64_t)(uintptr_t)image->base + image->used + CHUNK_HEADER;
	image_poke64(image, addr - 8, size | 1);
	image->used += size;
	return addr;
}

void image_poke64(struct image *image, uint64_t addr, uint64_t value)
{
	if (!mapped(image, addr, 8))
		abort();
	memcpy((void *)(uintptr_t)addr, &value, 8);
}

uint64_t image_peek64(const struct image *image, uint64_t addr)
{
	uint64_t value;

	if (!mapped(image, addr, 8))
		abort();
	memcpy(&value, (const void *)(uintptr_t)addr, 8);
	return value;
}

static void poke8(struct image *image, uint64_t addr, uint8_t value)
{
	if (!mapped(image, addr, 1))
		abort();
	*(uint8_t *)(uintptr_t)addr = value;
}

static void empty_table(struct image *image, uint64_t at)
{
	/* ska's empty_default_table: one for all */
	if (!image->no_entries) {
		image->no_entries = new_object(image, 64);
		memset((void *)(uintptr_t)image->no_entries, 0xff, 48);
	}
	image_poke64(image, at, image->no_entries);
	image_poke64(image, at + 8, 0);
	poke8(image, at + 16, 63);
	poke8(image, at + 17, 3);
	image_poke64(image, at + 16, image_peek64(image, at + 16) | UINT64_C(0x3f000000) << 32);
	image_poke64(image, at + 24, 0);
}

struct insertion {
	uint64_t hash;
	uint64_t words[12];
};

/*
 * A sherwood_v3_table of n elements with `words` words each: Robin Hood insertion, as the original
 * keeps it.
 */
static void fill_table(struct image *image, uint64_t at, const struct insertion *from, size_t n,
		       int words)
{
	size_t slot_size = 8 + 8 * (size_t)words;
	unsigned int log2 = 2;

	if (!n)
		return;
	while ((UINT64_C(1) << log2) < 2 * n)
		log2++;
	for (;; log2++) {
		uint64_t slots = UINT64_C(1) << log2, max = log2 < 4 ? 4 : log2,
			 total = slots + max;
		uint8_t *table = malloc(total * slot_size);
		size_t i;

		for (i = 0; i < total; i++) {
			memset(table + i * slot_size, 0, slot_size);
			table[i * slot_size] = i == total - 1 ? 0 : 0xff;
		}
		for (i = 0; i < n; i++) {
			struct insertion e = from[i];
			uint64_t slot = e.hash * UINT64_C(11400714819323198485) >> (64 - log2);
			uint8_t distance = 0;

			while ((int8_t)table[slot * slot_size] >= 0) {
				uint8_t *have = table + slot * slot_size;

				if (*have < distance) {
					struct insertion other = { 0 };
					uint8_t other_distance = *have;

					memcpy(other.words, have + 8, slot_size - 8);
					*have = distance;
					memcpy(have + 8, e.words, slot_size - 8);
					e = other;
					distance = other_distance;
				}
				slot++;
				distance++;
				if (distance == max)
					break;
			}
			if (distance == max)
				break;
			table[slot * slot_size] = distance;
			memcpy(table + slot * slot_size + 8, e.words, slot_size - 8);
		}
		if (i == n) {
			uint64_t entries = new_object(image, total * slot_size);

			memcpy((void *)(uintptr_t)entries, table, total * slot_size);
			image_poke64(image, at, entries);
			image_poke64(image, at + 8, slots - 1);
			poke8(image, at + 16, (uint8_t)(64 - log2));
			poke8(image, at + 17, (uint8_t)max);
			image_poke64(image, at + 24, n);
			free(table);
			return;
		}
		free(table);
	}
}

static void empty_set(struct image *image, uint64_t at)
{
	image_poke64(image, at,
		     release_of(image)->compare ? release_of(image)->compare : image->code);
	image_poke64(image, at + 8, 0);
	image_poke64(image, at + 16, 0);
	image_poke64(image, at + 24, at + 8);
	image_poke64(image, at + 32, at + 8);
	image_poke64(image, at + 40, 0);
}

/* A balanced tree of n values, without recursion: node i has the children 2i+1 and 2i+2. */
static void fill_set(struct image *image, uint64_t at, const uint64_t *values, size_t n)
{
	uint64_t *nodes;
	size_t left = 0, right = 0;

	if (!n)
		return;
	nodes = malloc(n * sizeof(*nodes));
	for (size_t i = 0; i < n; i++)
		nodes[i] = new_object(image, 40);
	for (size_t i = 0; i < n; i++) {
		image_poke64(image, nodes[i], i % 2);
		image_poke64(image, nodes[i] + 8, i ? nodes[(i - 1) / 2] : at + 8);
		image_poke64(image, nodes[i] + 16, 2 * i + 1 < n ? nodes[2 * i + 1] : 0);
		image_poke64(image, nodes[i] + 24, 2 * i + 2 < n ? nodes[2 * i + 2] : 0);
		image_poke64(image, nodes[i] + 32, values[i]);
	}
	while (2 * left + 1 < n)
		left = 2 * left + 1;
	while (2 * right + 2 < n)
		right = 2 * right + 2;
	image_poke64(image, at + 16, nodes[0]);
	image_poke64(image, at + 24, nodes[left]);
	image_poke64(image, at + 32, nodes[right]);
	image_poke64(image, at + 40, n);
	free(nodes);
}

static void make_pool(struct image *image, uint64_t at, bool small, uint64_t owner)
{
	const struct release *r = release_of(image);

	for (unsigned int i = 0; i < r->sets; i++)
		empty_set(image, at + i * 48);
	poke8(image, at + r->sets * 48u, small);
	image_poke64(image, at + r->sets * 48u + 8, owner);
}

static void make_device(struct image *image, int device)
{
	const struct release *r = release_of(image);
	uint64_t dca = new_object(image, r->dca_size);

	image->dcas[device] = dca;
	image_poke64(image, dca + 16, 1); /* PTHREAD_MUTEX_RECURSIVE_NP */
	if (r->stats_extra)
		empty_table(image, dca + 40 + 576);
	if (r->large - 40u - r->stats_extra - 944 >= 8)
		poke8(image, dca + r->large - 8, (uint8_t)device);
	for (int small = 0; small < 2; small++) {
		uint64_t at = dca + r->large + (small ? r->pool_size : 0u);

		make_pool(image, at, small, 0);
		image->pools[image->n_pools++] =
			(struct image_pool){ .device = device, .addr = at };
	}
	empty_table(image, dca + r->active);
	empty_table(image, dca + r->graph_pools);
	for (int i = 0; i < r->n_other_tables; i++)
		empty_table(image, dca + r->other_tables[i]);
}

static void add_map(struct image *image, uint64_t start, uint64_t end, unsigned int flags)
{
	struct vt_map_entry *map = vt_vec_append(&image->maps.entries);

	*map = (struct vt_map_entry){ .start = start, .end = end, .flags = flags, .path = "" };
}

void image_set_backend(struct image *image, enum image_backend backend)
{
	static const char *const names[] = {
		[IMAGE_NATIVE] = "N3c104cuda20CUDACachingAllocator6Native22NativeCachingAllocatorE",
		[IMAGE_ASYNC] =
			"N3c104cuda20CUDACachingAllocator15CudaMallocAsync24CudaMallocAsyncAllocatorE",
		[IMAGE_PLUGGABLE] = "N5torch4cuda22CUDAPluggableAllocator22CUDAPluggableAllocatorE",
	};
	uint64_t name = new_object(image, 128), info = new_object(image, 24),
		 table = new_object(image, 64);

	memcpy((void *)(uintptr_t)name, names[backend], strlen(names[backend]) + 1);
	image_poke64(image, info + 8, name);
	image_poke64(image, table + 8, info);
	image_poke64(image, image->allocator, table + 16);
}

void image_init(struct image *image, enum image_release release, int n_devices, size_t max_blocks,
		bool direct)
{
	const struct release *r = &releases[release];
	uint64_t vector;

	memset(image, 0, sizeof(*image));
	image_set_direct(image, direct);
	image->src.coherent = true;
	image->release = release;
	image->block = r->block;
	image->n_devices = n_devices;
	/*
	 * the largest are a Block, a node of each set, four slots; and a page behind the end that
	 * cannot be read
	 */
	image->size = (max_blocks * 512 + (4u << 20)) / PAGE * PAGE;
	image->base = mmap(NULL, image->size + PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (image->base == MAP_FAILED || mprotect(image->base + image->size, PAGE, PROT_NONE))
		abort();
	image->used = 8; /* so that objects, behind their chunk's header, are aligned to 16 */
	image->blocks = calloc(max_blocks + 1, sizeof(*image->blocks));
	image->max_blocks = max_blocks;
	image->code = 0x400000;
	add_map(image, image->code, image->code + PAGE, VT_MAP_READ | VT_MAP_EXEC);
	add_map(image, (uint64_t)(uintptr_t)image->base,
		(uint64_t)(uintptr_t)image->base + image->size, VT_MAP_READ | VT_MAP_WRITE);

	image->allocator = new_object(image, r->allocator_size);
	image_set_backend(image, IMAGE_NATIVE);
	if (!n_devices)
		return;
	for (int i = 0; i < n_devices; i++)
		make_device(image, i);
	vector = new_object(image, 8 * IMAGE_DEVICES);
	for (int i = 0; i < n_devices; i++)
		image_poke64(image, vector + 8 * (uint64_t)i, image->dcas[i]);
	image_poke64(image, image->allocator + r->device_vector, vector);
	image_poke64(image, image->allocator + r->device_vector + 8,
		     vector + 8 * (uint64_t)n_devices);
	image_poke64(image, image->allocator + r->device_vector + 16, vector + 8 * IMAGE_DEVICES);
}

void image_deinit(struct image *image)
{
	munmap(image->base, image->size + PAGE);
	free(image->blocks);
	vt_vec_deinit(&image->maps.entries);
}

/* The last hash table in front of graph_pools. */
static uint16_t cuda_events(const struct release *r)
{
	uint16_t last = 0;

	for (int i = 0; i < r->n_other_tables; i++)
		if (r->other_tables[i] < r->graph_pools && r->other_tables[i] > last)
			last = r->other_tables[i];
	return last;
}

void image_layout(const struct image *image, struct vt_torch_layout *layout)
{
	const struct release *r = release_of(image);

	*layout = (struct vt_torch_layout){
		.device_vector = r->device_vector,
		.stats = 40,
		.large_blocks = r->large,
		.small_blocks = r->large + r->pool_size,
		.active_blocks = r->active,
		.graph_pools = r->graph_pools,
		.sets_per_pool = r->sets,
		.pool_is_small = r->sets * 48,
		.pool_owner = r->sets * 48 + 8,
		.pool_size_of = r->pool_size,
		.private_large = r->private_large,
		.stats_extra = r->stats_extra,
		.cuda_events = cuda_events(r),
		.block = image->block,
	};
}

int image_add_private(struct image *image, int device, uint64_t first, uint64_t second)
{
	const struct release *r = release_of(image);
	uint64_t addr = new_object(image, r->private_size);
	int index = image->n_pools;

	if (index + 2 > IMAGE_POOLS)
		abort();
	for (int small = 0; small < 2; small++) {
		uint64_t at = addr + r->private_large + (small ? r->pool_size : 0u);

		make_pool(image, at, small, addr);
		image->pools[image->n_pools++] = (struct image_pool){
			.device = device,
			.addr = at,
			.private_pool = addr,
			.id_first = first,
			.id_second = second,
		};
	}
	return index;
}

static void put_field(struct image *image, uint64_t object, uint16_t offset, uint64_t value)
{
	if (offset != NONE)
		image_poke64(image, object + offset, value);
}

/*
 * A std::shared_ptr: its object, and the control block with a virtual table and counts of owners.
 */
static void put_shared(struct image *image, uint64_t at, uint64_t object)
{
	if (!image->control) {
		image->control = new_object(image, 32);
		image_poke64(image, image->control, image_peek64(image, image->allocator));
		image_poke64(image, image->control + 8, UINT64_C(1) << 32 | 4711);
	}
	image_poke64(image, at, object);
	image_poke64(image, at + 8, image->control);
}

void image_add_segment(struct image *image, int pool_index, uint64_t addr, uint64_t stream,
		       bool expandable, const struct image_spec *specs, size_t n)
{
	const struct vt_torch_block_layout *l = &image->block;
	const struct image_pool *pool = &image->pools[pool_index];
	bool small = pool_index % 2, run = false;
	uint64_t before = 0,
		 segment = expandable && l->expandable_segment != NONE ? new_object(image, 88) : 0;

	for (size_t i = 0; i < n; i++) {
		struct image_block *b = &image->blocks[image->n_blocks++];
		uint64_t object = new_object(image, l->size_of);
		bool active = specs[i].state <= VT_BLOCK_AWAITING_FREE,
		     unmapped = specs[i].state == VT_BLOCK_UNMAPPED;

		if (image->n_blocks > image->max_blocks)
			abort();
		poke8(image, object + l->device, (uint8_t)pool->device);
		image_poke64(image, object + l->stream, stream);
		empty_table(image, object + l->stream_uses);
		image_poke64(image, object + l->size, specs[i].size);
		put_field(image, object, l->requested_size, specs[i].requested);
		image_poke64(image, object + l->pool, pool->addr);
		image_poke64(image, object + l->ptr, addr);
		poke8(image, object + l->allocated, specs[i].state == VT_BLOCK_ALLOCATED);
		if (l->mapped != NONE)
			poke8(image, object + l->mapped, !unmapped);
		image_poke64(image, object + l->prev, before);
		if (before)
			image_poke64(image, before + l->next, object);
		image_poke64(image, object + l->event_count,
			     specs[i].state == VT_BLOCK_AWAITING_FREE);
		put_field(image, object, l->expandable_segment, segment);
		*b = (struct image_block){
			.object = object,
			.pool = pool_index,
			.rec = { .addr = addr,
				 .size = specs[i].size,
				 .requested = unmapped ? 0 : specs[i].requested,
				 .stream = stream,
				 .object = object,
				 .device = (int16_t)pool->device,
				 .state = specs[i].state,
				 .pool = pool->id_first << 32 | pool->id_second },
		};
		b->rec.flags = (uint8_t)((small ? VT_BLOCK_SMALL_POOL : 0) |
					 (pool->private_pool ? VT_BLOCK_PRIVATE_POOL : 0) |
					 (segment ? VT_BLOCK_EXPANDABLE : 0));
		if (active && i % 3 == 0 && l->context != NONE) {
			b->rec.context = object;
			put_shared(image, object + l->context, object);
			put_shared(image, object + l->context + 16, object);
		}
		if (!run || unmapped)
			b->rec.flags |= VT_BLOCK_SEGMENT_START;
		if (!run && !unmapped)
			image->n_expected_segments[pool->device]++;
		run = !unmapped;
		before = object;
		addr += specs[i].size;
	}
}

/* ---- filling ---- */

static uint64_t next_random(uint64_t *seed)
{
	uint64_t x = *seed += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

void image_fill(struct image *image, uint64_t seed, size_t n_blocks, int n_private)
{
	uint64_t segment = 0;
	bool can_expand = image->block.expandable_segment != NONE;

	for (int i = 0; i < n_private; i++)
		image_add_private(image, i % image->n_devices, 0, 1 + (uint64_t)i);
	while (image->n_blocks < n_blocks) {
		struct image_spec specs[40];
		int pool = (int)(next_random(&seed) % (uint64_t)image->n_pools);
		bool expandable = can_expand && next_random(&seed) % 3 == 0;
		size_t n = 1 + next_random(&seed) % 40, left = n_blocks - image->n_blocks;
		/* each has 4 MiB for itself, and they do not come in order of address */
		uint64_t addr = UINT64_C(0x700000000000) + (segment++ * 7919 % (1 << 22) << 22);

		if (n < 2)
			/*
			 * an expandable segment always has memory that is not mapped behind the
			 * rest
			 */
			n = 2;
		if (n > left)
			n = left;
		expandable &= n > 1;
		for (size_t i = 0; i < n; i++) {
			uint64_t kind = next_random(&seed) % 16;

			specs[i].size = 512 * (1 + next_random(&seed) % 100);
			specs[i].requested = specs[i].size - next_random(&seed) % 512;
			specs[i].state = kind < 10 ? VT_BLOCK_ALLOCATED :
					 kind < 11 ? VT_BLOCK_AWAITING_FREE :
						     VT_BLOCK_CACHED;
			if (expandable && (kind == 15 || i == n - 1))
				specs[i].state = VT_BLOCK_UNMAPPED;
		}
		image_add_segment(
			image, pool, addr,
			next_random(&seed) % 3 ? 0 : 0x5500000000 + next_random(&seed) % 4 * 64,
			expandable, specs, n);
	}
}

static void finish_pool(struct image *image, int pool)
{
	const struct release *r = release_of(image);
	uint64_t *values = calloc(image->n_blocks + 1, sizeof(*values));
	size_t n = 0;

	for (size_t i = 0; i < image->n_blocks; i++) {
		if (image->blocks[i].pool == pool && image->blocks[i].rec.state == VT_BLOCK_CACHED)
			values[n++] = image->blocks[i].object;
	}
	fill_set(image, image->pools[pool].addr, values, n);
	if (r->sets == 3)
		fill_set(image, image->pools[pool].addr + 48, values, n);
	n = 0;
	for (size_t i = 0; i < image->n_blocks; i++) {
		if (image->blocks[i].pool == pool &&
		    image->blocks[i].rec.state == VT_BLOCK_UNMAPPED)
			values[n++] = image->blocks[i].object;
	}
	if (r->sets > 1)
		fill_set(image, image->pools[pool].addr + (r->sets - 1) * 48u, values, n);
	free(values);
}

static void add_stat(struct image *image, uint64_t at, uint64_t by)
{
	for (int i = 0; i < 3; i++) /* current, peak, allocated */
		image_poke64(image, at + 8 * (uint64_t)i,
			     image_peek64(image, at + 8 * (uint64_t)i) + by);
}

static void finish_device(struct image *image, int device)
{
	const struct release *r = release_of(image);
	struct insertion *elements = calloc(image->n_blocks + IMAGE_POOLS, sizeof(*elements));
	uint64_t stats = image->dcas[device] + 40, late = stats + 576 + r->stats_extra;
	size_t n = 0;

	for (size_t i = 0; i < image->n_blocks; i++) {
		const struct vt_block_rec *rec = &image->blocks[i].rec;

		if (rec->device != device || rec->state == VT_BLOCK_UNMAPPED)
			continue;
		add_stat(image, stats + 480, rec->size);
		if (!image_peek64(image, rec->object + image->block.prev) &&
		    !(rec->flags & VT_BLOCK_EXPANDABLE))
			add_stat(image, stats + 96, 1);
		if (rec->state == VT_BLOCK_CACHED)
			continue;
		elements[n++] = (struct insertion){ .hash = rec->object, .words = { rec->object } };
		add_stat(image, stats + 192, 1);
		add_stat(image, late, rec->size);
		add_stat(image, late + 192,
			 image_peek64(image, rec->object + image->block.requested_size));
		if (rec->state == VT_BLOCK_ALLOCATED) {
			add_stat(image, stats, 1);
			add_stat(image, stats + 384, rec->size);
		}
	}
	image_poke64(image, late + 288, 3); /* num_alloc_retries, num_ooms */
	image_poke64(image, late + 296, 2);
	fill_table(image, image->dcas[device] + r->active, elements, n, 1);
	n = 0;
	for (int i = 0; i < image->n_pools; i += 2) {
		const struct image_pool *p = &image->pools[i];

		if (p->device == device && p->private_pool)
			elements[n++] = (struct insertion){ .hash = p->id_first * 31 + p->id_second,
							    .words = { p->id_first, p->id_second,
								       p->private_pool } };
	}
	fill_table(image, image->dcas[device] + r->graph_pools, elements, n, 3);
	free(elements);
}

/* ---- events ---- */

#define STREAMS 4
#define EVENT_SIZE 48
#define EVENTS_PER_NODE 10
#define FIRST_PLACE 7 /* in the first node: the ones before were over */

static const struct {
	struct vt_torch_wait wait;
	uint64_t first_id, id; /* in 2.0; since then */
} streams[STREAMS] = {
	{ { .kind = VT_TORCH_STREAM_POOL, .number = 3 }, 3 << 3 | 1, 3 << 5 | 1 << 1 | 1 },
	{ { .kind = VT_TORCH_STREAM_POOL, .priority = -1, .number = 1 },
	  1 << 3 | 2,
	  1 << 5 | 2 << 1 | 1 },
	{ { .kind = VT_TORCH_STREAM_DEFAULT }, 0, 0 },
	{ { .kind = VT_TORCH_STREAM_OTHER, .handle = 0x5500001000, .device = 1 },
	  0x5500001000,
	  0x5500001000 },
};

/* A std::deque of the pairs of n blocks, at 10 words. */
static void put_deque(struct image *image, const uint64_t *objects, size_t n, uint64_t words[10])
{
	size_t nodes = (FIRST_PLACE + n) / EVENTS_PER_NODE + 1, map_size = nodes + 4;
	uint64_t map = new_object(image, map_size * 8), node = 0, first = 0, at;

	for (size_t i = 0; i < nodes; i++) {
		node = new_object(image, EVENTS_PER_NODE * EVENT_SIZE);
		first = i ? first : node;
		image_poke64(image, map + 16 + i * 8, node);
	}
	for (size_t i = 0; i < n; i++) {
		size_t place = FIRST_PLACE + i;

		at = image_peek64(image, map + 16 + place / EVENTS_PER_NODE * 8) +
		     place % EVENTS_PER_NODE * EVENT_SIZE;
		image_poke64(image, at + 32, new_object(image, 8));
		image_poke64(image, at + 40, objects[i]);
	}
	memcpy(words,
	       (uint64_t[10]){ map, map_size, first + FIRST_PLACE * EVENT_SIZE, first,
			       first + EVENTS_PER_NODE * EVENT_SIZE, map + 16,
			       node + (FIRST_PLACE + n) % EVENTS_PER_NODE * EVENT_SIZE, node,
			       node + EVENTS_PER_NODE * EVENT_SIZE, map + 16 + (nodes - 1) * 8 },
	       10 * 8);
}

/* Whether the block, the number-th of those that wait, waits for the stream. */
static bool waits_for(size_t number, int stream)
{
	return (1 + number % 15) >> stream & 1;
}

static struct vt_torch_wait *collect_events(struct image *image, int device, int stream,
					    uint64_t *objects)
{
	struct vt_torch_waits *waits = &image->waits[device];
	struct vt_torch_wait wait = streams[stream].wait;
	size_t number = 0;

	wait.device = (device + wait.device) % image->n_devices;
	for (size_t i = 0; i < image->n_blocks; i++) {
		const struct vt_block_rec *rec = &image->blocks[i].rec;

		if (rec->device != device || rec->state != VT_BLOCK_AWAITING_FREE ||
		    !waits_for(number++, stream))
			continue;
		objects[wait.blocks++] = rec->object;
		wait.bytes += rec->size;
	}
	waits->list[waits->n] = wait;
	return wait.blocks ? &waits->list[waits->n++] : NULL;
}

static void count_events(struct image *image, int device)
{
	size_t number = 0;

	for (size_t i = 0; i < image->n_blocks; i++) {
		const struct vt_block_rec *rec = &image->blocks[i].rec;
		int events = 0;

		if (rec->device != device || rec->state != VT_BLOCK_AWAITING_FREE)
			continue;
		for (int stream = 0; stream < STREAMS; stream++)
			events += waits_for(number, stream);
		image_poke64(image, rec->object + image->block.event_count, (uint64_t)events);
		number++;
	}
}

static void finish_events(struct image *image, int device)
{
	const struct release *r = release_of(image);
	struct insertion elements[STREAMS] = { 0 };
	uint64_t *objects = calloc(image->n_blocks + 1, sizeof(*objects));
	uint64_t table = image->dcas[device] + cuda_events(r), slot;
	size_t n = 0;

	image->waits[device].state = VT_TORCH_WAITS_KNOWN;
	count_events(image, device);
	for (int stream = 0; stream < STREAMS; stream++) {
		struct insertion *e = &elements[n];
		const struct vt_torch_wait *wait = collect_events(image, device, stream, objects);

		if (!wait)
			continue;
		e->words[0] = 0xabcd000000000001 | (uint64_t)wait->device << 8; /* and padding */
		e->words[1] = r->sets == 1 ? streams[stream].first_id : streams[stream].id;
		e->hash = e->words[1] ^ (uint64_t)wait->device;
		put_deque(image, objects, wait->blocks, e->words + 2);
		n++;
	}
	fill_table(image, table, elements, n, 12);
	for (slot = image_peek64(image, table); n && (int8_t)image_peek64(image, slot) < 0;)
		slot += 104;
	image->deques[device] = n ? slot + 24 : 0;
	free(objects);
}

void image_finish(struct image *image)
{
	for (int i = 0; i < image->n_pools; i++)
		finish_pool(image, i);
	for (int i = 0; i < image->n_devices; i++) {
		finish_device(image, i);
		finish_events(image, i);
	}
}

uint64_t image_block_field(const struct image *image, size_t block, uint16_t offset)
{
	return image->blocks[block].object + offset;
}
