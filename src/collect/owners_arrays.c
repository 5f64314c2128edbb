/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of CuPy's arrays as blocks that owners can be found for: chunks in use of its pools,
 * and what arrays have for themselves, beside all pools that are known as a whole.
 */
#include <stdlib.h>

#include "collect/owners.h"
#include "walk/libpools/libpools.h"

bool vt_collect_has_arrays(struct vt_collect *c)
{
	const struct vt_libpools_target target = { .modules = &c->target.modules };

	return vt_libpools_has(&target, VT_LIBPOOL_CUPY);
}

void vt_collect_no_owner(struct vt_model_owner *owner, uint32_t block, enum vt_category category)
{
	*owner = (struct vt_model_owner){
		.block = block,
		.category = (uint8_t)category,
		.name = "",
		.variable = "",
		.module = "",
		.type = "",
		.dtype = "",
		.shape = "",
		.has_grad_fn = -1,
		.requires_grad = -1,
	};
}

struct adding {
	struct vt_collect *c;
	struct vt_owners_blocks *blocks;
	VT_VEC(struct vt_owners_memory) memories; /* that chunks do not explain */
};

static bool add_array(struct adding *a, const struct vt_model_array *array, bool is_chunk)
{
	struct vt_model_owners *owners = &a->c->model->owners;
	struct vt_model_array *added = vt_vec_append(&owners->arrays);
	struct vt_owners_block *block = vt_vec_append(&a->blocks->list);

	if (!added || !block)
		return false;
	*added = *array;
	vt_collect_no_owner(&added->owner, (uint32_t)owners->arrays.n - 1, VT_CATEGORY_UNKNOWN);
	*block = (struct vt_owners_block){
		.addr = array->addr,
		.size = array->bytes,
		.index = (uint32_t)owners->arrays.n - 1,
		.is_foreign = true,
		.is_chunk = is_chunk,
	};
	return true;
}

/* Whether a block begins in [addr, addr + size), or has addr in it. The list is sorted. */
static bool overlaps(const struct vt_owners_blocks *blocks, uint64_t addr, uint64_t size)
{
	size_t low = 0, high = blocks->list.n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (blocks->list.data[middle].addr < addr + size)
			low = middle + 1;
		else
			high = middle;
	}
	return low && addr < blocks->list.data[low - 1].addr + blocks->list.data[low - 1].size;
}

static bool is_pool_of_arrays(const struct vt_model_libpool *pool)
{
	return pool->rec.kind == VT_LIBPOOL_CUPY && pool->rec.state == VT_LIBPOOL_EXACT &&
	       !pool->rec.is_host;
}

/* What another pool of CuPy's got from this one: that pool's chunks tell it. */
static bool is_lent(const struct vt_model_libpools *all, uint32_t index,
		    const struct vt_libpool_chunk *chunk)
{
	for (uint32_t i = 0; i < all->pools.n; i++) {
		const struct vt_model_libpool *other = &all->pools.data[i];
		const struct vt_libpool_region *r =
			i != index && is_pool_of_arrays(other) ?
				vt_model_region_at(other->regions, other->n_regions, chunk->start) :
				NULL;

		if (r && r->start == chunk->start &&
		    (r->size < chunk->size || (r->size == chunk->size && i > index)))
			return true;
	}
	return false;
}

/* A pool can have its memory from PyTorch's allocator: such chunks are PyTorch's blocks. */
static bool add_chunks(struct adding *a, uint32_t index, const struct vt_owners_blocks *torch)
{
	const struct vt_model_libpool *pool = &a->c->model->libpools.pools.data[index];

	for (size_t i = 0; is_pool_of_arrays(pool) && i < pool->n_chunks; i++) {
		const struct vt_libpool_chunk *chunk = &pool->chunks[i];
		const struct vt_model_array array = {
			.addr = chunk->start,
			.bytes = chunk->size,
			.device = pool->rec.device,
			.pool = index,
			.chunk = (uint32_t)i,
			.library = VT_LIBPOOL_CUPY,
		};

		if (chunk->in_use && chunk->size && !overlaps(torch, chunk->start, chunk->size) &&
		    !is_lent(&a->c->model->libpools, index, chunk) && !add_array(a, &array, true))
			return false;
	}
	return true;
}

/* In a pool that was read as a whole, what is no chunk in use was freed meanwhile. */
static bool is_in_pool(const struct vt_model_libpools *libpools, uint64_t addr)
{
	for (size_t i = 0; i < libpools->pools.n; i++) {
		const struct vt_model_libpool *pool = &libpools->pools.data[i];

		if (pool->rec.kind == VT_LIBPOOL_CUPY &&
		    (pool->rec.is_host || is_pool_of_arrays(pool)) &&
		    vt_model_region_at(pool->regions, pool->n_regions, addr))
			return true;
	}
	return false;
}

static bool take_memory(void *arg, const struct vt_owners_memory *memory)
{
	struct adding *a = arg;
	struct vt_owners_memory *added;

	if (overlaps(a->blocks, memory->addr, memory->size) ||
	    is_in_pool(&a->c->model->libpools, memory->addr))
		return true;
	added = vt_vec_append(&a->memories);
	if (added)
		*added = *memory;
	return added;
}

static int by_address(const void *pa, const void *pb)
{
	const struct vt_owners_memory *a = pa, *b = pb;

	if (a->addr != b->addr)
		return a->addr < b->addr ? -1 : 1;
	return (a->size < b->size) - (a->size > b->size);
}

static bool add_memories(struct adding *a)
{
	uint64_t end = 0;

	if (a->memories.n)
		qsort(a->memories.data, a->memories.n, sizeof(*a->memories.data), by_address);
	for (size_t i = 0; i < a->memories.n; i++) {
		const struct vt_owners_memory *memory = &a->memories.data[i];
		const struct vt_model_array array = {
			.addr = memory->addr,
			.bytes = memory->size,
			.device = memory->device,
			.pool = VT_NO_POOL,
			.chunk = (uint32_t)i,
			.library = VT_LIBPOOL_CUPY,
		};

		if (memory->addr < end)
			continue; /* two objects for one memory: the larger one counts */
		end = memory->addr + memory->size;
		/* A pool that was not read: memory of its own must not count beside its chunk. */
		if (!add_array(a, &array, memory->pooled))
			return false;
	}
	return true;
}

bool vt_collect_owners_arrays(struct vt_collect *c, struct vt_owners_blocks *blocks,
			      struct vt_owners *owners, const struct vt_owners_input *input)
{
	struct vt_owners_blocks torch = { 0 };
	struct adding a = { .c = c, .blocks = blocks };
	bool ok = vt_owners_blocks_list(&torch, c->model);

	for (uint32_t i = 0; ok && i < c->model->libpools.pools.n; i++)
		ok = add_chunks(&a, i, &torch);
	vt_owners_blocks_sort(blocks);
	ok = ok && vt_owners_memories(owners, input, take_memory, &a) && add_memories(&a);
	vt_owners_blocks_sort(blocks);
	vt_vec_deinit(&a.memories);
	vt_vec_deinit(&torch.list);
	return ok;
}
