/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A SingleDeviceMemoryPool. It gets memory by one cudaMalloc() after the other, each of which has
 * an object (Memory), and cuts it into chunks. The chunks of one memory are a list, in the order of
 * their addresses. Free chunks are in arenas, one a stream. Chunks in use are in a dict up to 14.0;
 * from 14.1 on only arrays refer to them, and the pool has a counter.
 *
 * A layout counts if the class has its size and the pool's reference to itself is where the layout
 * has it. What was read is believed as a whole only if the chunks tile their memories, and the sums
 * are the pool's own counters.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "walk/libpools/cupy.h"

#define CLASS(name) "cupy.cuda.memory." name
#define MAX_NAME 80
#define MAX_CHUNKS (1u << 20)
#define MAX_DEVICES 1024
#define NOWHERE UINT16_MAX

/* Words, counted from behind the head of an object. cupy/cuda/memory.pyx of each release. */
struct vt_cupy_layout {
	uint16_t size; /* of an object of the class */
	uint16_t in_use, arenas, held, used, limit, self, device;
	bool weak_arenas; /* the dict refers weakly to arenas; free chunks are in a std::set */
};

static const struct vt_cupy_layout layouts[] = {
	/* 12.0 to 13.6: three locks are objects */
	{ 96, 16, 24, 32, NOWHERE, 40, 56, 88, false },
	/* 14.0: three std::recursive_mutex */
	{ 192, 16, 24, 32, NOWHERE, 40, 56, 184, false },
	/* 14.1 on: one std::mutex, three atomic counters */
	{ 112, NOWHERE, 16, 64, 72, 80, 96, 104, true },
};

/* The other classes are the same in all of them. */
enum {
	CHUNK_MEMORY = 8,
	CHUNK_OFFSET = 16,
	CHUNK_SIZE = 24,
	CHUNK_PREV = 40,
	CHUNK_NEXT = 48,
	MEMORY_START = 0,
	MEMORY_SIZE = 8,
	MEMORY_DEVICE = 16,
	ARENA_LIST = 8, /* lists of sets of free chunks; from 14.1 on of those that wait */
	ARENA_SET = 16, /* std::set<std::pair<size_t, uintptr_t>>, 14.1 on */
	SET_ROOT = 16,  /* _Rb_tree_header: its node's parent */
	SET_COUNT = 40,
	NODE_LEFT = 16,
	NODE_RIGHT = 24,
	NODE_VALUE = 32, /* size, chunk */
};

struct reading {
	struct vt_cupy_objects *o;
	struct vt_cupy_pool *pool;
	uint8_t use; /* of the chunks that are met */
};

void vt_cupy_pool_deinit(struct vt_cupy_pool *pool)
{
	vt_vec_deinit(&pool->chunks);
	vt_vec_deinit(&pool->memories);
	vt_map_deinit(&pool->chunk_at);
	vt_map_deinit(&pool->memory_at);
}

/* ---- chunks ---- */

static bool add_memory(struct vt_cupy_objects *o, struct vt_cupy_pool *pool, uint64_t object)
{
	char name[MAX_NAME];
	struct vt_cupy_memory memory = {
		.object = object,
		.start = vt_cupy_word(o, object, MEMORY_START),
		.size = vt_cupy_word(o, object, MEMORY_SIZE),
		.device = (int32_t)vt_cupy_word(o, object, MEMORY_DEVICE),
	};
	const char *brief;

	if (vt_map_get(&pool->memory_at, object))
		return true;
	if (!vt_cupy_class_name(o, object, name, sizeof(name)) || !memory.start || !memory.size ||
	    memory.size > VT_CUPY_MAX_BYTES || memory.start > UINT64_MAX - VT_CUPY_MAX_BYTES)
		return false;
	brief = strrchr(name, '.') ? strrchr(name, '.') + 1 : name;
	snprintf(memory.name, sizeof(memory.name), "%.31s", brief);
	if (!vt_vec_reserve(&pool->memories, pool->memories.n + 1) ||
	    !vt_map_put(&pool->memory_at, object, pool->memories.n))
		return false;
	pool->memories.data[pool->memories.n++] = memory;
	return true;
}

static uint64_t none_or(struct vt_cupy_objects *o, uint64_t object)
{
	return vt_cupy_is(o, object, CLASS("_Chunk")) ? object : 0;
}

/* Also a chunk that is met again: what it is used for may be known now. */
static bool add_chunk(struct vt_cupy_objects *o, struct vt_cupy_pool *pool, uint64_t object,
		      uint8_t use)
{
	uint64_t *index = vt_map_get(&pool->chunk_at, object);
	struct vt_cupy_chunk chunk = { .object = object, .use = use };

	if (index) {
		uint8_t *was = &pool->chunks.data[*index].use;

		if (use != VT_CUPY_USE_UNKNOWN && *was != VT_CUPY_USE_UNKNOWN && *was != use)
			return false;
		if (use != VT_CUPY_USE_UNKNOWN)
			*was = use;
		return true;
	}
	if (pool->chunks.n >= MAX_CHUNKS || !vt_cupy_pay(o, 1) ||
	    !vt_cupy_is(o, object, CLASS("_Chunk")))
		return false;
	chunk.memory = vt_cupy_word(o, object, CHUNK_MEMORY);
	chunk.offset = vt_cupy_word(o, object, CHUNK_OFFSET);
	chunk.size = vt_cupy_word(o, object, CHUNK_SIZE);
	chunk.prev = none_or(o, vt_cupy_word(o, object, CHUNK_PREV));
	chunk.next = none_or(o, vt_cupy_word(o, object, CHUNK_NEXT));
	if (!chunk.size || chunk.size > VT_CUPY_MAX_BYTES || chunk.offset > VT_CUPY_MAX_BYTES ||
	    !add_memory(o, pool, chunk.memory) ||
	    !vt_vec_reserve(&pool->chunks, pool->chunks.n + 1) ||
	    !vt_map_put(&pool->chunk_at, object, pool->chunks.n))
		return false;
	pool->chunks.data[pool->chunks.n++] = chunk;
	return true;
}

/* Neighbours of neighbours: each chunk is added once, so this ends. */
static bool follow_chains(struct vt_cupy_objects *o, struct vt_cupy_pool *pool, size_t first)
{
	for (size_t i = first; i < pool->chunks.n; i++) {
		struct vt_cupy_chunk chunk = pool->chunks.data[i];

		if (chunk.prev && !add_chunk(o, pool, chunk.prev, VT_CUPY_USE_UNKNOWN))
			return false;
		if (chunk.next && !add_chunk(o, pool, chunk.next, VT_CUPY_USE_UNKNOWN))
			return false;
	}
	return true;
}

bool vt_cupy_pool_knows_used(const struct vt_cupy_pool *pool)
{
	return pool->layout->in_use != NOWHERE;
}

void vt_cupy_pool_add(struct vt_cupy_objects *o, struct vt_cupy_pool *pool, uint64_t chunk)
{
	size_t first = pool->chunks.n;

	if (!add_chunk(o, pool, chunk, VT_CUPY_USED) || !follow_chains(o, pool, first))
		pool->damaged = true;
}

/* ---- tables of chunks ---- */

static bool take_chunk(void *arg, uint64_t object)
{
	struct reading *r = arg;

	return add_chunk(r->o, r->pool, object, r->use);
}

/* An element of an arena's list of sets. None: no free chunks of this size. */
static bool take_set(void *arg, uint64_t object)
{
	struct reading *r = arg;

	return vt_cupy_is(r->o, object, "NoneType") ||
	       (vt_cupy_is(r->o, object, "set") && vt_cupy_each(r->o, object, take_chunk, arg));
}

/* In any order. The tree says how many nodes it has: no more are met, however it is damaged. */
static bool read_tree(struct reading *r, uint64_t root, uint64_t n)
{
	struct vt_pages *pages = &r->o->pages;
	VT_VEC(uint64_t) stack = { 0 };
	uint64_t node = root, met = 0;
	bool ok = n <= MAX_CHUNKS;

	while (ok && (node || stack.n)) {
		if (!node)
			node = stack.data[--stack.n];
		uint64_t right = vt_pages_u64(pages, node + NODE_RIGHT);
		uint64_t size = vt_pages_u64(pages, node + NODE_VALUE);
		uint64_t chunk = vt_pages_u64(pages, node + NODE_VALUE + 8);

		ok = ++met <= n && !(node & 7) && add_chunk(r->o, r->pool, chunk, VT_CUPY_FREE) &&
		     vt_cupy_word(r->o, chunk, CHUNK_SIZE) == size;
		if (ok && right) {
			uint64_t *pushed = vt_vec_append(&stack);

			ok = pushed != NULL;
			if (ok)
				*pushed = right;
		}
		node = vt_pages_u64(pages, node + NODE_LEFT);
	}
	vt_vec_deinit(&stack);
	return ok && met == n;
}

static bool take_arena(void *arg, uint64_t object)
{
	struct reading *r = arg;
	bool weak = r->pool->layout->weak_arenas;
	uint64_t arena = weak ? vt_cupy_referent(r->o, object) : object;
	uint64_t list = vt_cupy_word(r->o, arena, ARENA_LIST);

	if (weak && vt_cupy_is(r->o, arena, "NoneType"))
		return true;
	if (!vt_cupy_is(r->o, arena, CLASS("_Arena")) || !vt_cupy_is(r->o, list, "list") ||
	    !vt_cupy_each(r->o, list, weak ? take_chunk : take_set, arg))
		return false;
	return !weak || read_tree(r, vt_cupy_word(r->o, arena, ARENA_SET + SET_ROOT),
				  vt_cupy_word(r->o, arena, ARENA_SET + SET_COUNT));
}

/* ---- the pool ---- */

static const struct vt_cupy_layout *layout_of(struct vt_cupy_objects *o, uint64_t object)
{
	uint64_t size = vt_cupy_size(o, object);

	for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
		const struct vt_cupy_layout *layout = &layouts[i];

		if (layout->size == size &&
		    vt_cupy_referent(o, vt_cupy_word(o, object, layout->self)) == object &&
		    vt_cupy_is(o, vt_cupy_word(o, object, layout->arenas), "dict") &&
		    (layout->in_use == NOWHERE ||
		     vt_cupy_is(o, vt_cupy_word(o, object, layout->in_use), "dict")))
			return layout;
	}
	return NULL;
}

static void sum_used(struct vt_cupy_pool *pool)
{
	pool->used = 0;
	pool->used_known = true;
	for (size_t i = 0; i < pool->chunks.n; i++)
		if (pool->chunks.data[i].use == VT_CUPY_USED)
			pool->used += pool->chunks.data[i].size;
}

bool vt_cupy_pool_read(struct vt_cupy_objects *o, uint64_t object, struct vt_cupy_pool *pool)
{
	struct reading r = { .o = o, .pool = pool };
	const struct vt_cupy_layout *layout;
	bool used_read = true;

	*pool = (struct vt_cupy_pool){ .object = object };
	if (!vt_cupy_is(o, object, CLASS("SingleDeviceMemoryPool")))
		return false;
	layout = pool->layout = layout_of(o, object);
	if (!layout)
		return false;
	pool->held = vt_cupy_word(o, object, layout->held);
	pool->limit = vt_cupy_word(o, object, layout->limit);
	pool->device = (int32_t)vt_cupy_word(o, object, layout->device);
	if (layout->in_use != NOWHERE) {
		r.use = VT_CUPY_USED;
		used_read =
			vt_cupy_each(o, vt_cupy_word(o, object, layout->in_use), take_chunk, &r);
		if (used_read)
			sum_used(pool);
	} else {
		pool->used = vt_cupy_word(o, object, layout->used);
		pool->used_known = true;
	}
	r.use = VT_CUPY_FREE;
	if (!used_read ||
	    !vt_cupy_each(o, vt_cupy_word(o, object, layout->arenas), take_arena, &r) ||
	    !follow_chains(o, pool, 0))
		pool->damaged = true;
	return pool->held <= VT_CUPY_MAX_BYTES;
}

/* ---- what it says ---- */

static int compare_memories(const void *pa, const void *pb)
{
	const struct vt_cupy_memory *a = pa, *b = pb;

	return (a->start > b->start) - (a->start < b->start);
}

static int compare_chunks(const void *pa, const void *pb)
{
	const struct vt_libpool_chunk *a = pa, *b = pb;

	return (a->start > b->start) - (a->start < b->start);
}

/* Sorts the memories, so memory_at is of no use afterwards. False: two of them overlap. */
static bool list_regions(struct vt_cupy_pool *pool, struct vt_libpool *to, uint64_t *sum)
{
	uint64_t end = 0;

	if (pool->memories.n)
		qsort(pool->memories.data, pool->memories.n, sizeof(*pool->memories.data),
		      compare_memories);
	*sum = 0;
	for (size_t i = 0; i < pool->memories.n; i++) {
		const struct vt_cupy_memory *memory = &pool->memories.data[i];

		if (memory->start < end)
			return false;
		end = memory->start + memory->size;
		*sum += memory->size;
		to->regions.data[to->regions.n++] =
			(struct vt_libpool_region){ memory->start, memory->size };
	}
	return true;
}

/* Places of chunks, before the memories are sorted. False: one is not in its memory. */
static bool list_chunks(const struct vt_cupy_pool *pool, struct vt_libpool *to, uint64_t *used)
{
	bool known = true;

	*used = 0;
	for (size_t i = 0; i < pool->chunks.n; i++) {
		const struct vt_cupy_chunk *chunk = &pool->chunks.data[i];
		const struct vt_cupy_memory *memory =
			&pool->memories.data[*vt_map_get(&pool->memory_at, chunk->memory)];

		if (chunk->offset > memory->size || chunk->size > memory->size - chunk->offset)
			return false;
		known = known && chunk->use != VT_CUPY_USE_UNKNOWN;
		if (chunk->use == VT_CUPY_USED)
			*used += chunk->size;
		to->chunks.data[to->chunks.n++] = (struct vt_libpool_chunk){
			.start = memory->start + chunk->offset,
			.size = chunk->size,
			.in_use = chunk->use == VT_CUPY_USED,
		};
	}
	return known;
}

/* No gap, no overlap: each region begins with a chunk, and the last one ends with it. */
static bool chunks_tile(const struct vt_libpool *pool)
{
	size_t k = 0;

	for (size_t i = 0; i < pool->regions.n; i++) {
		uint64_t at = pool->regions.data[i].start, end = at + pool->regions.data[i].size;

		for (; k < pool->chunks.n && pool->chunks.data[k].start == at && at < end; k++)
			at += pool->chunks.data[k].size;
		if (at != end)
			return false;
	}
	return k == pool->chunks.n;
}

/* All memory is of one kind, for a pool has one allocator, unless it was changed. */
static void name_pool(const struct vt_cupy_pool *pool, struct vt_libpool_rec *rec)
{
	const char *kind = pool->memories.n ? pool->memories.data[0].name : "Memory";

	for (size_t i = 1; i < pool->memories.n; i++)
		if (strcmp(pool->memories.data[i].name, kind) != 0)
			return;
	if (strcmp(kind, "Memory") != 0)
		snprintf(rec->name, sizeof(rec->name), "MemoryPool of %s", kind);
	rec->is_host = !strcmp(kind, "SystemMemory");
}

/* What it has says it best. -1: it does not agree. */
static int32_t device_of(const struct vt_cupy_pool *pool)
{
	for (size_t i = 0; i < pool->memories.n; i++)
		if (pool->memories.data[i].device != pool->device)
			return -1;
	return pool->device >= 0 && pool->device < MAX_DEVICES ? pool->device : -1;
}

static void drop_lists(struct vt_libpool *to, bool regions)
{
	to->chunks.n = 0;
	if (regions)
		to->regions.n = 0;
}

bool vt_cupy_pool_tell(struct vt_cupy_pool *pool, struct vt_libpool *to)
{
	uint64_t used = 0, held = 0;
	bool places, regions;

	*to = (struct vt_libpool){
		.rec = {
			.object = pool->object,
			.held_bytes = pool->held,
			.used_bytes = pool->used,
			.limit_bytes = pool->limit,
			.known = VT_LIBPOOL_HELD | VT_LIBPOOL_BLOCKS |
				 (pool->used_known ? VT_LIBPOOL_USED : 0u) |
				 (pool->limit ? VT_LIBPOOL_LIMIT : 0u),
			.device = device_of(pool),
			.kind = VT_LIBPOOL_CUPY,
			.state = VT_LIBPOOL_COUNTERS,
			.name = "MemoryPool",
		},
	};
	if (!vt_vec_reserve(&to->chunks, pool->chunks.n + 1) ||
	    !vt_vec_reserve(&to->regions, pool->memories.n + 1))
		return false;
	name_pool(pool, &to->rec);
	places = list_chunks(pool, to, &used);
	regions = list_regions(pool, to, &held) && held <= pool->held;
	if (to->chunks.n)
		qsort(to->chunks.data, to->chunks.n, sizeof(*to->chunks.data), compare_chunks);
	if (regions && places && !pool->damaged && held == pool->held && pool->used_known &&
	    used == pool->used && chunks_tile(to))
		to->rec.state = VT_LIBPOOL_EXACT;
	else
		drop_lists(to, !regions);
	return true;
}
