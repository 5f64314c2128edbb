/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds PyTorch's allocator in a target and the offset of every field that the walk needs, by what the fields look like and
 * not by PyTorch's version: a recursive mutex, red-black-tree headers 48 bytes apart, a hash table right behind the second
 * pool, blocks that name their neighbours. The table of known Blocks only orders the attempts.
 */
#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "target/live.h"
#include "walk/torch.h"
#include "walk/torch_abi.h"
#include "walk/torch_find.h"

#define NONE VT_TORCH_NO_FIELD
#define PAGE 4096u

#define OBJECT_MAX 0x8000 /* NativeCachingAllocator has 22.7 kB in 2.6 to 2.15 */
#define DCA_MAX 0x4000    /* DeviceCachingAllocator has 2.9 kB in 2.11 */
#define DCA_GUESS 0x1000  /* when nothing says where it ends */
#define SAMPLES_MAX 96
#define SAMPLE_BYTES 256
#define TABLES_MAX 24
#define ATTEMPTS 20 /* at a target that runs: each takes about half a millisecond */
#define PAUSE_NS 100000

/* ---- what a Block looks like ---- */

/*
 * Known Blocks, newest first. Only a Block that passes the checks of plausible() is accepted; the other columns only say which
 * row to try first, and decide between rows while there is no block to look at. Checked against the real libraries of 2.2.2,
 * 2.3.1, 2.6.0, 2.9.1, 2.10.0, 2.11.0, 2.12.0, 2.13.0, 2.14.1 and 2.15.0.
 */
struct block_row {
	const char *name;
	uint16_t sets_per_pool;
	uint16_t pool_size_of;
	uint16_t large_blocks;
	uint16_t gap; /* from the hash table before graph_pools to it; 12 more with CUDA 12, less with 13 (cudaDeviceProp) */
	struct vt_torch_block_layout block;
};

/* gc_count_base is int64 */
#define BLOCK_2_3                                                                                               \
	{                                                                                                       \
		.size_of = 160, .device = 0, .stream = 8, .stream_uses = 16, .size = 48, .requested_size = 56,  \
		.pool = 64, .ptr = 72, .allocated = 80, .mapped = 81, .prev = 88, .next = 96,                   \
		.event_count = 104, .context = 120, .expandable_segment = 152,                                  \
	}
/* registration_counter before size */
#define BLOCK_2_11                                                                                              \
	{                                                                                                       \
		.size_of = 168, .device = 0, .stream = 8, .stream_uses = 16, .size = 56, .requested_size = 64,  \
		.pool = 72, .ptr = 80, .allocated = 88, .mapped = 89, .prev = 96, .next = 104,                  \
		.event_count = 112, .context = 128, .expandable_segment = 160,                                  \
	}

static const struct block_row block_rows[] = {
	/* blocks_by_addr in BlockPool; reserved_bytes_by_private_pools in DeviceStats */
	{ "2.13 to 2.15", 3, 168, 1064, 1268, BLOCK_2_11 },
	/* 8 bytes more before large_blocks in 2.12 */
	{ "2.11 to 2.12", 2, 120, 1024, 1268, BLOCK_2_11 },
	/* device_id before large_blocks, cudaDeviceProp behind them */
	{ "2.10", 2, 120, 1024, 1212, BLOCK_2_3 },
	/* get_free_blocks_call_count in BlockPool */
	{ "2.3 to 2.9", 2, 120, 1016, 184, BLOCK_2_3 },
	/* expandable segments; contexts instead of a history list */
	{ "2.1 to 2.2", 2, 112, 992, 144,
	  { .size_of = 152, .device = 0, .stream = 8, .stream_uses = 16, .size = 48, .requested_size = 56,
	    .pool = 64, .ptr = 72, .allocated = 80, .mapped = 81, .prev = 88, .next = 96, .event_count = 104,
	    .context = 112, .expandable_segment = 144 } },
	{ "2.0", 1, 64, 992, 96,
	  { .size_of = 112, .device = 0, .stream = 8, .stream_uses = 16, .size = 48, .requested_size = 56,
	    .pool = 64, .ptr = 72, .allocated = 80, .mapped = NONE, .prev = 88, .next = 96, .event_count = 104,
	    .context = NONE, .expandable_segment = NONE } },
};

#define N_BLOCK_ROWS (sizeof(block_rows) / sizeof(block_rows[0]))

/* ---- state ---- */

struct sample {
	uint64_t addr;
	int device;
	bool active;
	uint8_t bytes[SAMPLE_BYTES];
};

struct finder {
	const struct vt_maps *maps;
	struct vt_memsrc *src;
	struct vt_torch_found *found;
	uint64_t allocator;
	uint8_t object[OBJECT_MAX];
	size_t object_len;
	uint64_t dcas[VT_TORCH_MAX_DEVICES];
	size_t n_dcas;
	struct vt_torch_layout layout;
	uint16_t tables[TABLES_MAX];     /* offsets of hash tables behind active_blocks in every device's allocator */
	size_t n_tables;
	struct sample samples[SAMPLES_MAX];
	size_t n_samples;
};

static void say_why(struct finder *f, const char *what)
{
	snprintf(f->found->why, sizeof(f->found->why), "%s", what);
}

size_t vt_torch_read_some(struct vt_memsrc *src, uint64_t addr, void *buf, size_t len)
{
	size_t done = 0;

	if (!vt_mem_read(src, addr, buf, len))
		return len;
	while (done < len) {
		size_t some = PAGE - (addr + done) % PAGE;

		if (some > len - done)
			some = len - done;
		if (vt_mem_read(src, addr + done, (uint8_t *)buf + done, some))
			break;
		done += some;
	}
	return done;
}

static bool is_readable(const struct finder *f, uint64_t addr)
{
	const struct vt_map_entry *map = vt_maps_find(f->maps, addr);

	return map && (map->flags & VT_MAP_READ);
}

/* ---- DeviceCachingAllocator ---- */

/*
 * How much of the object at dca may belong to it: operator new is malloc() in PyTorch, and glibc keeps the size of a chunk in
 * front of it. Where that number makes no sense (another malloc) a guess must do; the next device's object is a bound too.
 */
static size_t dca_size(const struct finder *f, uint64_t dca)
{
	size_t size = DCA_GUESS;
	uint64_t chunk;

	if (!vt_mem_read_u64(f->src, dca - 8, &chunk) && !(chunk & 8) && (chunk & ~UINT64_C(7)) >= 1024 &&
	    (chunk & ~UINT64_C(7)) <= DCA_MAX)
		size = (size_t)(chunk & ~UINT64_C(7)) - 8;
	for (size_t i = 0; i < f->n_dcas; i++) {
		if (f->dcas[i] > dca && f->dcas[i] - dca < size)
			size = (size_t)(f->dcas[i] - dca);
	}
	return size;
}

static bool is_set(const struct finder *f, uint64_t dca, const uint8_t *bytes, size_t n, size_t offset)
{
	struct vt_rbset set;
	uint64_t parent;

	if (offset + sizeof(set) > n)
		return false;
	memcpy(&set, bytes + offset, sizeof(set));
	if (!vt_rbset_plausible(&set, dca + offset))
		return false;
	if (!set.n)
		return true;
	return !vt_mem_read_u64(f->src, set.root + offsetof(struct vt_rbnode, parent), &parent) &&
	       parent == dca + offset + VT_RBSET_HEADER;
}

static bool is_table(const uint8_t *bytes, size_t n, size_t offset)
{
	struct vt_ska table;

	if (offset + sizeof(table) > n)
		return false;
	memcpy(&table, bytes + offset, sizeof(table));
	return vt_ska_plausible(&table);
}

/* The offset of the next run of sets 48 bytes apart from *offset on; how many they are, 0 for none. */
static unsigned int next_sets(const struct finder *f, uint64_t dca, const uint8_t *bytes, size_t n, size_t *offset)
{
	for (; *offset < n; *offset += 8) {
		unsigned int sets = 0;

		while (is_set(f, dca, bytes, n, *offset + sets * sizeof(struct vt_rbset)))
			sets++;
		if (sets)
			return sets;
	}
	return 0;
}

/* What is wrong with the DeviceCachingAllocator in bytes, or NULL: then layout has its offsets. */
static const char *dca_layout(const struct finder *f, uint64_t dca, const uint8_t *bytes, size_t n,
			      struct vt_torch_layout *layout)
{
	size_t large = VT_MUTEX_SIZE, small, active;
	unsigned int sets;
	uint64_t owner;

	if (n < VT_MUTEX_SIZE || vt_load32(bytes + VT_MUTEX_KIND) != VT_MUTEX_RECURSIVE)
		return "a device's allocator does not begin with a recursive mutex";
	sets = next_sets(f, dca, bytes, n, &large);
	if (!sets)
		return "no set of blocks in a device's allocator";
	if (sets > 3)
		return "a block pool has more sets than any known release";
	small = large + sets * sizeof(struct vt_rbset);
	if (next_sets(f, dca, bytes, n, &small) != sets)
		return "the second block pool differs from the first";
	layout->sets_per_pool = (uint16_t)sets;
	layout->pool_is_small = (uint16_t)(sets * sizeof(struct vt_rbset));
	layout->pool_owner = layout->pool_is_small + 8;
	layout->pool_size_of = (uint16_t)(small - large);
	if (layout->pool_size_of < layout->pool_owner + 8 || layout->pool_size_of > 240 || small + layout->pool_size_of > n)
		return "the block pools have an impossible size";
	if (bytes[large + layout->pool_is_small] != 0 || bytes[small + layout->pool_is_small] != 1)
		return "the block pools are not a large and a small one";
	owner = vt_load64(bytes + large + layout->pool_owner) | vt_load64(bytes + small + layout->pool_owner);
	if (owner)
		return "a default block pool has an owner";
	/* active_blocks is the next member; 16 bytes are for a member that a release may put between */
	active = small + layout->pool_size_of;
	while (!is_table(bytes, n, active)) {
		active += 8;
		if (active > small + layout->pool_size_of + 16u)
			return "no hash table behind the block pools";
	}
	layout->mutex = 0;
	layout->stats = VT_MUTEX_SIZE;
	/* 2.13 put a hash table into DeviceStats, behind reserved_bytes */
	layout->stats_extra =
		is_table(bytes, n, VT_MUTEX_SIZE + VT_STATS_BEFORE_EXTRA) ? sizeof(struct vt_ska) : 0;
	if ((size_t)layout->stats + VT_STATS_BEFORE_EXTRA + layout->stats_extra + VT_STATS_AFTER_EXTRA > large)
		return "no room for the statistics before the block pools";
	layout->large_blocks = (uint16_t)large;
	layout->small_blocks = (uint16_t)small;
	layout->active_blocks = (uint16_t)active;
	return NULL;
}

/* ---- the vector of devices ---- */

/* The pointers of the vector at bytes, if it is one of 1 to 64 objects. */
static size_t read_vector(struct finder *f, const uint8_t *bytes)
{
	uint64_t begin = vt_load64(bytes), end = vt_load64(bytes + 8), limit = vt_load64(bytes + 16);
	size_t n;

	if (!vt_is_object(begin) || end <= begin || limit < end || (end - begin) % 8 || (limit - begin) % 8 ||
	    end - begin > 8 * VT_TORCH_MAX_DEVICES)
		return 0;
	n = (size_t)(end - begin) / 8;
	if (vt_mem_read(f->src, begin, f->dcas, n * 8))
		return 0;
	for (size_t i = 0; i < n; i++) {
		if (!vt_is_object(f->dcas[i]) || !is_readable(f, f->dcas[i]))
			return 0;
	}
	return n;
}

static bool same_shape(const struct vt_torch_layout *a, const struct vt_torch_layout *b)
{
	return a->large_blocks == b->large_blocks && a->small_blocks == b->small_blocks &&
	       a->active_blocks == b->active_blocks && a->sets_per_pool == b->sets_per_pool &&
	       a->stats_extra == b->stats_extra;
}

/* All devices of f->dcas have the same layout; else why not. *near: what they are does look like device allocators. */
static const char *devices_layout(struct finder *f, bool *near)
{
	struct vt_torch_layout first = { 0 };

	for (size_t i = 0; i < f->n_dcas; i++) {
		struct vt_torch_layout layout = { 0 };
		uint8_t bytes[DCA_MAX];
		size_t n = vt_torch_read_some(f->src, f->dcas[i], bytes, dca_size(f, f->dcas[i]));
		const char *why = dca_layout(f, f->dcas[i], bytes, n, &layout);

		if (n >= VT_MUTEX_SIZE && vt_load32(bytes + VT_MUTEX_KIND) == VT_MUTEX_RECURSIVE)
			*near = true;
		if (why)
			return why;
		if (!i)
			first = layout;
		else if (!same_shape(&first, &layout))
			return "the devices' allocators differ in their layout";
	}
	f->layout = first;
	return NULL;
}

/* Finds the vector of device allocators in the object. Sets why when something looks like it but is not accepted. */
static bool find_devices(struct finder *f, const char **why)
{
	for (size_t offset = 8; offset + 24 <= f->object_len; offset += 8) {
		const char *bad;
		bool near = false;

		f->n_dcas = read_vector(f, f->object + offset);
		if (!f->n_dcas)
			continue;
		bad = devices_layout(f, &near);
		if (!bad) {
			f->layout.device_vector = (uint32_t)offset;
			return true;
		}
		if (near && !*why)
			*why = bad;
	}
	return false;
}

/* Whether a hash table of the object has elements: the tables of handed-out blocks are the only ones in it. */
static bool object_has_elements(const struct finder *f)
{
	for (size_t offset = 8; offset + sizeof(struct vt_ska) <= f->object_len; offset += 8) {
		struct vt_ska table;

		memcpy(&table, f->object + offset, sizeof(table));
		if (vt_ska_plausible(&table) && table.n)
			return true;
	}
	return false;
}

/* ---- private pools ---- */

static void find_tables(struct finder *f)
{
	uint8_t bytes[DCA_MAX];
	size_t n = vt_torch_read_some(f->src, f->dcas[0], bytes, dca_size(f, f->dcas[0]));
	size_t offset = f->layout.active_blocks + sizeof(struct vt_ska);

	f->n_tables = 0;
	while (offset < n && f->n_tables < TABLES_MAX) {
		if (is_table(bytes, n, offset)) {
			f->tables[f->n_tables++] = (uint16_t)offset;
			offset += sizeof(struct vt_ska);
		} else {
			offset += 8;
		}
	}
}

/* 1: a table of private pools; 0: empty; -1: of something else. */
static int holds_private_pools(struct finder *f, uint64_t dca, uint16_t offset)
{
	struct vt_torch_pool large, small;
	uint8_t slots[64 * VT_SKA_POOL_SLOT];
	struct vt_ska table;
	uint64_t n, seen = 0;
	uint16_t at = NONE;

	if (vt_mem_read(f->src, dca + offset, &table, sizeof(table)) || !vt_ska_plausible(&table))
		return -1;
	if (!table.n)
		return 0;
	n = vt_ska_slots(&table);
	while (seen < n && seen < 4096) {
		uint64_t some = n - seen < 64 ? n - seen : 64;

		if (vt_mem_read(f->src, table.entries + seen * VT_SKA_POOL_SLOT, slots, some * VT_SKA_POOL_SLOT))
			return -1;
		for (uint64_t i = 0; i < some; i++) {
			const uint8_t *slot = slots + i * VT_SKA_POOL_SLOT;

			if ((int8_t)*slot < 0)
				continue;
			if (vt_torch_read_private(f->src, &f->layout, vt_load64(slot + 24), &large, &small, &at))
				return -1;
			f->layout.private_large = at;
			return 1;
		}
		seen += some;
	}
	return -1;
}

/*
 * graph_pools is the first table whose values are private pools (graph_pools_freeable, next to it, has some of the same). While
 * there are none it is told by its place: it and graph_pools_freeable are the last two hash tables of the object, and there is
 * one more behind them (capture_to_pool_map) in releases whose BlockPool has no get_free_blocks_call_count, that is before 2.3.
 */
static void find_graph_pools(struct finder *f)
{
	size_t behind = f->layout.pool_size_of < f->layout.pool_owner + 16 ? 3 : 2;

	f->layout.graph_pools = NONE;
	f->layout.private_large = NONE;
	find_tables(f);
	for (size_t t = 0; t < f->n_tables; t++) {
		for (size_t i = 0; i < f->n_dcas; i++) {
			if (holds_private_pools(f, f->dcas[i], f->tables[t]) == 1) {
				f->layout.graph_pools = f->tables[t];
				return;
			}
		}
	}
	if (f->n_tables < behind)
		return;
	for (size_t t = f->n_tables - behind; t + 1 < f->n_tables; t++) {
		if (f->tables[t + 1] != f->tables[t] + sizeof(struct vt_ska))
			return;
	}
	for (size_t i = 0; i < f->n_dcas; i++) {
		if (holds_private_pools(f, f->dcas[i], f->tables[f->n_tables - behind]))
			return;
	}
	f->layout.graph_pools = f->tables[f->n_tables - behind];
}

/* ---- blocks ---- */

static void add_sample(struct finder *f, uint64_t addr, int device, bool active)
{
	struct sample *sample = &f->samples[f->n_samples];

	if (f->n_samples == SAMPLES_MAX || !vt_is_object(addr))
		return;
	*sample = (struct sample){ .addr = addr, .device = device, .active = active };
	/* a Block at the very end of the heap may be shorter than a sample; what is missing stays zero */
	if (vt_torch_read_some(f->src, addr, sample->bytes, sizeof(sample->bytes)) >= 112)
		f->n_samples++;
}

static void sample_active(struct finder *f, int device, size_t max)
{
	uint8_t slots[256 * VT_SKA_SET_SLOT];
	struct vt_ska table;
	uint64_t n;

	if (vt_mem_read(f->src, f->dcas[device] + f->layout.active_blocks, &table, sizeof(table)) ||
	    !vt_ska_plausible(&table))
		return;
	n = vt_ska_slots(&table);
	for (uint64_t at = 0; at < n && at < (1 << 16) && max; at += 256) {
		uint64_t some = n - at < 256 ? n - at : 256;

		if (vt_mem_read(f->src, table.entries + at * VT_SKA_SET_SLOT, slots, some * VT_SKA_SET_SLOT))
			return;
		for (uint64_t i = 0; i < some && max; i++) {
			if ((int8_t)slots[i * VT_SKA_SET_SLOT] < 0)
				continue;
			add_sample(f, vt_load64(slots + i * VT_SKA_SET_SLOT + VT_SKA_VALUE), device, true);
			max--;
		}
	}
}

/* Some free blocks: down the left and the right side of the tree. */
static void sample_pool(struct finder *f, int device, uint16_t offset, size_t max)
{
	struct vt_torch_pool pool;

	if (vt_torch_read_pool(f->src, &f->layout, f->dcas[device] + offset, &pool) || !pool.blocks.n)
		return;
	for (int side = 0; side < 2; side++) {
		uint64_t at = pool.blocks.root;

		for (size_t i = 0; i < max && vt_is_object(at); i++) {
			struct vt_rbnode node;

			if (vt_mem_read(f->src, at, &node, sizeof(node)))
				break;
			add_sample(f, node.value, device, false);
			at = side ? node.right : node.left;
		}
	}
}

static void take_samples(struct finder *f)
{
	size_t each = SAMPLES_MAX / 2 / f->n_dcas;

	f->n_samples = 0;
	for (size_t i = 0; i < f->n_dcas; i++) {
		sample_active(f, (int)i, each > 1 ? each : 1);
		sample_pool(f, (int)i, f->layout.large_blocks, 4);
		sample_pool(f, (int)i, f->layout.small_blocks, 4);
	}
}

static bool neighbour_agrees(const struct finder *f, uint64_t neighbour, uint16_t back, uint64_t self)
{
	uint64_t link;

	return !neighbour || (vt_is_object(neighbour) && !vt_mem_read_u64(f->src, neighbour + back, &link) && link == self);
}

/* Whether the sample makes sense as a Block of this layout. */
static bool plausible(const struct finder *f, const struct sample *sample, const struct vt_torch_block_layout *l)
{
	const uint8_t *bytes = sample->bytes;
	uint64_t size = vt_load64(bytes + l->size), requested = vt_load64(bytes + l->requested_size);
	uint64_t pool_addr = vt_load64(bytes + l->pool), dca = f->dcas[sample->device];
	uint64_t context = l->context == NONE ? 0 : vt_load64(bytes + l->context);
	uint64_t expandable = l->expandable_segment == NONE ? 0 : vt_load64(bytes + l->expandable_segment);
	uint8_t allocated = bytes[l->allocated];
	bool private_pool = pool_addr != dca + f->layout.large_blocks && pool_addr != dca + f->layout.small_blocks;
	struct vt_torch_pool pool;

	if ((int8_t)bytes[l->device] != sample->device || !size || !vt_load64(bytes + l->ptr))
		return false;
	if (allocated > 1 || (!sample->active && allocated) || (allocated && requested > size))
		return false;
	if (l->mapped != NONE && bytes[l->mapped] != 1)
		return false;
	if ((int32_t)vt_load32(bytes + l->event_count) < 0)
		return false;
	if (private_pool ? vt_torch_read_pool(f->src, &f->layout, pool_addr, &pool) || !pool.owner : size % 512 != 0)
		return false;
	if ((context && !is_readable(f, context)) || (expandable && !is_readable(f, expandable)))
		return false;
	return neighbour_agrees(f, vt_load64(bytes + l->next), l->prev, sample->addr) &&
	       neighbour_agrees(f, vt_load64(bytes + l->prev), l->next, sample->addr);
}

static bool fits(const struct finder *f, const struct vt_torch_block_layout *l)
{
	size_t good = 0;

	for (size_t i = 0; i < f->n_samples; i++)
		good += plausible(f, &f->samples[i], l);
	/* some may be in the middle of a change; with a wrong layout nearly all fail, and the walk checks every block again */
	return good * 10 >= f->n_samples * 9;
}

static void take_block(struct finder *f, const char *name, const struct vt_torch_block_layout *block)
{
	f->layout.block = *block;
	snprintf(f->layout.name, sizeof(f->layout.name), "%s", name);
}

#define HINTS 5

static bool gap_matches(const struct finder *f, uint16_t gap)
{
	for (size_t t = 1; t < f->n_tables; t++) {
		if (f->tables[t] == f->layout.graph_pools)
			return abs(f->tables[t] - f->tables[t - 1] - gap) <= 12;
	}
	return false;
}

/* How many of the hints of a row hold; the place of the pools counts twice. */
static unsigned int row_hints(const struct finder *f, const struct block_row *row)
{
	return (row->sets_per_pool == f->layout.sets_per_pool) + (row->pool_size_of == f->layout.pool_size_of) +
	       2 * (row->large_blocks == f->layout.large_blocks) + gap_matches(f, row->gap);
}

/* A Block like that of the newest release, with something put in before size (as 2.11 did with registration_counter). */
static bool try_shifted(struct finder *f)
{
	for (uint16_t size = 48; size <= 120; size += 8) {
		struct vt_torch_block_layout l = BLOCK_2_11;
		uint16_t shift = (uint16_t)(size - l.size);

		l.size_of += shift;
		l.size += shift;
		l.requested_size += shift;
		l.pool += shift;
		l.ptr += shift;
		l.allocated += shift;
		l.mapped += shift;
		l.prev += shift;
		l.next += shift;
		l.event_count += shift;
		l.context += shift;
		l.expandable_segment += shift;
		if (l.size_of <= SAMPLE_BYTES && fits(f, &l)) {
			take_block(f, "a release not known", &l);
			return true;
		}
	}
	return false;
}

static bool find_block(struct finder *f)
{
	take_samples(f);
	for (unsigned int hints = HINTS + 1; hints-- > 0;) {
		for (size_t i = 0; i < N_BLOCK_ROWS; i++) {
			if (row_hints(f, &block_rows[i]) == hints && fits(f, &block_rows[i].block)) {
				take_block(f, block_rows[i].name, &block_rows[i].block);
				return true;
			}
		}
	}
	return try_shifted(f);
}

/* ---- which allocator ---- */

/*
 * The word before the virtual table is the type_info, whose second word is the mangled name (Itanium C++ ABI, 2.5 and 2.9). It
 * is there in stripped files too.
 */
void vt_torch_class_name(struct vt_memsrc *src, uint64_t object, char name[VT_RTTI_MAX])
{
	uint64_t vptr, info, text;
	size_t n;

	name[0] = '\0';
	if (vt_mem_read_u64(src, object, &vptr) || !vt_is_object(vptr) || vt_mem_read_u64(src, vptr - 8, &info) ||
	    !vt_is_object(info) || vt_mem_read_u64(src, info + 8, &text) || !text)
		return;
	n = vt_torch_read_some(src, text, name, VT_RTTI_MAX - 1);
	name[n] = '\0';
}

static const struct {
	const char *part; /* of the mangled name */
	enum vt_torch_backend backend;
} backends[] = {
	{ "NativeCachingAllocator", VT_TORCH_NATIVE },
	{ "CudaMallocAsync", VT_TORCH_ASYNC },
	{ "CUDAPluggableAllocator", VT_TORCH_PLUGGABLE },
};

static enum vt_torch_backend backend_of(const char *class_name)
{
	for (size_t i = 0; i < sizeof(backends) / sizeof(backends[0]); i++) {
		if (strstr(class_name, backends[i].part))
			return backends[i].backend;
	}
	return VT_TORCH_UNKNOWN;
}

static void look(struct finder *f)
{
	const char *why = NULL;
	char class_name[VT_RTTI_MAX];
	enum vt_torch_backend backend;

	f->found->backend = VT_TORCH_UNKNOWN;
	vt_torch_class_name(f->src, f->allocator, class_name);
	backend = backend_of(class_name);
	if (backend == VT_TORCH_ASYNC || backend == VT_TORCH_PLUGGABLE) {
		f->found->backend = backend;
		return;
	}
	f->object_len = vt_torch_read_some(f->src, f->allocator, f->object, sizeof(f->object));
	if (!find_devices(f, &why)) {
		if (!why && backend == VT_TORCH_NATIVE && !object_has_elements(f))
			f->found->backend = VT_TORCH_UNUSED;
		else
			say_why(f, why ? why : f->object_len < 64 ? "the allocator object cannot be read" :
					       "no vector of device allocators in the allocator object");
		return;
	}
	find_graph_pools(f);
	if (!find_block(f)) {
		say_why(f, "the blocks do not look like those of any known release");
		return;
	}
	f->found->layout = f->layout;
	f->found->backend = VT_TORCH_NATIVE;
}

void vt_torch_find_layout(const struct vt_maps *maps, struct vt_memsrc *src, uint64_t allocator,
			  struct vt_torch_found *found)
{
	struct finder *f VT_FREE = calloc(1, sizeof(*f));

	found->backend = VT_TORCH_UNKNOWN;
	found->allocator = allocator;
	found->why[0] = '\0';
	if (!f) {
		snprintf(found->why, sizeof(found->why), "out of memory");
		return;
	}
	f->maps = maps;
	f->src = src;
	f->found = found;
	f->allocator = allocator;
	look(f);
	for (int i = 1; i < ATTEMPTS && found->backend == VT_TORCH_UNKNOWN && !src->coherent; i++) {
		vt_sleep_ns(PAUSE_NS);
		found->why[0] = '\0';
		look(f);
	}
}

/* ---- the module ---- */

/* The executable can hold a copy of an exported variable (R_X86_64_COPY); every other module then uses that one. */
static struct vt_module *main_module(struct vt_modules *modules)
{
	uint64_t headers = modules->files->ops->auxv(modules->files, AT_PHDR);

	return headers ? vt_modules_find(modules, headers) : NULL;
}

/*
 * The address that the pointer exported by the module has now in *allocator, 0 when it exports none or it is not set. Returns
 * what vt_mem_read() does.
 */
static int allocator_of(struct vt_modules *modules, struct vt_module *module, struct vt_memsrc *src, uint64_t *allocator)
{
	static const char *const name = "_ZN3c104cuda20CUDACachingAllocator9allocatorE";
	uint64_t slot = 0;
	struct vt_error *err VT_ERROR = NULL;
	int ret;

	*allocator = 0;
	err = vt_module_dynsyms(modules, module, &name, 1, &slot);
	if (err || !slot)
		return 0;
	ret = vt_mem_read_u64(src, slot, allocator);
	if (ret || !vt_is_object(*allocator))
		*allocator = 0;
	return ret;
}

/* PyTorch's version out of torch/version.py, which lies beside torch/lib/libc10_cuda.so: __version__ = '2.11.0+cu130' */
static void read_version(struct vt_files *files, const char *module_path, char *version, size_t size)
{
	const char *slash = strrchr(module_path, '/'), *lib = "/lib";
	char path[PATH_MAX], text[4096], *at, *end;
	int fd VT_CLOSE = -1;
	ssize_t n;
	size_t dir;

	version[0] = '\0';
	if (!slash || (size_t)(slash - module_path) < strlen(lib))
		return;
	dir = (size_t)(slash - module_path) - strlen(lib);
	if (strncmp(module_path + dir, lib, strlen(lib)) ||
	    (size_t)snprintf(path, sizeof(path), "%.*s/version.py", (int)dir, module_path) >= sizeof(path))
		return;
	fd = files->ops->open(files, path);
	if (fd < 0)
		return;
	n = read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return;
	text[n] = '\0';
	at = strstr(text, "__version__ = ");
	if (!at)
		return;
	at += strlen("__version__ = ");
	if (*at != '\'' && *at != '"')
		return;
	end = strchr(at + 1, *at);
	if (end && (size_t)(end - at) <= size) {
		memcpy(version, at + 1, (size_t)(end - at) - 1);
		version[end - at - 1] = '\0';
	}
}

/* How much a finding tells: with two copies of the library loaded, the one in use is wanted. */
static int rank(enum vt_torch_backend backend)
{
	switch (backend) {
	case VT_TORCH_NATIVE:
	case VT_TORCH_ASYNC:
	case VT_TORCH_PLUGGABLE:
		return 3;
	case VT_TORCH_UNKNOWN:
		return 2;
	case VT_TORCH_UNUSED:
		return 1;
	case VT_TORCH_ABSENT:
		break;
	}
	return 0;
}

static struct vt_error *find_in_module(struct vt_modules *modules, struct vt_module *module, const struct vt_maps *maps,
				       struct vt_memsrc *src, struct vt_torch_found *found)
{
	struct vt_module *executable = main_module(modules);
	struct vt_error *err VT_ERROR = NULL;
	uint64_t allocator = 0;
	int ret = 0;

	if (executable)
		ret = allocator_of(modules, executable, src, &allocator);
	if (!ret && !allocator)
		ret = allocator_of(modules, module, src, &allocator);
	if (ret)
		return vt_mem_error(src, ret, "the pointer to PyTorch's allocator");
	found->c10_cuda = module;
	if (allocator) {
		vt_torch_find_layout(maps, src, allocator, found);
		return NULL;
	}
	found->backend = VT_TORCH_UNKNOWN;
	err = vt_module_open(modules, module);
	if (err)
		snprintf(found->why, sizeof(found->why), "%s", err->message);
	else
		snprintf(found->why, sizeof(found->why),
			 "libc10_cuda.so does not export its allocator: older than PyTorch 2.0, or not yet initialised");
	return NULL;
}

struct vt_error *vt_torch_find(struct vt_modules *modules, const struct vt_maps *maps, struct vt_memsrc *src,
			       struct vt_torch_found *found)
{
	struct vt_module *module;
	size_t index = 0;

	memset(found, 0, sizeof(*found));
	found->backend = VT_TORCH_ABSENT;
	while ((module = vt_modules_by_name(modules, "libc10_cuda.so", &index))) {
		struct vt_torch_found one = { .backend = VT_TORCH_ABSENT };

		VT_TRY(find_in_module(modules, module, maps, src, &one));
		if (rank(one.backend) > rank(found->backend))
			*found = one;
	}
	/* Beside another file than the process runs lies another release's. */
	if (found->c10_cuda && found->c10_cuda->file >= VT_FILE_UNCHECKED)
		read_version(modules->files, found->c10_cuda->path, found->version, sizeof(found->version));
	return NULL;
}
