/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the blocks of PyTorch's allocator of pinned host memory by their shape:
 * - a pool begins with a mutex at the start of a cache line, then a hash set of its blocks and a
 *   hash map from addresses to the same blocks, of equal size;
 * - the block contains the address that the map has for it. That gives the field's offset, and the
 *   fields around it are at distances that never changed. A hash set of streams confirms it: its
 *   header is unmistakable;
 * - private pools are in another hash table of the allocator, and repeat its keys.
 *
 * All data must agree: each block is in both tables once, blocks are in mapped memory and do not
 * overlap, and if the allocator itself counts blocks and bytes, both numbers are the same. A
 * running process is read until two passes agree.
 */
#include "walk/torch/pinned.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/vec.h"
#include "walk/python/pages.h"
#include "walk/torch/abi.h"
#include "walk/torch/find.h"

/* CachingHostAllocatorImpl has 17 kB in 2.15: an ApproximateClockToUnixTimeConverter is in it */
#define OBJECT_MAX 0x8000
#define OBJECT_MIN 256
/*
 * Of the object, where its own pool's tables begin: at 104, at 296 since 2.11. Behind the object
 * there may be a private pool, which must not be taken for it.
 */
#define FIRST_MAX 1024
#define PRIVATE_MAX 512 /* the part of a HostPrivatePool with its tables */
#define POOLS_MAX 8192
/* alignas(): 64, or std::hardware_destructive_interference_size, which is the same */
#define CACHE_LINE 64
/* tables never shrink, so a few blocks can have a large one */
#define SLOTS_MAX (UINT64_C(1) << 23)
#define CHUNK (64u << 10)
#define BLOCK_MAX 256 /* bytes of a block that are read */
#define AT_ONCE 4096  /* blocks of one vt_mem_readv() */
#define PIECES 512    /* of their memory */
#define BATCH_BYTES (1u << 20)
#define GAP_MAX 1024 /* less than a page */
#define DEADLINE_EVERY 256
#define PAUSE_NS 100000
/* so many in a row: the target does not change, we do not understand its layout */
#define SAME_FAILURES 4

#define SKA_MAP_SLOT 24   /* of flat_hash_map<void*, HostBlock*>: key +8, value +16 */
#define STATS_VECTOR 2048 /* bytes of std::vector<Stat>(64), one Stat a power of two */
#define STAT_SIZE 32
#define UNORDERED_ONE 0x3f800000u /* 1.0f: std::unordered_set's maximum load */

/*
 * std::unordered_set and _map of libstdc++. Keys are addresses, whose hash is not kept in the
 * nodes.
 */
struct unordered {
	uint64_t buckets;
	uint64_t n_buckets;
	uint64_t first; /* node: next +0, value +8 */
	uint64_t n;
	uint32_t max_load_bits;
	uint32_t pad;
	uint64_t next_resize;
	uint64_t single_bucket;
};
_Static_assert(sizeof(struct unordered) == 56, "as compiled by g++");

enum form { FORM_SKA, FORM_UNORDERED };

/* HostBlock, relative to its ptr_; size_ is the word before that. */
static const struct shape {
	uint16_t table;     /* bytes of a table's header */
	uint16_t allocated; /* bool */
	uint16_t events;    /* size_t */
	uint16_t streams;   /* a set */
} shapes[] = {
	[FORM_SKA] = { sizeof(struct vt_ska), 8, 16, 24 },
	[FORM_UNORDERED] = { sizeof(struct unordered), 48, 56, 64 }, /* a mutex lies between */
};

struct pool {
	uint64_t tables; /* where the set is in the target; the map follows */
	uint64_t id;     /* as in vt_pinned_block */
	bool is_private;
};

struct entry {
	uint64_t object;
	uint64_t key; /* the address of its memory, from the map; 0 until it was found there */
	uint32_t pool;
};

/* One look at everything. */
struct pass {
	struct vt_memsrc *src;
	const struct vt_pinned_limits *limits;
	uint64_t object;
	uint8_t *bytes; /* of the object */
	size_t n_bytes;
	enum form form;
	VT_VEC(struct pool) pools;
	VT_VEC(struct entry) entries;
	/* entry of the pool that is being read: in order from there, once its set was read */
	size_t first;
	uint16_t ptr; /* offset in a block */
	struct vt_pinned_block *blocks;
	uint64_t bytes_sum;
	/* outcome */
	uint8_t result;
	bool passed; /* all checks but that of the memory map */
	bool have_stats;
	int32_t owner_tid;
	uint64_t bad_addr;
	const char *why;
};

static void pass_deinit(struct pass *p)
{
	free(p->bytes);
	vt_vec_deinit(&p->pools);
	vt_vec_deinit(&p->entries);
	free(p->blocks);
}

/* ---- outcomes ---- */

static bool stop(struct pass *p, uint8_t result, const char *why, uint64_t addr)
{
	p->result = result;
	p->why = why;
	p->bad_addr = addr;
	return false;
}

static bool refuse(struct pass *p, const char *why, uint64_t addr)
{
	return stop(p, VT_WALK_REFUSED, why, addr);
}

static bool no_memory(struct pass *p)
{
	return stop(p, VT_WALK_TRUNCATED, "not enough memory here", 0);
}

static bool in_time(struct pass *p, uint64_t count)
{
	if (count % DEADLINE_EVERY || !vt_deadline_passed(p->limits->deadline_ns))
		return true;
	return stop(p, VT_WALK_TRUNCATED, "it took longer than it may", 0);
}

static bool read_mem(struct pass *p, uint64_t addr, void *buf, size_t len, const char *what)
{
	return !vt_mem_read(p->src, addr, buf, len) || refuse(p, what, addr);
}

/* ---- shapes ---- */

static bool unordered_plausible(const struct unordered *t, uint64_t addr)
{
	if (t->max_load_bits != UNORDERED_ONE || !t->n_buckets || t->n_buckets > SLOTS_MAX ||
	    t->n > t->n_buckets)
		return false;
	if (t->n ? !vt_is_object(t->first) : t->first != 0)
		return false;
	return t->n_buckets == 1 ? t->buckets == addr + offsetof(struct unordered, single_bucket) :
				   vt_is_object(t->buckets);
}

/* The number of elements of a table at addr, or -1: it is not a table. */
static int64_t table_count(enum form form, const uint8_t *bytes, uint64_t addr)
{
	struct unordered unordered;
	struct vt_ska ska;

	if (form == FORM_SKA) {
		memcpy(&ska, bytes, sizeof(ska));
		return vt_ska_plausible(&ska) ? (int64_t)ska.n : -1;
	}
	memcpy(&unordered, bytes, sizeof(unordered));
	return unordered_plausible(&unordered, addr) ? (int64_t)unordered.n : -1;
}

/*
 * A std::mutex: PTHREAD_MUTEX_TIMED_NP, which is 0, or with glibc's flags for lock elision (256,
 * 512); never locked more than once.
 */
static bool is_mutex(const uint8_t *bytes)
{
	return vt_load32(bytes) <= 2 && !vt_load32(bytes + 4) &&
	       !(vt_load32(bytes + VT_MUTEX_KIND) & ~0x300u);
}

/* The place of the first pool's tables in bytes, which lie at addr; 0: nowhere. */
static size_t find_tables(enum form form, const uint8_t *bytes, size_t n, uint64_t addr)
{
	size_t size = shapes[form].table;

	for (size_t at = (CACHE_LINE - addr % CACHE_LINE) % CACHE_LINE + VT_MUTEX_SIZE;
	     at + 2 * size <= n; at += CACHE_LINE) {
		if (is_mutex(bytes + at - VT_MUTEX_SIZE) &&
		    table_count(form, bytes + at, addr + at) >= 0 &&
		    table_count(form, bytes + at + size, addr + at + size) >= 0)
			return at;
	}
	return 0;
}

bool vt_pinned_is_unordered(struct vt_memsrc *src, uint64_t object)
{
	uint8_t bytes[PRIVATE_MAX];

	return vt_is_object(object) &&
	       find_tables(FORM_UNORDERED, bytes,
			   vt_torch_read_some(src, object, bytes, sizeof(bytes)), object) != 0;
}

/* ---- pools ---- */

static bool add_pool(struct pass *p, uint64_t tables, uint64_t id, bool is_private)
{
	struct pool *pool = p->pools.n < POOLS_MAX ? vt_vec_append(&p->pools) : NULL;

	if (!pool)
		return p->pools.n < POOLS_MAX ?
			       no_memory(p) :
			       stop(p, VT_WALK_TRUNCATED, "too many private pools", 0);
	*pool = (struct pool){ .tables = tables, .id = id, .is_private = is_private };
	return true;
}

/*
 * Calls take for each element of the table. False when take returns false, or the table's count is
 * wrong.
 */
static bool each_ska(struct pass *p, const struct vt_ska *table, size_t slot,
		     bool (*take)(struct pass *p, void *arg, const uint8_t *value), void *arg)
{
	uint64_t slots = vt_ska_slots(table), at_once = CHUNK / slot, found = 0;
	VT_FREE uint8_t *chunk = slots ? malloc(CHUNK) : NULL;

	if (slots && !chunk)
		return no_memory(p);
	if (slots > SLOTS_MAX || table->n > p->limits->max_blocks)
		return stop(p, VT_WALK_TRUNCATED, "more blocks than are read", 0);
	for (uint64_t at = 0; at < slots; at += at_once) {
		uint64_t n = slots - at < at_once ? slots - at : at_once;

		if (!in_time(p, 0) || !read_mem(p, table->entries + at * slot, chunk, n * slot,
						"a hash table cannot be read"))
			return false;
		for (uint64_t i = 0; i < n; i++) {
			if ((int8_t)chunk[i * slot] < 0)
				continue;
			if (++found > table->n)
				return refuse(p, "a hash table has more elements than it counts",
					      table->entries);
			if (!take(p, arg, chunk + i * slot + VT_SKA_VALUE))
				return false;
		}
	}
	return found == table->n ||
	       refuse(p, "a hash table has fewer elements than it counts", table->entries);
}

static uint64_t pool_id(uint64_t first, uint64_t second)
{
	return first << 32 | (uint32_t)second;
}

/* An element of graph_pools_: the id, two words, and the pool, which begins with the same id. */
static bool take_private(struct pass *p, void *arg, const uint8_t *value)
{
	uint64_t pool = vt_load64(value + 16);
	uint8_t bytes[PRIVATE_MAX];
	size_t n, at;

	(void)arg;
	if (!vt_is_object(pool))
		return refuse(p, "a private pool is none", pool);
	n = vt_torch_read_some(p->src, pool, bytes, sizeof(bytes));
	at = n > 16 && !memcmp(bytes, value, 16) ? find_tables(p->form, bytes, n, pool) : 0;
	if (!at)
		return refuse(p, "a private pool is none", pool);
	return add_pool(p, pool + at, pool_id(vt_load64(value), vt_load64(value + 8)), true);
}

/*
 * Two tables have private pools: graph_pools_ has all of them, graph_pools_freeable_ some. Other
 * tables of the object have other elements. If no table has pools, there are none; if that were
 * wrong, the totals would not agree.
 */
static bool find_private(struct pass *p, size_t own_tables)
{
	size_t n_default = p->pools.n;
	struct vt_ska table;

	for (size_t at = 8; at + sizeof(table) <= p->n_bytes; at += 8) {
		memcpy(&table, p->bytes + at, sizeof(table));
		if (at == own_tables || at == own_tables + sizeof(table) ||
		    !vt_ska_plausible(&table) || !table.n || table.n > POOLS_MAX ||
		    vt_ska_slots(&table) > SLOTS_MAX)
			continue;
		if (each_ska(p, &table, VT_SKA_POOL_SLOT, take_private, NULL))
			return true;
		p->pools.n = n_default;
		if (p->result != VT_WALK_REFUSED)
			return false;
	}
	return true;
}

/*
 * The largest possible size of the object. operator new is malloc() in PyTorch, also for aligned
 * objects. glibc keeps the size of a chunk in front of it, above three flags; the second flag marks
 * chunks with their own mapping. With another malloc() that number is not plausible.
 */
static size_t object_size(struct pass *p)
{
	uint64_t chunk;

	if (vt_mem_read_u64(p->src, p->object - 8, &chunk) || chunk & 10)
		return OBJECT_MAX;
	chunk &= ~UINT64_C(7);
	return chunk >= OBJECT_MIN && chunk - 8 <= OBJECT_MAX ? (size_t)chunk - 8 : OBJECT_MAX;
}

static bool find_pools(struct pass *p)
{
	size_t at = 0, n_first;

	p->n_bytes = vt_torch_read_some(p->src, p->object, p->bytes, object_size(p));
	n_first = p->n_bytes < FIRST_MAX ? p->n_bytes : FIRST_MAX;
	for (p->form = FORM_SKA; p->form <= FORM_UNORDERED; p->form++) {
		at = find_tables(p->form, p->bytes, n_first, p->object);
		if (at)
			break;
	}
	if (!at)
		return refuse(p, p->n_bytes ? "no tables of blocks in it" : "it cannot be read",
			      p->object);
	if (!add_pool(p, p->object + at, 0, false))
		return false;
	return p->form != FORM_SKA || find_private(p, at);
}

/* ---- finding the blocks ---- */

static bool add_entry(struct pass *p, uint64_t object, uint32_t pool)
{
	struct entry *entry;

	if (!vt_is_object(object))
		return refuse(p, "what should be a block is none", object);
	if (p->entries.n >= p->limits->max_blocks)
		return stop(p, VT_WALK_TRUNCATED, "more blocks than are read", 0);
	entry = vt_vec_append(&p->entries);
	if (!entry)
		return no_memory(p);
	*entry = (struct entry){ .object = object, .pool = pool };
	return true;
}

static int by_object(const void *pa, const void *pb)
{
	const struct entry *a = pa, *b = pb;

	return a->object < b->object ? -1 : a->object > b->object;
}

/* A sorted array, not a hash map: a hostile target could choose block addresses that collide. */
static bool sort_entries(struct pass *p)
{
	size_t n = p->entries.n - p->first;
	struct entry *entries;

	if (!n)
		return true;
	entries = p->entries.data + p->first;
	qsort(entries, n, sizeof(*entries), by_object);
	for (size_t i = 1; i < n; i++)
		if (entries[i].object == entries[i - 1].object)
			return refuse(p, "a block is in its table twice", entries[i].object);
	return true;
}

static bool add_key(struct pass *p, uint64_t key, uint64_t object)
{
	const struct entry wanted = { .object = object };
	struct entry *entry = bsearch(&wanted, p->entries.data + p->first, p->entries.n - p->first,
				      sizeof(*entry), by_object);

	if (!entry || entry->key || !key)
		return refuse(p, "the tables of blocks do not agree", object);
	entry->key = key;
	return true;
}

static bool take_block(struct pass *p, void *arg, const uint8_t *value)
{
	return add_entry(p, vt_load64(value), *(uint32_t *)arg);
}

static bool take_key(struct pass *p, void *arg, const uint8_t *value)
{
	(void)arg;
	return add_key(p, vt_load64(value), vt_load64(value + 8));
}

static bool read_ska(struct pass *p, uint32_t pool, const uint8_t *headers)
{
	struct vt_ska tables[2];

	memcpy(tables, headers, sizeof(tables));
	return each_ska(p, &tables[0], VT_SKA_SET_SLOT, take_block, &pool) && sort_entries(p) &&
	       each_ska(p, &tables[1], SKA_MAP_SLOT, take_key, NULL);
}

/* The nodes are a list. They are small and lie close to each other, so pages of them are kept. */
static bool each_node(struct pass *p, struct vt_memsrc *pages, uint32_t pool,
		      const struct unordered *table, bool is_map)
{
	uint64_t node[3], at = table->first;

	for (uint64_t i = 0; i < table->n; i++) {
		if (!in_time(p, i))
			return false;
		if (!vt_is_object(at) || vt_mem_read(pages, at, node, is_map ? 24 : 16))
			return refuse(p, "a hash table has fewer elements than it counts", at);
		if (!(is_map ? add_key(p, node[1], node[2]) : add_entry(p, node[1], pool)))
			return false;
		at = node[0];
	}
	return !at || refuse(p, "a hash table has more elements than it counts", at);
}

static bool read_unordered(struct pass *p, uint32_t pool, const uint8_t *headers)
{
	VT_FREE struct vt_py_pages *pages = malloc(sizeof(*pages));
	struct unordered tables[2];

	if (!pages)
		return no_memory(p);
	vt_py_pages_init(pages, p->src);
	memcpy(tables, headers, sizeof(tables));
	return each_node(p, &pages->src, pool, &tables[0], false) && sort_entries(p) &&
	       each_node(p, &pages->src, pool, &tables[1], true);
}

static bool read_pool(struct pass *p, uint32_t index)
{
	uint64_t addr = p->pools.data[index].tables;
	uint8_t bytes[VT_MUTEX_SIZE + 2 * sizeof(struct unordered)];
	size_t size = shapes[p->form].table;
	const uint8_t *tables = bytes + VT_MUTEX_SIZE;
	int64_t n_blocks, n_keys;

	if (!read_mem(p, addr - VT_MUTEX_SIZE, bytes, VT_MUTEX_SIZE + 2 * size,
		      "a pool cannot be read"))
		return false;
	p->first = p->entries.n;
	if (vt_load32(bytes) && vt_load32(bytes + VT_MUTEX_OWNER) <= INT32_MAX)
		p->owner_tid = (int32_t)vt_load32(bytes + VT_MUTEX_OWNER);
	n_blocks = table_count(p->form, tables, addr);
	n_keys = table_count(p->form, tables + size, addr + size);
	if (n_blocks < 0 || n_blocks != n_keys)
		return refuse(p, "the tables of blocks do not agree", addr);
	return p->form == FORM_SKA ? read_ska(p, index, tables) : read_unordered(p, index, tables);
}

/* ---- the contents of the blocks ---- */

static uint64_t block_size(const struct pass *p)
{
	return p->ptr + shapes[p->form].streams + shapes[p->form].table;
}

/*
 * The place of the address in the first block: the only word of that value with all neighbours
 * fitting.
 */
static bool find_ptr(struct pass *p)
{
	const struct entry *first = &p->entries.data[0];
	const struct shape *shape = &shapes[p->form];
	uint8_t bytes[BLOCK_MAX];
	size_t n = vt_torch_read_some(p->src, first->object, bytes, sizeof(bytes));

	for (size_t at = 8; at + shape->streams + shape->table <= n; at += 8) {
		uint64_t streams = first->object + at + shape->streams;

		if (vt_load64(bytes + at) == first->key &&
		    table_count(p->form, bytes + at + shape->streams, streams) >= 0) {
			p->ptr = (uint16_t)at;
			return true;
		}
	}
	return refuse(p, "the blocks do not look like those of any known release", first->object);
}

static bool decode(struct pass *p, const struct entry *entry, const uint8_t *bytes,
		   struct vt_pinned_block *b)
{
	const struct shape *shape = &shapes[p->form];
	const struct pool *pool = &p->pools.data[entry->pool];
	const uint8_t *ptr = bytes + p->ptr;
	uint64_t size = vt_load64(ptr - 8), events = vt_load64(ptr + shape->events), end;
	int64_t streams =
		table_count(p->form, ptr + shape->streams, entry->object + p->ptr + shape->streams);
	uint8_t allocated = ptr[shape->allocated];

	if (vt_load64(ptr) != entry->key)
		return refuse(p, "a block has another address than in the table", entry->object);
	if (!size || __builtin_add_overflow(entry->key, size, &end) || end > UINT64_C(1) << 56)
		return refuse(p, "a block has an impossible size", entry->object);
	if (allocated > 1 || events > INT32_MAX || streams < 0 || streams > INT32_MAX)
		return refuse(p, "a block has an impossible state", entry->object);
	if (__builtin_add_overflow(p->bytes_sum, size, &p->bytes_sum))
		return refuse(p, "the blocks' sizes overflow", entry->object);
	*b = (struct vt_pinned_block){
		.addr = entry->key,
		.size = size,
		.object = entry->object,
		.pool = pool->id,
		.events = (uint32_t)events,
		.streams = (uint32_t)streams,
		.state = allocated ? VT_BLOCK_ALLOCATED :
			 events    ? VT_BLOCK_AWAITING_FREE :
				     VT_BLOCK_CACHED,
		.private_pool = pool->is_private,
	};
	return true;
}

/* Some of the blocks, in order of their objects, and the pieces of memory that they lie in. */
struct batch {
	struct vt_memvec pieces[PIECES];
	size_t n_pieces, bytes;
	const uint8_t *at[AT_ONCE]; /* where each block is in the buffer */
	size_t n;
};

/*
 * Adds a block of len bytes. Neighbours are read in one piece: a gap of less than a page between
 * two objects has no page of its own that could be missing. False: the batch is full.
 */
static bool batch_add(struct batch *batch, uint8_t *buffer, uint64_t object, size_t len)
{
	struct vt_memvec *last = batch->n_pieces ? &batch->pieces[batch->n_pieces - 1] : NULL;
	size_t more = len;

	if (last && object - last->addr < last->len + GAP_MAX) {
		/* they do not overlap if they are blocks; otherwise the read ends here */
		more = object - last->addr + len > last->len ?
			       object - last->addr + len - last->len :
			       0;
	} else {
		last = NULL;
	}
	if (batch->n == AT_ONCE || batch->bytes + more > BATCH_BYTES ||
	    (!last && batch->n_pieces == PIECES))
		return false;
	if (!last) {
		last = &batch->pieces[batch->n_pieces++];
		*last = (struct vt_memvec){ .addr = object, .buf = buffer + batch->bytes };
	}
	last->len += more;
	batch->bytes += more;
	batch->at[batch->n++] = (uint8_t *)last->buf + (object - last->addr);
	return true;
}

static bool read_blocks(struct pass *p)
{
	VT_FREE uint8_t *buffer = malloc(BATCH_BYTES);
	VT_FREE struct batch *batch = malloc(sizeof(*batch));
	size_t len = block_size(p), at = 0;

	p->blocks = calloc(p->entries.n, sizeof(*p->blocks));
	if (!buffer || !batch || !p->blocks)
		return no_memory(p);
	while (at < p->entries.n) {
		batch->n = batch->n_pieces = batch->bytes = 0;
		while (at + batch->n < p->entries.n &&
		       batch_add(batch, buffer, p->entries.data[at + batch->n].object, len))
			;
		if (!in_time(p, 0))
			return false;
		if (vt_mem_readv(p->src, batch->pieces, batch->n_pieces))
			return refuse(p, "a block cannot be read", p->src->fault_addr);
		for (size_t i = 0; i < batch->n; i++, at++)
			if (!decode(p, &p->entries.data[at], batch->at[i], &p->blocks[at]))
				return false;
	}
	return true;
}

static int by_address(const void *pa, const void *pb)
{
	const struct vt_pinned_block *a = pa, *b = pb;

	return a->addr < b->addr ? -1 : a->addr > b->addr;
}

static bool check_overlap(struct pass *p)
{
	qsort(p->blocks, p->entries.n, sizeof(*p->blocks), by_address);
	for (size_t i = 1; i < p->entries.n; i++)
		if (p->blocks[i].addr - p->blocks[i - 1].addr < p->blocks[i - 1].size)
			return refuse(p, "two blocks overlap", p->blocks[i].object);
	return true;
}

static bool is_mapped(const struct vt_maps *maps, uint64_t addr, uint64_t end)
{
	while (addr < end) {
		const struct vt_map_entry *map = vt_maps_find(maps, addr);

		/* of cudaHostAlloc() or malloc(): the process reads and writes it */
		if (!map ||
		    (map->flags & (VT_MAP_READ | VT_MAP_WRITE)) != (VT_MAP_READ | VT_MAP_WRITE))
			return false;
		addr = map->end;
	}
	return true;
}

/* After the blocks were read, with the map of that time. */
static bool check_mapped(struct pass *p)
{
	const struct vt_maps *maps =
		p->entries.n && p->limits->maps_now ? p->limits->maps_now(p->limits->arg) : NULL;

	for (size_t i = 0; maps && i < p->entries.n; i++)
		if (!is_mapped(maps, p->blocks[i].addr, p->blocks[i].addr + p->blocks[i].size))
			return refuse(p, "a block is not in memory", p->blocks[i].object);
	return true;
}

/* ---- the allocator's own totals ---- */

static bool is_stats_vector(const uint8_t *bytes)
{
	uint64_t begin = vt_load64(bytes), end = vt_load64(bytes + 8);

	return vt_is_object(begin) && end - begin == STATS_VECTOR && vt_load64(bytes + 16) >= end;
}

/*
 * Whether the object has two vectors of statistics in a row: 2.7 and later do, and count totals as
 * well.
 */
static bool keeps_stats(const struct pass *p)
{
	for (size_t at = 8; at + 48 <= p->n_bytes; at += 8)
		if (is_stats_vector(p->bytes + at) && is_stats_vector(p->bytes + at + 24))
			return true;
	return false;
}

static bool stat_is(const uint8_t *stat, uint64_t current)
{
	return vt_load64(stat) == current && (int64_t)vt_load64(stat + 8) >= (int64_t)current;
}

/*
 * HostStatsStaged has the number of blocks and their bytes, one Stat after the other. They change
 * under the lock of the blocks, but not at the same moment as the tables: the thread that holds the
 * lock may not have updated them yet (since 2.15 they are counted down after cudaFreeHost()).
 */
static bool check_stats(struct pass *p)
{
	if (!p->entries.n || p->form != FORM_SKA)
		return true;
	for (size_t at = 8; at + 2 * STAT_SIZE <= p->n_bytes && !p->have_stats; at += 8)
		p->have_stats = stat_is(p->bytes + at, p->entries.n) &&
				stat_is(p->bytes + at + STAT_SIZE, p->bytes_sum);
	return p->have_stats || p->owner_tid || !keeps_stats(p) ||
	       refuse(p, "the allocator's own totals differ", p->object);
}

/* ---- all of it ---- */

static bool run(struct pass *p)
{
	p->bytes = malloc(OBJECT_MAX);
	if (!p->bytes)
		return no_memory(p);
	if (!find_pools(p))
		return false;
	for (uint32_t i = 0; i < p->pools.n; i++)
		if (!read_pool(p, i))
			return false;
	if (p->entries.n && !(find_ptr(p) && read_blocks(p) && check_overlap(p)))
		return false;
	if (!check_stats(p))
		return false;
	p->result = VT_WALK_COMPLETE;
	p->passed = true;
	p->why = "";
	p->bad_addr = 0;
	return true;
}

static bool same_blocks(const struct pass *a, const struct pass *b)
{
	if (a->entries.n != b->entries.n)
		return false;
	for (size_t i = 0; i < a->entries.n; i++)
		if (a->blocks[i].addr != b->blocks[i].addr ||
		    a->blocks[i].size != b->blocks[i].size ||
		    a->blocks[i].object != b->blocks[i].object ||
		    a->blocks[i].pool != b->blocks[i].pool)
			return false;
	return true;
}

static bool is_same_pass(const struct pass *a, const struct pass *b)
{
	return a->entries.n == b->entries.n &&
	       (!a->entries.n || !memcmp(a->blocks, b->blocks, a->entries.n * sizeof(*a->blocks)));
}

/* The last pass becomes the result. */
static void hand_over(struct pass *p, uint8_t result, struct vt_pinned_result *to)
{
	to->result = result;
	to->have_stats = p->have_stats;
	to->owner_tid = p->owner_tid;
	to->bad_addr = p->bad_addr;
	snprintf(to->why, sizeof(to->why), "%s",
		 result == VT_WALK_UNSTABLE ? "its blocks change all the time" : p->why);
	if (p->result != VT_WALK_COMPLETE)
		return;
	for (size_t i = 0; i < p->pools.n; i++)
		to->n_private += p->pools.data[i].is_private;
	to->n_blocks = p->entries.n;
	to->blocks = vt_steal(p->blocks);
}

/*
 * Compares two passes over a running target. False: read again. If both saw the same, that was the
 * state at one moment between them; the memory map is read once more to check it.
 */
static bool settle(struct pass *last, const struct pass *before, bool late,
		   struct vt_pinned_result *result)
{
	bool both = before->passed && last->passed;

	if (last->result == VT_WALK_TRUNCATED ||
	    (both && is_same_pass(last, before) && check_mapped(last))) {
		hand_over(last, last->result, result);
		return true;
	}
	if (!late)
		return false;
	result->same_blocks = both && same_blocks(last, before) && check_mapped(last);
	hand_over(last, VT_WALK_UNSTABLE, result);
	return true;
}

static struct pass new_pass(struct vt_memsrc *src, uint64_t object,
			    const struct vt_pinned_limits *limits)
{
	return (struct pass){ .src = src, .object = object, .limits = limits };
}

/* The same check fails, and the allocator has not changed. */
static bool same_failure(const struct pass *a, const struct pass *b)
{
	return a->result == VT_WALK_REFUSED && b->result == VT_WALK_REFUSED && a->why == b->why &&
	       a->bad_addr == b->bad_addr && a->n_bytes == b->n_bytes &&
	       !memcmp(a->bytes, b->bytes, a->n_bytes);
}

static void read_running(struct vt_memsrc *src, uint64_t object,
			 const struct vt_pinned_limits *limits, struct vt_pinned_result *result)
{
	struct pass before, last = new_pass(src, object, limits);
	size_t failures = 0, n = 0;
	bool done;

	run(&last);
	do {
		before = last;
		if (before.result == VT_WALK_REFUSED)
			vt_sleep_ns(PAUSE_NS);
		last = new_pass(src, object, limits);
		run(&last);
		done = settle(&last, &before, ++n >= limits->max_passes, result);
		failures = same_failure(&last, &before) ? failures + 1 : 0;
		if (!done && failures >= SAME_FAILURES) {
			hand_over(&last, VT_WALK_REFUSED, result);
			done = true;
		}
		pass_deinit(&before);
	} while (!done);
	pass_deinit(&last);
}

void vt_pinned_read(struct vt_memsrc *src, uint64_t object, const struct vt_pinned_limits *limits,
		    struct vt_pinned_result *result)
{
	uint64_t start = vt_now_ns();

	*result = (struct vt_pinned_result){ .result = VT_WALK_REFUSED };
	if (src->coherent) {
		struct pass p = new_pass(src, object, limits);

		if (run(&p))
			check_mapped(&p);
		hand_over(&p, p.result, result);
		pass_deinit(&p);
	} else {
		read_running(src, object, limits, result);
	}
	result->read_ns = vt_now_ns() - start;
}
