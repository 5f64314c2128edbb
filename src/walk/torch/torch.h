/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PyTorch's native CUDA caching allocator, found and walked. Two parts with different callers:
 * - discovery (tool only): finds the exported allocator object, and every field offset by signature, in the target itself;
 * - the walk (tool and helper): reads segments and blocks with a given layout, checks the invariants, emits records.
 * Plain structs of both are in vramtap/torch.h.
 */
#ifndef VT_WALK_TORCH_TORCH_H
#define VT_WALK_TORCH_TORCH_H

#include "vramtap/mem.h"
#include "vramtap/torch.h"

/* ---- the walk: no libc beyond mem*(), no allocation except from the scratch it is given ---- */

struct vt_torch_sink {
	/*
	 * Room for n more records, or NULL when there is none (the walk then ends as truncated, or asks for room). The walk fills
	 * result->blocks of them (fewer than it asked for, when it dropped some) and keeps the pointer only until the next call.
	 */
	struct vt_block_rec *(*reserve)(struct vt_torch_sink *sink, uint64_t n);
};

struct vt_torch_scratch {
	void *base; /* zeroed or not; 16-byte aligned */
	uint64_t size;
	void *chunk; /* NULL, or where to read to, if that is more than the walk has for it in base */
	uint64_t chunk_size;
};

struct vt_torch_walk_limits {
	uint64_t max_blocks;
	uint64_t deadline_ns; /* CLOCK_MONOTONIC; checked every few thousand blocks */
	uint64_t (*now_ns)(void);
};

/* Bytes of scratch that a walk of n blocks needs at the most. */
uint64_t vt_torch_scratch_size(uint64_t n_blocks);

/* The DeviceCachingAllocators of the native allocator: fills dcas (in device order), returns how many, or -1. */
int vt_torch_devices(struct vt_memsrc *src, const struct vt_torch_layout *layout, uint64_t allocator,
		     uint64_t dcas[VT_TORCH_MAX_DEVICES]);

/* How many blocks the device has in its tables (a bound for room and scratch), or -1 when it cannot be read. */
int64_t vt_torch_count_blocks(struct vt_memsrc *src, const struct vt_torch_layout *layout, uint64_t dca);

/*
 * Walks one device, in two halves. Fills *result always. Its lock and owner_tid fields are the caller's, but a walk that finds
 * the mutex held all the while sets them. When src is not coherent, blocks that fail validation are dropped and counted, and the
 * result is UNSTABLE, never silently wrong; when it is coherent, or turns out to have been, one failed invariant makes the result
 * REFUSED.
 *
 * vt_torch_walk_read() is the half that needs the allocator to stand still. It returns what vt_torch_walk_finish() goes on
 * with, or NULL when *result is final already. The walk lives in the scratch; it keeps layout and result, and no pointer into
 * the target: src may change or be gone by then.
 */
struct vt_torch_walk;

struct vt_torch_walk *vt_torch_walk_read(struct vt_memsrc *src, const struct vt_torch_layout *layout, uint64_t dca, int device,
					 const struct vt_torch_walk_limits *limits, struct vt_torch_scratch *scratch,
					 struct vt_torch_device_result *result);
void vt_torch_walk_finish(struct vt_torch_walk *walk, struct vt_torch_sink *sink);

/*
 * Between the halves: whether what was read, from whatever source, is what src has now, so that it need not be read again. True
 * only when that is certain; a few small reads.
 */
bool vt_torch_walk_holds(struct vt_torch_walk *walk, struct vt_memsrc *src);

/* Both at once. */
void vt_torch_walk_device(struct vt_memsrc *src, const struct vt_torch_layout *layout, uint64_t dca, int device,
			  const struct vt_torch_walk_limits *limits, struct vt_torch_scratch *scratch,
			  struct vt_torch_sink *sink, struct vt_torch_device_result *result);

/* The owner tid of the device's mutex, 0 when free, -1 when unreadable. */
int32_t vt_torch_mutex_owner(struct vt_memsrc *src, const struct vt_torch_layout *layout, uint64_t dca);

#ifndef VT_HELPER_BUILD
/* ---- discovery: tool only ---- */

#include "base/error.h"
#include "target/elfsym.h"
#include "target/maps.h"

enum vt_torch_backend {
	VT_TORCH_ABSENT,    /* no libc10_cuda.so in the target */
	VT_TORCH_UNUSED,    /* loaded, but the allocator was not initialised: no block can exist */
	VT_TORCH_NATIVE,    /* layout found */
	VT_TORCH_ASYNC,     /* the cudaMallocAsync backend is active */
	VT_TORCH_PLUGGABLE, /* a CUDAPluggableAllocator is active */
	VT_TORCH_UNKNOWN,   /* no layout passed the invariants: refused */
};

/* How the place of a field is known. */
enum vt_torch_how {
	VT_TORCH_HOW_NOT,       /* it is VT_TORCH_NO_FIELD: there is none, or this target shows nothing that would tell it */
	VT_TORCH_HOW_SIGNATURE, /* by what is in it in this target */
	VT_TORCH_HOW_PLACE,     /* by its neighbours: whatever else it might be has the same value everywhere now */
	VT_TORCH_HOW_TABLE,     /* from the row of a known release; nothing in this target tells it */
};

/* The fields of a layout: identifier, PyTorch's class, what PyTorch calls it, member of struct vt_torch_layout. */
#define VT_TORCH_FIELDS(F)                                                                    \
	F(DEVICE_VECTOR, "NativeCachingAllocator", "device_allocator", device_vector)         \
	F(MUTEX, "DeviceCachingAllocator", "mutex", mutex)                                    \
	F(STATS, "DeviceCachingAllocator", "stats", stats)                                    \
	F(LARGE_BLOCKS, "DeviceCachingAllocator", "large_blocks", large_blocks)               \
	F(SMALL_BLOCKS, "DeviceCachingAllocator", "small_blocks", small_blocks)               \
	F(ACTIVE_BLOCKS, "DeviceCachingAllocator", "active_blocks", active_blocks)            \
	F(GRAPH_POOLS, "DeviceCachingAllocator", "graph_pools", graph_pools)                  \
	F(STATS_EXTRA, "DeviceStats", "bytes behind reserved_bytes", stats_extra)             \
	F(SETS_PER_POOL, "BlockPool", "number of sets", sets_per_pool)                        \
	F(POOL_IS_SMALL, "BlockPool", "is_small", pool_is_small)                              \
	F(POOL_OWNER, "BlockPool", "owner_PrivatePool", pool_owner)                           \
	F(POOL_SIZE_OF, "BlockPool", "sizeof", pool_size_of)                                  \
	F(PRIVATE_LARGE, "PrivatePool", "large_blocks", private_large)                        \
	F(BLOCK_DEVICE, "Block", "device", block.device)                                      \
	F(BLOCK_STREAM, "Block", "stream", block.stream)                                      \
	F(BLOCK_STREAM_USES, "Block", "stream_uses", block.stream_uses)                       \
	F(BLOCK_SIZE, "Block", "size", block.size)                                            \
	F(BLOCK_REQUESTED_SIZE, "Block", "requested_size", block.requested_size)              \
	F(BLOCK_POOL, "Block", "pool", block.pool)                                            \
	F(BLOCK_PTR, "Block", "ptr", block.ptr)                                               \
	F(BLOCK_ALLOCATED, "Block", "allocated", block.allocated)                             \
	F(BLOCK_MAPPED, "Block", "mapped", block.mapped)                                      \
	F(BLOCK_PREV, "Block", "prev", block.prev)                                            \
	F(BLOCK_NEXT, "Block", "next", block.next)                                            \
	F(BLOCK_EVENT_COUNT, "Block", "event_count", block.event_count)                       \
	F(BLOCK_CONTEXT, "Block", "context_when_allocated", block.context)                    \
	F(BLOCK_EXPANDABLE, "Block", "expandable_segment_", block.expandable_segment)         \
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
	struct vt_torch_layout layout; /* valid for NATIVE */
	uint8_t how[VT_TORCH_N_FIELDS]; /* enum vt_torch_how, for NATIVE */
	const struct vt_torch_row *row; /* of the table, whose layout this is; NULL: of no known release (walk/torch/table.h) */
	char differs[160];  /* what the table says otherwise of the release that this is by its version, "" nothing */
	char version[64];   /* PyTorch's version as its version.py says, "" unknown; hostile bytes */
	char why[160];      /* for UNKNOWN: what was looked for and not found, or which invariant failed */
};

/*
 * Finds the allocator of the target by signature. Fails only when the target is gone or unreadable. While the target runs,
 * src must not be cached (vt_live_source()): what was read in the middle of a change is read again. It is fast without too.
 */
struct vt_error *vt_torch_find(struct vt_modules *modules, const struct vt_maps *maps, struct vt_memsrc *src,
			       struct vt_torch_found *found);
#endif

#endif
