/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the devices' allocators by their shape: a recursive mutex, red-black-tree headers 48 bytes
 * apart, a hash table right after the second pool, and hash tables of private pools.
 */
#include <string.h>

#include "walk/torch/finder.h"

#define NONE VT_TORCH_NO_FIELD

#define DCA_MAX 0x4000   /* DeviceCachingAllocator has 2.9 kB in 2.11 */
#define DCA_GUESS 0x1000 /* if nothing says where it ends */

/*
 * The largest possible size of the object at dca. operator new is malloc() in PyTorch, and glibc
 * keeps the size of a chunk in front of it. If that number is not plausible (another malloc), we
 * use a guess. The next device's object is a bound too.
 */
static size_t dca_size(const struct vt_torch_finder *f, uint64_t dca)
{
	size_t size = DCA_GUESS;
	uint64_t chunk;

	if (!vt_mem_read_u64(f->src, dca - 8, &chunk) && !(chunk & 8) &&
	    (chunk & ~UINT64_C(7)) >= 1024 && (chunk & ~UINT64_C(7)) <= DCA_MAX)
		size = (size_t)(chunk & ~UINT64_C(7)) - 8;
	for (size_t i = 0; i < f->n_dcas; i++) {
		if (f->dcas[i] > dca && f->dcas[i] - dca < size)
			size = (size_t)(f->dcas[i] - dca);
	}
	return size;
}

static bool is_set(const struct vt_torch_finder *f, uint64_t dca, const uint8_t *bytes, size_t n,
		   size_t offset)
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

/*
 * The offset of the next run of sets 48 bytes apart from *offset on; returns its length, 0 for
 * none.
 */
static unsigned int next_sets(const struct vt_torch_finder *f, uint64_t dca, const uint8_t *bytes,
			      size_t n, size_t *offset)
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

/* Why the bytes are not a DeviceCachingAllocator, or NULL: then layout has its offsets. */
static const char *dca_layout(const struct vt_torch_finder *f, uint64_t dca, const uint8_t *bytes,
			      size_t n, struct vt_torch_layout *layout)
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
	if (layout->pool_size_of < layout->pool_owner + 8 || layout->pool_size_of > 240 ||
	    small + layout->pool_size_of > n)
		return "the block pools have an impossible size";
	if (bytes[large + layout->pool_is_small] != 0 || bytes[small + layout->pool_is_small] != 1)
		return "the block pools are not a large and a small one";
	owner = vt_load64(bytes + large + layout->pool_owner) |
		vt_load64(bytes + small + layout->pool_owner);
	if (owner)
		return "a default block pool has an owner";
	/*
	 * active_blocks is the next member; 16 bytes are for a member that a release may put
	 * between
	 */
	active = small + layout->pool_size_of;
	while (!is_table(bytes, n, active)) {
		active += 8;
		if (active > small + layout->pool_size_of + 16u)
			return "no hash table behind the block pools";
	}
	layout->mutex = 0;
	layout->stats = VT_MUTEX_SIZE;
	/* 2.13 put a hash table into DeviceStats, behind reserved_bytes */
	layout->stats_extra = is_table(bytes, n, VT_MUTEX_SIZE + VT_STATS_BEFORE_EXTRA) ?
				      sizeof(struct vt_ska) :
				      0;
	if ((size_t)layout->stats + VT_STATS_BEFORE_EXTRA + layout->stats_extra +
		    VT_STATS_AFTER_EXTRA >
	    large)
		return "no room for the statistics before the block pools";
	layout->large_blocks = (uint16_t)large;
	layout->small_blocks = (uint16_t)small;
	layout->active_blocks = (uint16_t)active;
	return NULL;
}

/* ---- the vector of devices ---- */

/* The pointers of the vector at bytes, if it is one of 1 to 64 objects. */
static size_t read_vector(struct vt_torch_finder *f, const uint8_t *bytes)
{
	uint64_t begin = vt_load64(bytes), end = vt_load64(bytes + 8),
		 limit = vt_load64(bytes + 16);
	size_t n;

	if (!vt_is_object(begin) || end <= begin || limit < end || (end - begin) % 8 ||
	    (limit - begin) % 8 || end - begin > 8 * VT_TORCH_MAX_DEVICES)
		return 0;
	n = (size_t)(end - begin) / 8;
	if (vt_mem_read(f->src, begin, f->dcas, n * 8))
		return 0;
	for (size_t i = 0; i < n; i++) {
		if (!vt_is_object(f->dcas[i]) || !vt_torch_is_readable(f, f->dcas[i]))
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

/*
 * All devices of f->dcas have the same layout; otherwise why not. *near: they do look like device
 * allocators.
 */
static const char *devices_layout(struct vt_torch_finder *f, bool *near)
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

bool vt_torch_find_devices(struct vt_torch_finder *f, const char **why)
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
			for (enum vt_torch_field field = VT_TORCH_DEVICE_VECTOR;
			     field <= VT_TORCH_POOL_SIZE_OF; field++)
				f->how[field] = VT_TORCH_HOW_SIGNATURE;
			return true;
		}
		if (near && !*why)
			*why = bad;
	}
	return false;
}

bool vt_torch_object_has_elements(const struct vt_torch_finder *f)
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

static void find_tables(struct vt_torch_finder *f)
{
	uint8_t bytes[DCA_MAX];
	size_t n = vt_torch_read_some(f->src, f->dcas[0], bytes, dca_size(f, f->dcas[0]));
	size_t offset = f->layout.active_blocks + sizeof(struct vt_ska);

	f->n_tables = 0;
	while (offset < n && f->n_tables < VT_TORCH_TABLES_MAX) {
		if (is_table(bytes, n, offset)) {
			f->tables[f->n_tables++] = (uint16_t)offset;
			offset += sizeof(struct vt_ska);
		} else {
			offset += 8;
		}
	}
}

static void remember_pool(struct vt_torch_finder *f, uint64_t addr, int device)
{
	if (f->n_private_pools == VT_TORCH_PRIVATE_MAX)
		return;
	f->private_pools[f->n_private_pools].addr = addr;
	f->private_pools[f->n_private_pools++].device = device;
}

/* 1: a table of private pools; 0: empty; -1: of something else. */
static int holds_private_pools(struct vt_torch_finder *f, int device, uint16_t offset)
{
	uint64_t dca = f->dcas[device];
	struct vt_torch_pool large, small;
	uint8_t slots[64 * VT_SKA_POOL_SLOT];
	struct vt_ska table;
	uint64_t n, seen = 0;
	uint16_t at = NONE;
	int good = -1;

	if (vt_mem_read(f->src, dca + offset, &table, sizeof(table)) || !vt_ska_plausible(&table))
		return -1;
	if (!table.n)
		return 0;
	n = vt_ska_slots(&table);
	while (seen < n && seen < 4096) {
		uint64_t some = n - seen < 64 ? n - seen : 64;

		if (vt_mem_read(f->src, table.entries + seen * VT_SKA_POOL_SLOT, slots,
				some * VT_SKA_POOL_SLOT))
			return -1;
		for (uint64_t i = 0; i < some; i++) {
			const uint8_t *slot = slots + i * VT_SKA_POOL_SLOT;

			if ((int8_t)*slot < 0)
				continue;
			if (vt_torch_read_private(f->src, &f->layout, vt_load64(slot + 24), &large,
						  &small, &at))
				return -1;
			f->layout.private_large = at;
			good = 1;
			remember_pool(f, large.addr, device);
			remember_pool(f, small.addr, device);
			if (f->n_private_pools == VT_TORCH_PRIVATE_MAX)
				return 1;
		}
		seen += some;
	}
	return good;
}

/*
 * graph_pools is the first table whose values are private pools (graph_pools_freeable, next to it,
 * has some of the same). While there are none, its place identifies it: it and graph_pools_freeable
 * are the last two hash tables of the object, and one more follows (capture_to_pool_map) in
 * releases whose BlockPool has no get_free_blocks_call_count, that is before 2.3.
 */
void vt_torch_find_graph_pools(struct vt_torch_finder *f)
{
	size_t behind = f->layout.pool_size_of < f->layout.pool_owner + 16 ? 3 : 2;

	f->layout.graph_pools = NONE;
	f->layout.private_large = NONE;
	f->how[VT_TORCH_GRAPH_POOLS] = f->how[VT_TORCH_PRIVATE_LARGE] = VT_TORCH_HOW_NOT;
	f->n_private_pools = 0;
	find_tables(f);
	for (size_t t = 0; t < f->n_tables; t++) {
		bool found = false;

		for (size_t i = 0; i < f->n_dcas; i++)
			found |= holds_private_pools(f, (int)i, f->tables[t]) == 1;
		if (found) {
			f->layout.graph_pools = f->tables[t];
			f->how[VT_TORCH_GRAPH_POOLS] = f->how[VT_TORCH_PRIVATE_LARGE] =
				VT_TORCH_HOW_SIGNATURE;
			return;
		}
	}
	if (f->n_tables < behind)
		return;
	for (size_t t = f->n_tables - behind; t + 1 < f->n_tables; t++) {
		if (f->tables[t + 1] != f->tables[t] + sizeof(struct vt_ska))
			return;
	}
	for (size_t i = 0; i < f->n_dcas; i++) {
		if (holds_private_pools(f, (int)i, f->tables[f->n_tables - behind]))
			return;
	}
	f->layout.graph_pools = f->tables[f->n_tables - behind];
	f->how[VT_TORCH_GRAPH_POOLS] = VT_TORCH_HOW_POSITION;
}

/*
 * In all releases from 2.0 to 2.15 the hash tables of DeviceCachingAllocator that follow
 * active_blocks are those for captures (since 2.10), cuda_events, graph_pools, and what is about
 * pools. Should a release put another one in between, the walk sees that its elements are no
 * events of the blocks, and says that it does not know.
 */
void vt_torch_place_events(struct vt_torch_finder *f)
{
	f->layout.cuda_events = 0;
	if (f->layout.graph_pools == NONE)
		return;
	for (size_t t = 0; t < f->n_tables && f->tables[t] < f->layout.graph_pools; t++)
		f->layout.cuda_events = f->tables[t];
}
