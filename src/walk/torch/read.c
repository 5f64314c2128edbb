/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small reads: pools, private pools, the mutex, the list of devices. Compiled into the tool and
 * into the helper, as walk.c is.
 */
#include <errno.h>

#include "walk/torch/walk_state.h"

static int read_set(const uint8_t *from, uint64_t addr, struct vt_rbset *set)
{
	__builtin_memcpy(set, from, sizeof(*set));
	return vt_rbset_plausible(set, addr) ? 0 : -EINVAL;
}

int vt_torch_read_pool(struct vt_memsrc *src, const struct vt_torch_layout *layout, uint64_t addr,
		       struct vt_torch_pool *pool)
{
	uint8_t bytes[POOL_MAX];
	uint64_t last = (uint64_t)(layout->sets_per_pool - 1) * sizeof(struct vt_rbset);
	int ret;

	if (!vt_is_object(addr))
		return -EINVAL;
	ret = vt_mem_read(src, addr, bytes, layout->pool_owner + 8u);
	if (ret)
		return ret;
	memset(pool, 0, sizeof(*pool));
	pool->addr = addr;
	pool->owner = vt_load64(bytes + layout->pool_owner);
	pool->small = bytes[layout->pool_is_small] == 1;
	if (bytes[layout->pool_is_small] > 1 || (pool->owner && !vt_is_object(pool->owner)))
		return -EINVAL;
	ret = read_set(bytes, addr, &pool->blocks);
	if (!ret && last)
		ret = read_set(bytes + last, addr + last, &pool->unmapped);
	return ret;
}

static int read_pair(struct vt_memsrc *src, const struct vt_torch_layout *layout, uint64_t addr,
		     uint64_t offset, struct vt_torch_pool *large, struct vt_torch_pool *small)
{
	int ret = vt_torch_read_pool(src, layout, addr + offset, large);

	if (!ret)
		ret = vt_torch_read_pool(src, layout, addr + offset + layout->pool_size_of, small);
	if (!ret && (large->small || !small->small || large->owner != addr || small->owner != addr))
		ret = -EINVAL;
	return ret;
}

int vt_torch_read_private(struct vt_memsrc *src, const struct vt_torch_layout *layout,
			  uint64_t addr, struct vt_torch_pool *large, struct vt_torch_pool *small,
			  uint16_t *large_offset)
{
	int ret = -EINVAL;

	if (!vt_is_object(addr))
		return -EINVAL;
	if (layout->private_large != NONE) {
		*large_offset = layout->private_large;
		return read_pair(src, layout, addr, layout->private_large, large, small);
	}
	/*
	 * 8 in PyTorch 2.0 to 2.6, 32 in 2.9, 40 since about 2.12: behind the id, two counts and
	 * the pool's own allocator
	 */
	for (uint16_t offset = 8; ret && offset <= 96; offset += 8) {
		ret = read_pair(src, layout, addr, offset, large, small);
		if (!ret)
			*large_offset = offset;
	}
	return ret;
}

int32_t vt_torch_mutex_owner(struct vt_memsrc *src, const struct vt_torch_layout *layout,
			     uint64_t dca)
{
	uint32_t owner;

	if (vt_mem_read_u32(src, dca + layout->mutex + VT_MUTEX_OWNER, &owner) || owner > INT32_MAX)
		return -1;
	return (int32_t)owner;
}

int vt_torch_devices(struct vt_memsrc *src, const struct vt_torch_layout *layout,
		     uint64_t allocator, uint64_t dcas[VT_TORCH_MAX_DEVICES])
{
	uint64_t vector[3]; /* begin, end, end of storage */
	uint64_t n;

	if (vt_mem_read(src, allocator + layout->device_vector, vector, sizeof(vector)))
		return -1;
	if (vector[0] == vector[1])
		return 0;
	if (!vt_is_object(vector[0]) || vector[1] < vector[0] || vector[2] < vector[1] ||
	    (vector[1] - vector[0]) % 8)
		return -1;
	n = (vector[1] - vector[0]) / 8;
	if (n > VT_TORCH_MAX_DEVICES || vt_mem_read(src, vector[0], dcas, n * 8))
		return -1;
	for (uint64_t i = 0; i < n; i++) {
		if (!vt_is_object(dcas[i]))
			return -1; /* init() of another thread is filling the vector */
	}
	return (int)n;
}

/*
 * Calls fn for each private pool that graph_pools has; fn returns 0 to go on. Returns its or an own
 * negative errno.
 */
int vt_torch_each_private(struct vt_memsrc *src, const struct vt_torch_layout *layout, uint64_t dca,
			  int (*fn)(void *arg, const uint8_t *slot), void *arg)
{
	struct vt_ska table;
	uint8_t slots[64 * VT_SKA_POOL_SLOT];
	uint64_t n, at = 0, found = 0;
	int ret;

	if (layout->graph_pools == NONE)
		return 0;
	ret = vt_mem_read(src, dca + layout->graph_pools, &table, sizeof(table));
	if (ret)
		return ret;
	if (!vt_ska_plausible(&table))
		return -EINVAL;
	n = vt_ska_slots(&table);
	if (n > POOL_SLOTS * 4) /* beyond POOLS_MAX at the load factor */
		return -E2BIG;
	while (at < n) {
		uint64_t some = n - at < 64 ? n - at : 64;

		ret = vt_mem_read(src, table.entries + at * VT_SKA_POOL_SLOT, slots,
				  some * VT_SKA_POOL_SLOT);
		if (ret)
			return ret;
		for (uint64_t i = 0; i < some; i++) {
			if ((int8_t)slots[i * VT_SKA_POOL_SLOT] < 0)
				continue;
			found++;
			ret = fn(arg, slots + i * VT_SKA_POOL_SLOT);
			if (ret)
				return ret;
		}
		at += some;
	}
	return found == table.n ? 0 : -EINVAL;
}
