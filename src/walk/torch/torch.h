/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds and walks PyTorch's native CUDA caching allocator. Two parts with different callers:
 * - discovery (tool only): finds the exported allocator object, and every field offset by
 *   signature, in the target itself;
 * - the walk (tool and helper): reads segments and blocks with a given layout, checks the
 *   invariants, emits records.
 * The plain structs of both are in vramtap/torch.h.
 */
#ifndef VT_WALK_TORCH_TORCH_H
#define VT_WALK_TORCH_TORCH_H

#include "vramtap/mem.h"
#include "vramtap/torch.h"

/* ---- the walk: uses no libc beyond mem*(), and allocates only from the scratch it gets ---- */

struct vt_torch_sink {
	/*
	 * Returns room for n more records, or NULL when there is none (the walk then ends as
	 * truncated, or asks for room). The walk fills result->blocks of them: fewer than it asked
	 * for when it dropped some. It keeps the pointer only until the next call.
	 */
	struct vt_block_rec *(*reserve)(struct vt_torch_sink *sink, uint64_t n);
};

struct vt_torch_scratch {
	void *base; /* zeroed or not; 16-byte aligned */
	uint64_t size;
	void *chunk; /* a read buffer, if larger than the one that the walk has in base; or NULL */
	uint64_t chunk_size;
};

struct vt_torch_walk_limits {
	uint64_t max_blocks;
	uint64_t deadline_ns; /* CLOCK_MONOTONIC; checked every few thousand blocks */
	uint64_t (*now_ns)(void);
};

/* The most bytes of scratch that a walk of n blocks needs. */
uint64_t vt_torch_scratch_size(uint64_t n_blocks);

/*
 * Fills dcas with the native allocator's DeviceCachingAllocators, in device order. Returns their
 * number, or -1.
 */
int vt_torch_devices(struct vt_memsrc *src, const struct vt_torch_layout *layout,
		     uint64_t allocator, uint64_t dcas[VT_TORCH_MAX_DEVICES]);

/*
 * The number of blocks in the device's tables (a bound for room and scratch), or -1 when
 * unreadable.
 */
int64_t vt_torch_count_blocks(struct vt_memsrc *src, const struct vt_torch_layout *layout,
			      uint64_t dca);

/*
 * Walks one device, in two halves. Always fills *result. The caller sets its fields lock and
 * owner_tid, but a walk that finds the mutex held throughout sets them too. When src is not
 * coherent, the walk drops and counts blocks that fail validation, and the result is UNSTABLE,
 * never silently wrong. When src is coherent, or turns out to have been, one failed invariant makes
 * the result REFUSED.
 *
 * vt_torch_walk_read() is the half that needs the allocator to stand still. It returns the walk for
 * vt_torch_walk_finish(), or NULL when *result is already final. The walk lives in the scratch. It
 * keeps layout and result, but no pointer into the target: src may change or disappear before
 * vt_torch_walk_finish().
 */
struct vt_torch_walk;

struct vt_torch_walk *vt_torch_walk_read(struct vt_memsrc *src,
					 const struct vt_torch_layout *layout, uint64_t dca,
					 int device, const struct vt_torch_walk_limits *limits,
					 struct vt_torch_scratch *scratch,
					 struct vt_torch_device_result *result);
void vt_torch_walk_finish(struct vt_torch_walk *walk, struct vt_torch_sink *sink);

/*
 * For use between the halves: whether what was read, from any source, equals what src has now, so
 * that a second read is unnecessary. True only when that is certain. Costs a few small reads.
 */
bool vt_torch_walk_holds(struct vt_torch_walk *walk, struct vt_memsrc *src);

/* Both halves at once. */
void vt_torch_walk_device(struct vt_memsrc *src, const struct vt_torch_layout *layout, uint64_t dca,
			  int device, const struct vt_torch_walk_limits *limits,
			  struct vt_torch_scratch *scratch, struct vt_torch_sink *sink,
			  struct vt_torch_device_result *result);

/* The owner tid of the device's mutex, 0 when free, -1 when unreadable. */
int32_t vt_torch_mutex_owner(struct vt_memsrc *src, const struct vt_torch_layout *layout,
			     uint64_t dca);

/*
 * The device's statistics alone: bytes in use and reserved, as PyTorch counts them. False:
 * unreadable, or they contradict each other, as they may in the middle of a change.
 */
bool vt_torch_totals(struct vt_memsrc *src, const struct vt_torch_layout *layout, uint64_t dca,
		     uint64_t *allocated, uint64_t *reserved);

#ifndef VT_HELPER_BUILD
/* ---- discovery: tool only ---- */

#include "base/error.h"
#include "target/elfsym.h"
#include "target/maps.h"

enum vt_torch_backend {
	VT_TORCH_ABSENT,    /* no libc10_cuda.so in the target */
	VT_TORCH_UNUSED,    /* loaded, but the allocator is not initialised: no block can exist */
	VT_TORCH_NATIVE,    /* layout found */
	VT_TORCH_ASYNC,     /* the cudaMallocAsync backend is active */
	VT_TORCH_PLUGGABLE, /* a CUDAPluggableAllocator is active */
	VT_TORCH_UNKNOWN,   /* no layout passed the invariants: refused */
};

/* How we know the offset of a field. */
enum vt_torch_how {
	VT_TORCH_HOW_NOT,       /* VT_TORCH_NO_FIELD: none, or the target does not reveal it */
	VT_TORCH_HOW_SIGNATURE, /* by its contents in this target */
	VT_TORCH_HOW_POSITION,  /* by its neighbours: all other candidates have equal values now */
	VT_TORCH_HOW_TABLE,     /* from the row of a known release; the target does not reveal it */
};

/*
 * The fields of a layout: identifier, PyTorch's class, PyTorch's name, member of struct
 * vt_torch_layout.
 */
#define VT_TORCH_FIELDS(F)                                                            \
	F(DEVICE_VECTOR, "NativeCachingAllocator", "device_allocator", device_vector) \
	F(MUTEX, "DeviceCachingAllocator", "mutex", mutex)                            \
	F(STATS, "DeviceCachingAllocator", "stats", stats)                            \
	F(LARGE_BLOCKS, "DeviceCachingAllocator", "large_blocks", large_blocks)       \
	F(SMALL_BLOCKS, "DeviceCachingAllocator", "small_blocks", small_blocks)       \
	F(ACTIVE_BLOCKS, "DeviceCachingAllocator", "active_blocks", active_blocks)    \
	F(GRAPH_POOLS, "DeviceCachingAllocator", "graph_pools", graph_pools)          \
	F(STATS_EXTRA, "DeviceStats", "bytes behind reserved_bytes", stats_extra)     \
	F(SETS_PER_POOL, "BlockPool", "number of sets", sets_per_pool)                \
	F(POOL_IS_SMALL, "BlockPool", "is_small", pool_is_small)                      \
	F(POOL_OWNER, "BlockPool", "owner_PrivatePool", pool_owner)                   \
	F(POOL_SIZE_OF, "BlockPool", "sizeof", pool_size_of)                          \
	F(PRIVATE_LARGE, "PrivatePool", "large_blocks", private_large)                \
	F(BLOCK_DEVICE, "Block", "device", block.device)                              \
	F(BLOCK_STREAM, "Block", "stream", block.stream)                              \
	F(BLOCK_STREAM_USES, "Block", "stream_uses", block.stream_uses)               \
	F(BLOCK_SIZE, "Block", "size", block.size)                                    \
	F(BLOCK_REQUESTED_SIZE, "Block", "requested_size", block.requested_size)      \
	F(BLOCK_POOL, "Block", "pool", block.pool)                                    \
	F(BLOCK_PTR, "Block", "ptr", block.ptr)                                       \
	F(BLOCK_ALLOCATED, "Block", "allocated", block.allocated)                     \
	F(BLOCK_MAPPED, "Block", "mapped", block.mapped)                              \
	F(BLOCK_PREV, "Block", "prev", block.prev)                                    \
	F(BLOCK_NEXT, "Block", "next", block.next)                                    \
	F(BLOCK_EVENT_COUNT, "Block", "event_count", block.event_count)               \
	F(BLOCK_CONTEXT, "Block", "context_when_allocated", block.context)            \
	F(BLOCK_EXPANDABLE, "Block", "expandable_segment_", block.expandable_segment) \
	F(BLOCK_SIZE_OF, "Block", "sizeof", block.size_of)

enum vt_torch_field {
#define VT_TORCH_FIELD_ID(id, class_, name_, member) VT_TORCH_##id,
	VT_TORCH_FIELDS(VT_TORCH_FIELD_ID)
#undef VT_TORCH_FIELD_ID
		VT_TORCH_N_FIELDS
};

struct vt_torch_found {
	enum vt_torch_backend backend;
	uint64_t allocator; /* the allocator object, 0 when none */
	const struct vt_module *c10_cuda;
	struct vt_torch_layout layout;  /* valid for NATIVE */
	uint8_t how[VT_TORCH_N_FIELDS]; /* enum vt_torch_how, for NATIVE */
	const struct vt_torch_row *row; /* the matching row (walk/torch/table.h); NULL: none */
	char differs[160];              /* differences from the row of this version, "" none */
	char version[64]; /* PyTorch's version from its version.py, "" unknown; hostile bytes */
	char why[160];    /* for UNKNOWN: what was not found, or which invariant failed */
};

/*
 * Finds the target's allocator by signature. Fails only when the target is gone or unreadable.
 * While the target runs, src must not be cached (vt_live_source()): what was read in the middle of
 * a change is read again. It is fast without a cache.
 */
struct vt_error *vt_torch_find(struct vt_modules *modules, const struct vt_maps *maps,
			       struct vt_memsrc *src, struct vt_torch_found *found);
#endif

#endif
