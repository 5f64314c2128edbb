/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory layout of the containers in PyTorch's allocator, on x86-64. Discovery and walk share
 * it.
 */
#ifndef VT_WALK_TORCH_ABI_H
#define VT_WALK_TORCH_ABI_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "vramtap/mem.h"
#include "vramtap/torch.h"

/*
 * ska::flat_hash_set/_map (c10/util/flat_hash_map.h, sherwood_v3_table). Unchanged from PyTorch
 * 1.13 to 2.15.
 */
struct vt_ska {
	uint64_t entries; /* a static array of 4 until the first insertion */
	uint64_t mask;    /* number of home slots - 1 */
	int8_t shift;     /* of the Fibonacci hash: 64 - log2(mask + 1); 63 while mask is 0 */
	int8_t max_lookups;
	uint16_t pad;
	uint32_t max_load_bits; /* float, 0.5 by default; PyTorch does not change it */
	uint64_t n;
};
_Static_assert(sizeof(struct vt_ska) == 32, "as compiled by g++");

/*
 * A slot begins with the distance of its element from home, -1 when empty. The element follows at
 * +8. Elements are in slots [0, mask + max_lookups). The slot after these is the end mark (distance
 * 0, no element).
 */
#define VT_SKA_VALUE 8
#define VT_SKA_SET_SLOT 16 /* of flat_hash_set<Block*> */
/* of flat_hash_map<MempoolId_t, PrivatePool*>: first +8, second +16, pointer +24 */
#define VT_SKA_POOL_SLOT 32
/* 2 GiB of slots: far more blocks than fit on a device */
#define VT_SKA_MAX_MASK ((UINT64_C(1) << 27) - 1)
#define VT_SKA_HALF 0x3f000000u /* 0.5f */

/* std::set<Block*, Comparison> of libstdc++ (either string ABI). */
struct vt_rbset {
	/* a function pointer up to 2.14; padding behind an empty class, so anything, in 2.15 */
	uint64_t compare;
	uint64_t header_colour; /* int, padded; the header node's address is that of this member */
	uint64_t root;
	uint64_t leftmost;
	uint64_t rightmost;
	uint64_t n;
};
_Static_assert(sizeof(struct vt_rbset) == 48, "as compiled by g++");
#define VT_RBSET_HEADER 8

struct vt_rbnode {
	uint64_t colour;
	uint64_t parent;
	uint64_t left;
	uint64_t right;
	uint64_t value;
};
_Static_assert(sizeof(struct vt_rbnode) == 40, "as compiled by g++");

/* pthread_mutex_t of glibc: owner tid +8, kind +16 (1 is PTHREAD_MUTEX_RECURSIVE_NP), 40 bytes. */
#define VT_MUTEX_OWNER 8
#define VT_MUTEX_KIND 16
#define VT_MUTEX_RECURSIVE 1
#define VT_MUTEX_SIZE 40

/*
 * c10::CachingDeviceAllocator::DeviceStats: arrays of three Stat (all, small pool, large pool),
 * each four int64.
 */
#define VT_STATS_ARRAY 96
/* allocation segment active inactive_split allocated_bytes reserved_bytes */
#define VT_STATS_BEFORE_EXTRA 576
/* active_bytes inactive_split_bytes requested_bytes, num_alloc_retries, num_ooms */
#define VT_STATS_AFTER_EXTRA 304

/*
 * Built-ins by name: the helper is compiled with -fno-builtin, and a call for each load would cost
 * more than the walk.
 */
static inline uint64_t vt_load64(const uint8_t *p)
{
	uint64_t value;

	__builtin_memcpy(&value, p, sizeof(value));
	return value;
}

static inline uint32_t vt_load32(const uint8_t *p)
{
	uint32_t value;

	__builtin_memcpy(&value, p, sizeof(value));
	return value;
}

/*
 * An address that an object of the target can have: not NULL, aligned for pointers, in user space
 * (also with LA57).
 */
static inline bool vt_is_object(uint64_t addr)
{
	return addr >= 4096 && !(addr & 7) && addr < (UINT64_C(1) << 56);
}

static inline bool vt_ska_plausible(const struct vt_ska *table)
{
	uint64_t slots = table->mask + 1;

	if (table->max_load_bits != VT_SKA_HALF || table->mask > VT_SKA_MAX_MASK ||
	    (slots & table->mask))
		return false;
	if (table->max_lookups < 3 || table->n > slots || !vt_is_object(table->entries))
		return false;
	if (!table->mask)
		return !table->n;
	return table->shift == 64 - __builtin_ctzll(slots);
}

/* How many slots may hold an element. */
static inline uint64_t vt_ska_slots(const struct vt_ska *table)
{
	return table->n ? table->mask + (uint64_t)table->max_lookups : 0;
}

/*
 * Checks a set without reading a node. Needs the set's address, because an empty set points to
 * itself.
 */
static inline bool vt_rbset_plausible(const struct vt_rbset *set, uint64_t addr)
{
	if ((uint32_t)set->header_colour) /* the header is red */
		return false;
	if (!set->n)
		return !set->root && set->leftmost == addr + VT_RBSET_HEADER &&
		       set->rightmost == addr + VT_RBSET_HEADER;
	return set->n < (UINT64_C(1) << 32) && vt_is_object(set->root) &&
	       vt_is_object(set->leftmost) && vt_is_object(set->rightmost);
}

/*
 * DeviceCachingAllocator::captures_underway, which follows active_blocks: an int in 2.0, from 2.1
 * on a vector of pairs of a MempoolId_t and a std::function. It is not empty while a CUDA graph is
 * captured through PyTorch (before the driver knows of it, and until after), while allocations go
 * to a pool of the program's own, and for ever once a capture has failed.
 */
#define VT_CAPTURES_BYTES 24
#define VT_CAPTURE_SIZE 48

/* 0 none, 1 underway, -1: this is not such a field. */
static inline int vt_torch_captures_of(const uint64_t words[3], bool counted)
{
	if (counted)
		return (uint32_t)words[0] > 4096 ? -1 : (uint32_t)words[0] != 0;
	if (!words[0])
		return words[1] || words[2] ? -1 : 0;
	if (!vt_is_object(words[0]) || words[1] < words[0] || words[2] < words[1] ||
	    (words[1] - words[0]) % VT_CAPTURE_SIZE || (words[2] - words[0]) % VT_CAPTURE_SIZE)
		return -1;
	return words[1] != words[0];
}

/* One BlockPool, read and checked. */
struct vt_torch_pool {
	uint64_t addr;
	uint64_t owner; /* PrivatePool, 0 for the default pools */
	bool small;
	struct vt_rbset blocks;
	struct vt_rbset unmapped; /* all zero where the release has none */
};

/*
 * Reads the BlockPool at addr. Returns 0, a negative errno of the source, or -EINVAL when it is not
 * a BlockPool.
 */
int vt_torch_read_pool(struct vt_memsrc *src, const struct vt_torch_layout *layout, uint64_t addr,
		       struct vt_torch_pool *pool);

/*
 * Reads the two BlockPools of the PrivatePool at addr. Returns 0, a negative errno, or -EINVAL when
 * it is not a PrivatePool. layout->private_large may be VT_TORCH_NO_FIELD. *large_offset is the
 * offset of the large pool.
 */
int vt_torch_read_private(struct vt_memsrc *src, const struct vt_torch_layout *layout,
			  uint64_t addr, struct vt_torch_pool *large, struct vt_torch_pool *small,
			  uint16_t *large_offset);

#endif
