/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PyTorch's native CUDA caching allocator as plain data: where its fields are (the layout,
 * discovered in each target) and what a walk of it yields. The tool and the helper share it; both
 * walk with the same source (walk/torch/walk.c).
 *
 * Names follow c10/cuda/CUDACachingAllocator.cpp: NativeCachingAllocator has a vector of
 * DeviceCachingAllocator, each of which has block pools (large, small, and one pair for each
 * private pool, as of CUDA graphs), a hash set of active blocks, statistics and a recursive mutex.
 * A segment is what one cudaMalloc (or one run of mapped expandable memory) returned; it is tiled
 * by a list of blocks linked by prev and next.
 */
#ifndef VRAMTAP_TORCH_H
#define VRAMTAP_TORCH_H

#include <stdint.h>

#define VT_TORCH_MAX_DEVICES 64
#define VT_TORCH_NO_FIELD UINT16_MAX

/*
 * Offsets in bytes; VT_TORCH_NO_FIELD where this release has no such field, or where that could not
 * be determined.
 */
struct vt_torch_block_layout {
	uint16_t size_of; /* bytes of a Block that are needed; 0: unknown, so no Block may exist */
	uint16_t device;  /* one signed byte suffices: int8 since 2.3, little-endian int32 before */
	uint16_t stream;
	uint16_t stream_uses; /* ska::flat_hash_set */
	uint16_t size;
	uint16_t requested_size;
	uint16_t pool;
	uint16_t ptr;
	uint16_t allocated;
	uint16_t mapped;
	uint16_t prev;
	uint16_t next;
	uint16_t event_count;
	uint16_t context; /* shared_ptr context_when_allocated */
	uint16_t expandable_segment;
	uint16_t pad;
};

struct vt_torch_layout {
	/* NativeCachingAllocator: offset of std::vector<std::unique_ptr<DeviceCachingAllocator>> */
	uint32_t device_vector;
	/* DeviceCachingAllocator */
	uint16_t mutex; /* std::recursive_mutex: lock +0, owner tid +8, kind +16 */
	uint16_t stats;
	uint16_t large_blocks;
	uint16_t small_blocks;
	uint16_t active_blocks;
	/* flat_hash_map<MempoolId, unique_ptr<PrivatePool>>, or NO_FIELD when not found */
	uint16_t graph_pools;
	/* BlockPool */
	/* std::set 48 bytes apart: 1 blocks; 2 +unmapped; 3 +blocks_by_addr (2.13) */
	uint16_t sets_per_pool;
	uint16_t pool_is_small;
	uint16_t pool_owner;
	uint16_t pool_size_of;
	/* PrivatePool: offset of its large BlockPool; the small one follows it at once */
	/* NO_FIELD: none existed when the layout was found; the walk looks for it */
	uint16_t private_large;
	/*
	 * DeviceStats: bytes between reserved_bytes and active_bytes (32 since 2.13:
	 * reserved_bytes_by_private_pools)
	 */
	uint16_t stats_extra;
	/*
	 * flat_hash_map<CUDAStream, deque<pair<EventPool::Event, Block *>>>: the last hash table in
	 * front of graph_pools (2.0 to 2.15); 0: not found. No row has it, and none needs to: what
	 * is there is compared with each block's event_count.
	 */
	uint16_t cuda_events;
	uint16_t pad;
	struct vt_torch_block_layout block;
	char name[32]; /* which PyTorch releases have this layout, for people: "2.11 to 2.12" */
};

enum vt_block_state {
	VT_BLOCK_ALLOCATED = 0, /* handed out: PyTorch's "active_allocated" */
	/* freed by its owner, an event of another stream is pending: "active_pending_free" */
	VT_BLOCK_AWAITING_FREE = 1,
	VT_BLOCK_CACHED = 2, /* free inside the cache: "inactive" */
	/*
	 * Address space of an expandable segment with no memory behind it. This record stands alone
	 * (its SEGMENT_START is set), is not a segment, and ends the segment before it: a segment
	 * is a run of mapped memory, as in PyTorch's snapshot().
	 */
	VT_BLOCK_UNMAPPED = 3,
};

enum vt_block_flags {
	VT_BLOCK_SMALL_POOL = 1 << 0,
	VT_BLOCK_PRIVATE_POOL = 1 << 1,
	VT_BLOCK_EXPANDABLE = 1 << 2,
	/* first block of its segment; the following records up to the next start belong to it */
	VT_BLOCK_SEGMENT_START = 1 << 3,
};

/* One block. Records come in segments: each segment's blocks in address order, without gaps. */
struct vt_block_rec {
	uint64_t addr; /* device address */
	uint64_t size; /* bytes */
	/*
	 * bytes that the last caller asked for, as PyTorch's snapshot has it; 0: nobody did yet, or
	 * the release does not record it
	 */
	uint64_t requested;
	uint64_t stream; /* cudaStream_t; 0 is the default stream */
	/* MempoolId first << 32 | second when private and known; 0 for the default pools */
	uint64_t pool;
	uint64_t context; /* address of the recorded history context, 0 when none */
	uint64_t object;  /* address of the Block object in the target */
	int16_t device;
	uint8_t state; /* enum vt_block_state */
	uint8_t flags; /* enum vt_block_flags */
	uint32_t pad;
};
_Static_assert(sizeof(struct vt_block_rec) == 64, "part of the helper ABI");

/* Bytes that the caller asked for who has the block; 0: nobody has it, or it is not recorded. */
static inline uint64_t vt_block_asked_for(const struct vt_block_rec *block)
{
	return block->state == VT_BLOCK_ALLOCATED ? block->requested : 0;
}

/* A block of pinned host memory: memory of the host, not of a device. */
struct vt_pinned_block {
	uint64_t addr;
	uint64_t size;    /* bytes; a power of two unless pinned_max_round_threshold_mb is set */
	uint64_t object;  /* address of the HostBlock in the target */
	uint64_t pool;    /* MempoolId first << 32 | second, as in vt_block_rec */
	uint32_t events;  /* that must complete before it can be reused */
	uint32_t streams; /* that use it, while it is allocated */
	uint8_t state;    /* enum vt_block_state, but never UNMAPPED */
	uint8_t private_pool;
	uint8_t pad[6];
};
_Static_assert(sizeof(struct vt_pinned_block) == 48, "compared as bytes");

/*
 * c10::CachingDeviceAllocator::DeviceStats, the aggregate numbers. current, peak and accumulated
 * values as in PyTorch.
 */
struct vt_torch_stat {
	int64_t current;
	int64_t peak;
	int64_t allocated;
	int64_t freed;
};

struct vt_torch_stats {
	struct vt_torch_stat allocation;      /* number of allocations handed out */
	struct vt_torch_stat segment;         /* number of segments */
	struct vt_torch_stat active;          /* number of active blocks */
	struct vt_torch_stat inactive_split;  /* number of */
	struct vt_torch_stat allocated_bytes; /* bytes */
	struct vt_torch_stat reserved_bytes;
	struct vt_torch_stat active_bytes;
	struct vt_torch_stat inactive_split_bytes;
	struct vt_torch_stat requested_bytes; /* since 2.0 */
	int64_t num_alloc_retries;            /* -1: unknown */
	int64_t num_ooms;                     /* -1: unknown */
};

enum {
	VT_TORCH_MAX_WAITS = 32, /* streams with pending events; PyTorch forgets those without */
	VT_TORCH_STREAM_PRIORITIES = 4, /* max_compile_time_stream_priorities, since 2.1 */
	VT_TORCH_STREAMS_PER_POOL = 32, /* kStreamsPerPool */
};

enum vt_torch_stream_kind {
	VT_TORCH_STREAM_DEFAULT, /* of the device */
	VT_TORCH_STREAM_POOL,    /* of PyTorch's pools: torch.cuda.Stream() */
	VT_TORCH_STREAM_OTHER,   /* made by somebody else: torch.cuda.ExternalStream() */
};

/* The blocks that were freed and wait for the work of one stream, by an event for each. */
struct vt_torch_wait {
	uint64_t handle; /* of another's stream; the default one has 0, a pool's is not read */
	uint64_t blocks; /* all different ones */
	uint64_t bytes;
	int32_t device;  /* of the stream, which need not be the blocks' */
	uint8_t kind;    /* enum vt_torch_stream_kind */
	int8_t priority; /* of a pool's stream: CUDA's, 0 the lowest, then -1 */
	uint8_t number;  /* of a pool's stream, in the pool of its priority */
	uint8_t pad;
};

/* X(NAME, "name"): what is known of them; the name in JSON, which never changes. */
/* clang-format off */
#define VT_TORCH_WAITS(X)                                                                        \
	X(UNREAD, "unread")        /* the blocks are not known, or were not listed by a walk */  \
	X(KNOWN, "known")                                                                        \
	X(NO_PLACE, "no-place")    /* where PyTorch keeps its events was not found */            \
	X(MISMATCH, "mismatch")    /* the events are not those that the blocks count */          \
	X(CHANGED, "changed")      /* the same, of an allocator that worked meanwhile */         \
	X(TOO_MANY, "too-many")
/* clang-format on */

#define VT_TORCH_WAITS_CODE(name, text) VT_TORCH_WAITS_##name,
enum vt_torch_waits_state { VT_TORCH_WAITS(VT_TORCH_WAITS_CODE) VT_N_TORCH_WAITS };
#undef VT_TORCH_WAITS_CODE

/* For which streams the blocks wait that await their free; a block can wait for several. */
struct vt_torch_waits {
	uint32_t state; /* enum vt_torch_waits_state; else nothing is in the rest */
	uint32_t n;
	/* freed while a CUDA graph was captured, so that PyTorch has no event for them yet */
	uint64_t eventless_blocks, eventless_bytes;
	struct vt_torch_wait list[VT_TORCH_MAX_WAITS];
};

enum vt_walk_result {
	VT_WALK_COMPLETE = 0, /* every invariant held */
	/* the allocator changed: misfits were dropped; totals are not exact */
	VT_WALK_UNSTABLE = 1,
	VT_WALK_REFUSED = 2,   /* the invariants failed: nothing may be printed */
	VT_WALK_TRUNCATED = 3, /* a bound was reached (room, time, hops) */
};

enum vt_walk_lock {
	VT_LOCK_NONE = 0,  /* no thread held it and it was not taken: read from outside */
	VT_LOCK_TAKEN = 1, /* by the helper, for the time of the walk */
	/* another thread kept it (owner_tid) until the deadline; walked without it, validating */
	VT_LOCK_HELD_BY = 2,
};

/* The outcome for one device. */
struct vt_torch_device_result {
	int32_t device;
	uint8_t result; /* enum vt_walk_result */
	uint8_t lock;   /* enum vt_walk_lock */
	uint8_t have_stats;
	uint8_t certain;   /* nothing changed during the read, which is more than passed checks */
	int32_t owner_tid; /* of the mutex as found, 0 when free */
	uint32_t segments;
	uint64_t blocks;    /* records emitted */
	uint64_t dropped;   /* blocks that failed validation (0 unless unstable) */
	uint64_t bytes[4];  /* by enum vt_block_state */
	uint64_t walk_ns;   /* all of the walk */
	uint64_t read_ns;   /* its first half, while the allocator had to be unchanged */
	uint64_t allocator; /* address of the DeviceCachingAllocator */
	uint64_t bad_addr;  /* where an invariant failed, or 0 */
	char why[96];       /* which invariant or bound, "" when complete */
	struct vt_torch_stats stats;
	struct vt_torch_waits waits;
};

#endif
