/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk of one DeviceCachingAllocator. Every block is in exactly one of active_blocks, a pool's
 * `blocks` or a pool's `unmapped`. The walk reads all of them and sorts them by device address.
 * Then they must tile: the neighbour in the list is the neighbour in memory. So the walk never
 * follows a list, cannot loop, and each step is O(n).
 *
 * Two halves: reading copies each block once. Only this half needs the allocator to stand still
 * (its mutex held, or its process stopped). Ordering and checking work on the copies.
 *
 * Compiled into the tool and into the helper: no libc but mem*(), no allocation but the caller's
 * scratch.
 */
#include <errno.h>

#include "walk/torch/walk_state.h"

/*
 * kMinBlockSize: sizes are rounded up to multiples of it (not in private pools with an own
 * allocator)
 */
#define MIN_BLOCK 512
/* an allocation or a free: a lock, a tree and a hash table; measured: 150 and more */
#define MIN_OPERATION_NS 20

#define N_STATS_BEFORE (VT_STATS_BEFORE_EXTRA / VT_STATS_ARRAY)
#define N_STATS (N_STATS_BEFORE + 3)

/* ---- layout ---- */

static bool field_fits(uint16_t offset, unsigned int width, uint16_t size, bool optional)
{
	return offset == NONE ? optional : offset + width <= size;
}

static bool block_usable(const struct vt_torch_block_layout *b)
{
	return field_fits(b->device, 1, b->size_of, true) &&
	       field_fits(b->stream, 8, b->size_of, false) &&
	       field_fits(b->stream_uses, sizeof(struct vt_ska), b->size_of, false) &&
	       field_fits(b->size, 8, b->size_of, false) &&
	       field_fits(b->requested_size, 8, b->size_of, true) &&
	       field_fits(b->pool, 8, b->size_of, false) &&
	       field_fits(b->ptr, 8, b->size_of, false) &&
	       field_fits(b->allocated, 1, b->size_of, false) &&
	       field_fits(b->mapped, 1, b->size_of, true) &&
	       field_fits(b->prev, 8, b->size_of, false) &&
	       field_fits(b->next, 8, b->size_of, false) &&
	       field_fits(b->event_count, 4, b->size_of, true) &&
	       field_fits(b->context, 8, b->size_of, true) &&
	       field_fits(b->expandable_segment, 8, b->size_of, true);
}

/*
 * The layout may come through shared memory, so its offsets are checked before anything is read
 * with them.
 */
static bool layout_usable(const struct vt_torch_layout *layout)
{
	const struct vt_torch_block_layout *b = &layout->block;

	return layout->sets_per_pool >= 1 && layout->sets_per_pool <= 3 &&
	       layout->pool_is_small < POOL_MAX && layout->pool_owner <= POOL_MAX - 8 &&
	       layout->pool_is_small >= 48 * layout->sets_per_pool &&
	       layout->pool_size_of >= layout->pool_owner + 8 && b->size_of <= BLOCK_MAX &&
	       (!b->size_of || block_usable(b));
}

/* ---- statistics, and whether anything happened ---- */

static void take_stat(struct vt_torch_stat *stat, const uint8_t *bytes)
{
	__builtin_memcpy(stat, bytes, sizeof(*stat)); /* of the three: all pools together */
}

static void take_stats(struct vt_torch_stats *stats, const struct mark *mark)
{
	const uint8_t *before = mark->before, *after = mark->after;

	take_stat(&stats->allocation, before);
	take_stat(&stats->segment, before + VT_STATS_ARRAY);
	take_stat(&stats->active, before + 2 * VT_STATS_ARRAY);
	take_stat(&stats->inactive_split, before + 3 * VT_STATS_ARRAY);
	take_stat(&stats->allocated_bytes, before + 4 * VT_STATS_ARRAY);
	take_stat(&stats->reserved_bytes, before + 5 * VT_STATS_ARRAY);
	take_stat(&stats->active_bytes, after);
	take_stat(&stats->inactive_split_bytes, after + VT_STATS_ARRAY);
	take_stat(&stats->requested_bytes, after + 2 * VT_STATS_ARRAY);
	stats->num_alloc_retries = (int64_t)vt_load64(after + 3 * VT_STATS_ARRAY);
	stats->num_ooms = (int64_t)vt_load64(after + 3 * VT_STATS_ARRAY + 8);
}

/*
 * The mutex before and after the statistics, so that the mark serves as the first as well as the
 * last of two: what is read after it was read after the mutex was found free, what is read before
 * it, before.
 */
static bool take_mark(const struct vt_torch_walk *w, struct vt_memsrc *src, struct mark *mark)
{
	uint32_t first[3], last[3]; /* pthread_mutex_t: lock, count, owner */
	uint64_t mutex = w->dca + w->layout->mutex, stats = w->dca + w->layout->stats;
	struct vt_memvec vec[2] = {
		{ .addr = stats, .buf = mark->before, .len = sizeof(mark->before) },
		{ .addr = stats + sizeof(mark->before) + w->layout->stats_extra,
		  .buf = mark->after,
		  .len = sizeof(mark->after) },
	};

	if (vt_mem_read(src, mutex, first, sizeof(first)) || vt_mem_readv(src, vec, 2) ||
	    vt_mem_read(src, mutex, last, sizeof(last)))
		return false;
	/* glibc sets the owner after it took the lock, and clears it before it gives it back */
	if (first[2] != last[2] || last[2] > INT32_MAX || (!last[2] && (first[0] || last[0])))
		mark->owner = -1;
	else
		mark->owner = (int32_t)last[2];
	return true;
}

/*
 * The statistics can be set back to 0 (reset_accumulated_stats()), so that equal ones might mean
 * that everything was counted once more since. That cannot have been when there was no time for so
 * many operations; and not when they never were set back, that is when what there is equals what
 * came less what went, except while there was no segment at all.
 */
static bool counted_all(const struct mark *mark, uint64_t ns)
{
	const uint8_t *allocation = mark->before, *segment = mark->before + VT_STATS_ARRAY;

	if (vt_load64(allocation + offsetof(struct vt_torch_stat, allocated)) >
	    ns / MIN_OPERATION_NS)
		return true;
	for (unsigned int i = 0; i < N_STATS; i++) {
		const uint8_t *stat = i < N_STATS_BEFORE ?
					      mark->before + i * VT_STATS_ARRAY :
					      mark->after + (i - N_STATS_BEFORE) * VT_STATS_ARRAY;

		if (vt_load64(stat + offsetof(struct vt_torch_stat, current)) !=
		    vt_load64(stat + offsetof(struct vt_torch_stat, allocated)) -
			    vt_load64(stat + offsetof(struct vt_torch_stat, freed)))
			return false;
	}
	return vt_load64(segment + offsetof(struct vt_torch_stat, current)) != 0;
}

static int hash_private(void *arg, const uint8_t *slot)
{
	uint64_t *hash = arg;

	for (int i = 8; i < VT_SKA_POOL_SLOT; i += 8) {
		*hash = (*hash ^ vt_load64(slot + i)) * UINT64_C(0x9e3779b97f4a7c15);
		*hash ^= *hash >> 32;
	}
	return 0;
}

/* Whether what the walk has read so far is still current. *certain: it was so throughout. */
static bool nothing_happened(const struct vt_torch_walk *w, struct vt_memsrc *src, bool *certain)
{
	uint64_t pools = 0;
	struct mark mark;

	if (vt_torch_each_private(src, w->layout, w->dca, hash_private, &pools) ||
	    pools != w->pools_seen || !take_mark(w, src, &mark))
		return false;
	*certain = !mark.owner && w->limits.now_ns &&
		   counted_all(&mark, w->limits.now_ns() - w->mark_ns);
	return w->mark.owner >= 0 && w->mark.owner == mark.owner &&
	       !memcmp(w->mark.before, mark.before, sizeof(mark.before)) &&
	       !memcmp(w->mark.after, mark.after, sizeof(mark.after));
}

/* ---- counting ---- */

struct count {
	struct vt_memsrc *src;
	const struct vt_torch_layout *layout;
	uint64_t n;
};

static void count_pool(struct count *count, const struct vt_torch_pool *pool)
{
	count->n += pool->blocks.n + pool->unmapped.n;
}

static int count_private(void *arg, const uint8_t *slot)
{
	struct count *count = arg;
	struct vt_torch_pool large, small;
	uint16_t offset;
	int ret = vt_torch_read_private(count->src, count->layout, vt_load64(slot + 24), &large,
					&small, &offset);

	if (ret)
		return ret;
	count_pool(count, &large);
	count_pool(count, &small);
	return 0;
}

int64_t vt_torch_count_blocks(struct vt_memsrc *src, const struct vt_torch_layout *layout,
			      uint64_t dca)
{
	struct count count = { .src = src, .layout = layout };
	struct vt_torch_pool pool;
	struct vt_ska active;

	if (!layout_usable(layout) ||
	    vt_mem_read(src, dca + layout->active_blocks, &active, sizeof(active)) ||
	    !vt_ska_plausible(&active))
		return -1;
	count.n = active.n;
	if (vt_torch_read_pool(src, layout, dca + layout->large_blocks, &pool))
		return -1;
	count_pool(&count, &pool);
	if (vt_torch_read_pool(src, layout, dca + layout->small_blocks, &pool))
		return -1;
	count_pool(&count, &pool);
	if (vt_torch_each_private(src, layout, dca, count_private, &count))
		return -1;
	return (int64_t)count.n;
}

uint64_t vt_torch_scratch_size(uint64_t n_blocks)
{
	return FIXED_SIZE + n_blocks * PER_BLOCK;
}

static void take_scratch(struct vt_torch_walk *w, const struct vt_torch_scratch *scratch)
{
	uint8_t *at = (uint8_t *)(w + 1);

	w->capacity = (scratch->size - FIXED_SIZE) / PER_BLOCK;
	if (w->capacity > w->limits.max_blocks)
		w->capacity = w->limits.max_blocks;
	if (w->capacity > UINT32_MAX)
		w->capacity = UINT32_MAX;
	w->fixed = (struct fixed *)at;
	at += sizeof(struct fixed);
	w->entries = (struct entry *)at;
	at += w->capacity * sizeof(struct entry);
	w->addrs = (uint64_t *)at;
	w->keys = w->addrs + w->capacity;
	w->spare = w->keys + w->capacity;
	w->objects = w->spare + w->capacity;
	w->nodes = w->objects + w->capacity;
	w->chunk = w->fixed->chunk;
	w->chunk_size = CHUNK;
	if (scratch->chunk && scratch->chunk_size > CHUNK) {
		w->chunk = scratch->chunk;
		w->chunk_size = scratch->chunk_size;
	}
	memset(w->fixed->pool_slots, 0, sizeof(w->fixed->pool_slots));
}

/* ---- pools ---- */

static uint32_t pool_slot(const struct vt_torch_walk *w, uint64_t addr)
{
	uint32_t slot = (uint32_t)((addr >> 3) * UINT64_C(11400714819323198485) >> 40) % POOL_SLOTS;

	while (w->fixed->pool_slots[slot] &&
	       w->fixed->pools[w->fixed->pool_slots[slot] - 1].addr != addr)
		slot = (slot + 1) % POOL_SLOTS;
	return slot;
}

/* The index of the pool at addr, -1 when it is not known. */
static int find_pool(const struct vt_torch_walk *w, uint64_t addr)
{
	const struct pool *pools = w->fixed->pools;

	if (addr == pools[0].addr)
		return 0;
	if (addr == pools[1].addr)
		return 1;
	return (int)w->fixed->pool_slots[pool_slot(w, addr)] - 1;
}

static bool add_pool(struct vt_torch_walk *w, const struct vt_torch_pool *from, uint64_t id)
{
	struct pool *pool;
	uint32_t slot = pool_slot(w, from->addr);

	if (w->fixed->pool_slots[slot])
		return vt_torch_walk_broken(w, "a private pool is listed twice", from->addr);
	if (w->n_pools == POOLS_MAX)
		return vt_torch_walk_truncate(w, "more private pools than the walk has room for");
	pool = &w->fixed->pools[w->n_pools++];
	*pool = (struct pool){
		.addr = from->addr,
		.id = id,
		.blocks_root = from->blocks.root,
		.n_blocks = from->blocks.n,
		.unmapped_root = from->unmapped.root,
		.n_unmapped = from->unmapped.n,
		.flags = (uint8_t)((from->small ? VT_BLOCK_SMALL_POOL : 0) |
				   (from->owner ? VT_BLOCK_PRIVATE_POOL : 0)),
	};
	w->fixed->pool_slots[slot] = (uint16_t)w->n_pools;
	return true;
}

static bool add_default_pool(struct vt_torch_walk *w, uint64_t addr, bool small)
{
	struct vt_torch_pool pool;

	if (vt_torch_read_pool(w->src, w->layout, addr, &pool) || pool.owner || pool.small != small)
		return vt_torch_walk_refuse(w, "a default pool is not where the layout says", addr);
	return add_pool(w, &pool, 0);
}

static int add_private(void *arg, const uint8_t *slot)
{
	struct vt_torch_walk *w = arg;
	struct vt_torch_pool large, small;
	uint64_t id = vt_load64(slot + 8) << 32 | (vt_load64(slot + 16) & UINT32_MAX),
		 addr = vt_load64(slot + 24);
	uint16_t offset;

	hash_private(&w->pools_seen, slot);
	if (vt_torch_read_private(w->src, w->layout, addr, &large, &small, &offset))
		return vt_torch_walk_broken(w, "an entry of graph_pools is not a private pool",
					    addr) ?
			       0 :
			       -ECANCELED;
	return add_pool(w, &large, id) && add_pool(w, &small, id) ? 0 : -ECANCELED;
}

static bool load_pools(struct vt_torch_walk *w)
{
	int ret;

	if (!add_default_pool(w, w->dca + w->layout->large_blocks, false) ||
	    !add_default_pool(w, w->dca + w->layout->small_blocks, true))
		return false;
	ret = vt_torch_each_private(w->src, w->layout, w->dca, add_private, w);
	if (w->stopped)
		return false;
	return !ret || vt_torch_walk_broken(w, "graph_pools cannot be read",
					    w->dca + w->layout->graph_pools);
}

/*
 * A block names a pool that graph_pools did not have (or graph_pools was not found): it counts when
 * it is one. Its id is then unknown.
 */
static int adopt_pool(struct vt_torch_walk *w, uint64_t addr)
{
	struct vt_torch_pool pool, large, small;
	uint16_t offset;

	if (vt_torch_read_pool(w->src, w->layout, addr, &pool) || !pool.owner ||
	    vt_torch_read_private(w->src, w->layout, pool.owner, &large, &small, &offset) ||
	    (large.addr != addr && small.addr != addr))
		return -1;
	if (w->layout->graph_pools != NONE &&
	    !vt_torch_walk_broken(w, "a block's pool is in no table of pools", addr))
		return -1;
	if (!add_pool(w, &large, 0) || !add_pool(w, &small, 0))
		return -1;
	return find_pool(w, addr);
}

/* ---- blocks ---- */

static uint64_t field64(const uint8_t *bytes, uint16_t offset)
{
	return offset == NONE ? 0 : vt_load64(bytes + offset);
}

static uint32_t events_of(const struct vt_torch_block_layout *l, const uint8_t *bytes)
{
	return l->event_count == NONE ? 0 : vt_load32(bytes + l->event_count);
}

/* Fills the entry of one Block and says what is wrong with it, or NULL. */
static const char *check_block(struct vt_torch_walk *w, const uint8_t *bytes, uint64_t object,
			       struct entry *e)
{
	const struct vt_torch_block_layout *l = w->block;
	struct vt_block_rec *rec = &e->rec;
	uint64_t pool_addr = vt_load64(bytes + l->pool);
	uint8_t allocated = bytes[l->allocated], mapped = l->mapped == NONE ? 1 : bytes[l->mapped];
	uint64_t requested = field64(bytes, l->requested_size);
	int32_t events = (int32_t)events_of(l, bytes);
	int pool = find_pool(w, pool_addr);

	rec->addr = vt_load64(bytes + l->ptr);
	rec->size = vt_load64(bytes + l->size);
	rec->stream = vt_load64(bytes + l->stream);
	rec->context = field64(bytes, l->context);
	rec->object = object;
	rec->device = l->device == NONE ? (int16_t)w->device : (int8_t)bytes[l->device];
	e->prev = vt_load64(bytes + l->prev);
	e->next = vt_load64(bytes + l->next);

	if (pool < 0)
		pool = adopt_pool(w, pool_addr);
	if (pool < 0)
		return "a block's pool is unknown";
	if (w->table != TABLE_ACTIVE && (uint32_t)pool != w->pool)
		return "a free block is in the set of another pool";
	if (allocated > 1 || mapped > 1)
		return "a block's flags are not flags";
	if (rec->device != w->device)
		return "a block belongs to another device";
	if (!rec->addr || !rec->size || rec->size >= UINT64_C(1) << 56 ||
	    rec->addr >= UINT64_C(1) << 56)
		return "a block's address or size is impossible";
	if (!(w->fixed->pools[pool].flags & VT_BLOCK_PRIVATE_POOL) && rec->size % MIN_BLOCK)
		return "a block's size is not a multiple of 512";
	if (events < 0)
		return "a block's event count is negative";
	if (w->table == TABLE_ACTIVE ? !mapped : allocated)
		return "a block's state does not fit the table it is in";
	if (w->table != TABLE_ACTIVE &&
	    (events || vt_load64(bytes + l->stream_uses + offsetof(struct vt_ska, n))))
		return "a free block is still in use by a stream";
	if (mapped != (w->table != TABLE_UNMAPPED))
		return "a block's mapping does not fit the table it is in";
	if (allocated && requested > rec->size)
		return "a block is smaller than what was asked for";

	rec->requested = w->table == TABLE_UNMAPPED ? 0 : requested;
	rec->pool = w->fixed->pools[pool].id;
	rec->pad = (uint32_t)pool;
	rec->flags = w->fixed->pools[pool].flags;
	if (field64(bytes, l->expandable_segment))
		rec->flags |= VT_BLOCK_EXPANDABLE;
	else if (w->table == TABLE_UNMAPPED)
		return "memory is unmapped without an expandable segment";
	rec->state = w->table == TABLE_UNMAPPED ? VT_BLOCK_UNMAPPED :
		     w->table == TABLE_CACHED   ? VT_BLOCK_CACHED :
		     allocated                  ? VT_BLOCK_ALLOCATED :
						  VT_BLOCK_AWAITING_FREE;
	if (w->table == TABLE_ACTIVE)
		w->requested += requested;
	return NULL;
}

static bool take_block(struct vt_torch_walk *w, uint64_t addr, const uint8_t *bytes)
{
	const char *why = bytes ? check_block(w, bytes, addr, &w->entries[w->n_entries]) :
				  "a block cannot be read";

	if (w->stopped)
		return false;
	if (!why) {
		w->addrs[w->n_entries] = w->entries[w->n_entries].rec.addr;
		w->n_entries++;
		if (w->entries[w->n_entries - 1].rec.state == VT_BLOCK_AWAITING_FREE)
			vt_torch_walk_awaits(w, events_of(w->block, bytes));
		return true;
	}
	w->result->dropped++;
	return vt_torch_walk_broken(w, why, addr);
}

static bool read_blocks(struct vt_torch_walk *w, enum table table, uint32_t pool, uint64_t first)
{
	w->table = table;
	w->pool = pool;
	if (w->n > first && !w->block->size_of)
		return vt_torch_walk_refuse(
			w, "there are blocks, and what is in a block of this release is not known",
			w->objects[first]);
	return vt_torch_walk_each_object(w, w->objects + first, w->n - first, w->block->size_of,
					 take_block);
}

/* n elements of a container were not there. */
static bool missing(struct vt_torch_walk *w, uint64_t n, const char *why, uint64_t addr)
{
	w->result->dropped += n;
	return !n || vt_torch_walk_broken(w, why, addr);
}

static bool room_for(struct vt_torch_walk *w, uint64_t more)
{
	return more <= w->capacity - w->n ||
	       vt_torch_walk_truncate(w, "more blocks than the walk has room for");
}

/* ---- active_blocks ---- */

static bool read_active(struct vt_torch_walk *w)
{
	struct vt_ska table;
	uint64_t addr = w->dca + w->layout->active_blocks, n, at = 0, first = w->n,
		 max = w->chunk_size / VT_SKA_SET_SLOT;

	if (vt_mem_read(w->src, addr, &table, sizeof(table)) || !vt_ska_plausible(&table))
		return vt_torch_walk_refuse(w, "active_blocks is not where the layout says", addr);
	if (!room_for(w, table.n))
		return false;
	n = vt_ska_slots(&table);
	while (at < n) {
		uint64_t some = n - at < max ? n - at : max;
		uint64_t from = table.entries + at * VT_SKA_SET_SLOT;
		const uint8_t *slots = vt_mem_direct(w->src, from, some * VT_SKA_SET_SLOT);

		if (!slots) {
			if (vt_mem_read(w->src, from, w->chunk, some * VT_SKA_SET_SLOT))
				return vt_torch_walk_refuse(
					w, "the slots of active_blocks cannot be read", from);
			slots = w->chunk;
		}
		for (uint64_t i = 0; i < some; i++) {
			if ((int8_t)slots[i * VT_SKA_SET_SLOT] < 0)
				continue;
			if (w->n - first == table.n) {
				if (!vt_torch_walk_broken(
					    w, "active_blocks has more elements than it counts",
					    addr))
					return false;
				break;
			}
			w->objects[w->n++] = vt_load64(slots + i * VT_SKA_SET_SLOT + VT_SKA_VALUE);
		}
		at += some;
		if (!vt_torch_walk_in_time(w, 0))
			return false;
	}
	return missing(w, table.n - (w->n - first),
		       "active_blocks has fewer elements than it counts", addr) &&
	       read_blocks(w, TABLE_ACTIVE, 0, first);
}

/* ---- the sets of free blocks ---- */

static bool take_node(struct vt_torch_walk *w, uint64_t addr, const uint8_t *bytes)
{
	struct vt_rbnode node;
	const uint64_t *child[2] = { &node.left, &node.right };

	if (!bytes)
		return vt_torch_walk_broken(w, "a node of a set of free blocks cannot be read",
					    addr);
	__builtin_memcpy(&node, bytes, sizeof(node));
	for (int i = 0; i < 2; i++) {
		if (!*child[i])
			continue;
		if (w->n_nodes == w->max_nodes)
			return vt_torch_walk_broken(
				w, "a set of free blocks has more elements than it counts", addr);
		w->nodes[w->n_nodes++] = *child[i];
	}
	/* no more values than nodes, and nodes are bounded */
	w->objects[w->n++] = node.value;
	return true;
}

/* Appends the elements of a set, breadth first: each level's nodes are known, and read, at once. */
static bool read_set_elements(struct vt_torch_walk *w, uint64_t root, uint64_t n)
{
	uint64_t from = 0, first = w->n;

	if (!n)
		return true;
	if (!room_for(w, n))
		return false;
	w->max_nodes = n;
	w->nodes[0] = root;
	w->n_nodes = 1;
	while (from < w->n_nodes) {
		uint64_t to = w->n_nodes;

		if (!vt_torch_walk_each_object(w, w->nodes + from, to - from,
					       sizeof(struct vt_rbnode), take_node))
			return false;
		from = to;
	}
	return missing(w, n - (w->n - first),
		       "a set of free blocks has fewer elements than it counts", root);
}

static bool read_free(struct vt_torch_walk *w)
{
	/* n_pools may grow while blocks are read */
	for (uint32_t i = 0; i < w->n_pools; i++) {
		const struct pool *pool = &w->fixed->pools[i];
		uint64_t first = w->n;

		if (!read_set_elements(w, pool->blocks_root, pool->n_blocks) ||
		    !read_blocks(w, TABLE_CACHED, i, first))
			return false;
		first = w->n;
		if (!read_set_elements(w, pool->unmapped_root, pool->n_unmapped) ||
		    !read_blocks(w, TABLE_UNMAPPED, i, first))
			return false;
	}
	return true;
}

/* ---- segments ---- */

/*
 * What is wrong between a block and the one before it in memory (NULL: there is none before), or
 * NULL. *linked: they are neighbours in the list.
 */
static const char *check_neighbours(const struct entry *before, const struct entry *e, bool *linked)
{
	bool adjoin = before && before->rec.addr + before->rec.size == e->rec.addr;

	*linked = false;
	if (before && before->rec.addr + before->rec.size > e->rec.addr)
		return "two blocks overlap";
	if (before && before->next && (before->next != e->rec.object || !adjoin))
		return "a block's next block does not follow it in memory";
	if (e->prev && (!before || e->prev != before->rec.object || !adjoin))
		return "a block's previous block does not precede it in memory";
	if (before && !e->prev != !before->next)
		return "two blocks disagree whether they are neighbours";
	*linked = e->prev != 0;
	if (*linked && before->rec.pad != e->rec.pad)
		return "a segment's blocks are in different pools";
	if (*linked && before->rec.stream != e->rec.stream)
		return "a segment's blocks are of different streams";
	if (*linked && (before->rec.flags ^ e->rec.flags) & VT_BLOCK_EXPANDABLE)
		return "only a part of a segment is expandable";
	return NULL;
}

/*
 * Checks the order of all blocks, finds segments, sums up and writes the records. The start of a
 * segment is known with its first block, so each record is final when it is written.
 */
static bool emit_in_order(struct vt_torch_walk *w, struct vt_block_rec *recs, uint64_t n)
{
	const struct entry *before = NULL;
	uint64_t emitted = 0;

	for (uint64_t i = 0; i < n; i++) {
		struct entry *e = &w->entries[vt_torch_walk_index_at(w, i)];
		const char *why;
		bool linked;

		if (i + AHEAD < n) {
			const char *next =
				(const char *)&w->entries[vt_torch_walk_index_at(w, i + AHEAD)];

			__builtin_prefetch(next);
			/* entries are not aligned to lines */
			__builtin_prefetch(next + sizeof(*e) - 1);
		}
		if (!vt_torch_walk_in_time(w, i + 1))
			return false;
		why = check_neighbours(before, e, &linked);
		if (why && !vt_torch_walk_broken(w, why, e->rec.object))
			return false;
		if (why && before && before->rec.addr + before->rec.size > e->rec.addr) {
			w->result->dropped++;
			continue;
		}
		if (!linked && !(e->rec.flags & VT_BLOCK_EXPANDABLE))
			w->fixed_segments++;
		if (!linked || e->rec.state == VT_BLOCK_UNMAPPED ||
		    before->rec.state == VT_BLOCK_UNMAPPED) {
			e->rec.flags |= VT_BLOCK_SEGMENT_START;
			w->result->segments += e->rec.state != VT_BLOCK_UNMAPPED;
		}
		w->n_state[e->rec.state]++;
		w->result->bytes[e->rec.state] += e->rec.size;
		recs[emitted] = e->rec;
		recs[emitted++].pad = 0;
		before = e;
	}
	if (before && before->next &&
	    !vt_torch_walk_broken(w, "a block's next block is in no table", before->rec.object))
		return false;
	w->result->blocks = emitted;
	return true;
}

/* ---- sums ---- */

static bool compare_stats(struct vt_torch_walk *w)
{
	const struct vt_torch_stats *stats = &w->stats;
	const uint64_t *bytes = w->result->bytes;
	const struct {
		const char *name;
		int64_t stat;
		uint64_t sum;
	} pairs[] = {
		{ "segment", stats->segment.current, w->fixed_segments },
		{ "allocation", stats->allocation.current, w->n_state[VT_BLOCK_ALLOCATED] },
		{ "active", stats->active.current,
		  w->n_state[VT_BLOCK_ALLOCATED] + w->n_state[VT_BLOCK_AWAITING_FREE] },
		{ "allocated_bytes", stats->allocated_bytes.current, bytes[VT_BLOCK_ALLOCATED] },
		{ "active_bytes", stats->active_bytes.current,
		  bytes[VT_BLOCK_ALLOCATED] + bytes[VT_BLOCK_AWAITING_FREE] },
		{ "reserved_bytes", stats->reserved_bytes.current,
		  bytes[VT_BLOCK_ALLOCATED] + bytes[VT_BLOCK_AWAITING_FREE] +
			  bytes[VT_BLOCK_CACHED] },
		{ "requested_bytes", stats->requested_bytes.current, w->requested },
	};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		char why[sizeof(w->result->why)];
		size_t at = 0;

		if ((uint64_t)pairs[i].stat == pairs[i].sum)
			continue;
		vt_torch_why_text(why, sizeof(why), &at, pairs[i].name);
		vt_torch_why_text(why, sizeof(why), &at,
				  pairs[i].stat < 0 ? " is negative" : " is ");
		if (pairs[i].stat >= 0)
			vt_torch_why_number(why, sizeof(why), &at, (uint64_t)pairs[i].stat);
		vt_torch_why_text(why, sizeof(why), &at, " in the statistics, the blocks give ");
		vt_torch_why_number(why, sizeof(why), &at, pairs[i].sum);
		return vt_torch_walk_broken(w, why, w->dca + w->layout->stats);
	}
	return true;
}

/* ---- all of it ---- */

/* The data is from one moment after all, so a failed check is not a half-seen change. */
static bool be_strict(struct vt_torch_walk *w)
{
	w->strict = true;
	w->result->certain = 1;
	if (!w->unstable)
		return true;
	w->result->result = VT_WALK_REFUSED;
	w->stopped = true;
	return false;
}

static bool read_all(struct vt_torch_walk *w)
{
	bool certain = w->strict;

	if (!layout_usable(w->layout))
		return vt_torch_walk_refuse(w, "the layout is impossible", 0);
	w->mark_ns = vt_torch_walk_now(w);
	if (!take_mark(w, w->src, &w->mark))
		return vt_torch_walk_refuse(w, "the statistics cannot be read",
					    w->dca + w->layout->stats);
	if (w->mark.owner > 0 && w->result->lock == VT_LOCK_NONE && !w->strict) {
		w->result->lock = VT_LOCK_HELD_BY;
		w->result->owner_tid = w->mark.owner;
		w->found_lock = true;
	}
	take_stats(&w->stats, &w->mark);
	w->result->stats = w->stats;
	w->result->have_stats = 1;
	if (!load_pools(w) || !read_active(w) || !read_free(w))
		return false;
	vt_torch_walk_read_waits(w);
	if (!w->strict && !nothing_happened(w, w->src, &certain)) {
		if (w->found_lock) {
			w->result->lock = VT_LOCK_NONE; /* for a moment only */
			w->result->owner_tid = 0;
		}
		return vt_torch_walk_broken(w, "the allocator was changing while it was read",
					    w->dca);
	}
	return !certain || be_strict(w);
}

static bool order_all(struct vt_torch_walk *w, struct vt_torch_sink *sink)
{
	struct vt_block_rec *recs = w->n_entries ? sink->reserve(sink, w->n_entries) : NULL;

	if (w->n_entries && !recs)
		return vt_torch_walk_truncate(w, "no room for the records of all blocks");
	vt_torch_walk_order_by(w, w->addrs, w->n_entries);
	return emit_in_order(w, recs, w->n_entries) && compare_stats(w);
}

/* No sum of a part must look like a total; the statistics of a refused layout are no statistics. */
static void take_back(struct vt_torch_device_result *result)
{
	memset(result->bytes, 0, sizeof(result->bytes));
	result->segments = 0;
	result->blocks = 0;
	result->waits = (struct vt_torch_waits){ 0 };
	if (result->result == VT_WALK_REFUSED) {
		memset(&result->stats, 0, sizeof(result->stats));
		result->have_stats = 0;
	}
}

struct vt_torch_walk *vt_torch_walk_read(struct vt_memsrc *src,
					 const struct vt_torch_layout *layout, uint64_t dca,
					 int device, const struct vt_torch_walk_limits *limits,
					 struct vt_torch_scratch *scratch,
					 struct vt_torch_device_result *result)
{
	struct vt_torch_walk *w = scratch->base;
	uint64_t start = limits->now_ns ? limits->now_ns() : 0;

	*result = (struct vt_torch_device_result){
		.device = device,
		.allocator = dca,
		.lock = result->lock,
		.owner_tid = result->owner_tid,
	};
	if (!w || scratch->size < FIXED_SIZE) {
		static const char why[] = "the walk got too little scratch memory";

		result->result = VT_WALK_TRUNCATED;
		__builtin_memcpy(result->why, why, sizeof(why));
		return NULL;
	}
	memset(w, 0, sizeof(*w));
	w->src = src;
	w->layout = layout;
	w->block = &layout->block;
	w->limits = *limits;
	w->result = result;
	w->dca = dca;
	w->device = device;
	w->strict = src->coherent && result->lock != VT_LOCK_HELD_BY;
	take_scratch(w, scratch);
	if (!read_all(w)) {
		take_back(result);
		w = NULL;
	}
	if (limits->now_ns) {
		uint64_t end = limits->now_ns();

		result->read_ns = result->walk_ns = end - start;
		if (w)
			w->read_end = end;
	}
	return w;
}

bool vt_torch_walk_holds(struct vt_torch_walk *w, struct vt_memsrc *src)
{
	bool certain = false;

	if (w->unstable || !nothing_happened(w, src, &certain) || !certain || !be_strict(w))
		return false;
	vt_torch_walk_renew_waits(w, src);
	return true;
}

void vt_torch_walk_finish(struct vt_torch_walk *w, struct vt_torch_sink *sink)
{
	uint64_t start = vt_torch_walk_now(w);

	w->away_ns = start - w->read_end;
	if (order_all(w, sink))
		w->result->result = w->unstable ? VT_WALK_UNSTABLE : VT_WALK_COMPLETE;
	else
		take_back(w->result);
	vt_torch_walk_settle_waits(w->result);
	w->result->walk_ns += vt_torch_walk_now(w) - start;
}

void vt_torch_walk_device(struct vt_memsrc *src, const struct vt_torch_layout *layout, uint64_t dca,
			  int device, const struct vt_torch_walk_limits *limits,
			  struct vt_torch_scratch *scratch, struct vt_torch_sink *sink,
			  struct vt_torch_device_result *result)
{
	struct vt_torch_walk *walk =
		vt_torch_walk_read(src, layout, dca, device, limits, scratch, result);

	if (walk)
		vt_torch_walk_finish(walk, sink);
}
