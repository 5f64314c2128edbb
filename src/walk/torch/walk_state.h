/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a walk (walk.c), for the files that a walk consists of: walk_*.c. Like them it is
 * compiled into the tool and into the helper: no libc but mem*(), no allocation.
 */
#ifndef VT_WALK_TORCH_WALK_STATE_H
#define VT_WALK_TORCH_WALK_STATE_H

#include "walk/torch/torch.h"
#include "walk/torch/abi.h"

#define NONE VT_TORCH_NO_FIELD

#define POOLS_MAX 4096   /* BlockPools: two default ones and two a private pool */
#define POOL_SLOTS 16384 /* of their hash table; a power of two */
#define PIECES 512       /* of one vt_mem_readv() */
#define CHUNK (UINT64_C(256) << 10)
#define DIGIT_BITS 11
#define AHEAD 12      /* prefetch distance, in objects: hides a memory latency of about 100 ns */
#define BLOCK_MAX 256 /* bytes of a Block object that a layout can ask for */
#define POOL_MAX 256  /* the same of a BlockPool */

enum table { TABLE_ACTIVE, TABLE_CACHED, TABLE_UNMAPPED };

struct pool {
	uint64_t addr;
	uint64_t id; /* as in vt_block_rec.pool */
	uint64_t blocks_root, n_blocks;
	uint64_t unmapped_root, n_unmapped;
	uint8_t flags; /* VT_BLOCK_SMALL_POOL, VT_BLOCK_PRIVATE_POOL */
};

/*
 * What distinguishes two moments. A thread that changes a block holds the mutex. Before it releases
 * the mutex, it counts the change in the statistics (an allocation, a free, the end of a pending
 * free, a segment or a piece of one that was mapped or unmapped). So if the mutex was free at both
 * moments and the statistics are equal, no block changed in between: an operation in progress at
 * one of them would have held the mutex, and one that began and ended in between would have been
 * counted. x86-64 does not reorder one processor's stores, nor the kernel's reads across the calls
 * that make them.
 */
struct mark {
	int32_t owner; /* of the mutex: 0 it is free, -1 it is just being taken or given back */
	uint8_t before[VT_STATS_BEFORE_EXTRA], after[VT_STATS_AFTER_EXTRA]; /* the statistics */
};

/* A block as read. rec.pad holds the index of its pool until it is emitted. */
struct entry {
	struct vt_block_rec rec;
	uint64_t prev, next;
};

struct fixed {
	struct pool pools[POOLS_MAX];
	uint16_t pool_slots[POOL_SLOTS]; /* index + 1 */
	struct vt_memvec vec[PIECES];
	uint64_t piece_end[PIECES]; /* first place in the order that is no longer in the piece */
	uint32_t histogram[1 << DIGIT_BITS];
	uint8_t chunk[CHUNK];
};

#define FIXED_SIZE (sizeof(struct vt_torch_walk) + sizeof(struct fixed))
#define PER_BLOCK (sizeof(struct entry) + 5 * sizeof(uint64_t))

/* At the start of the scratch, since it outlives the call that made it. */
struct vt_torch_walk {
	struct vt_memsrc *src; /* while reading only */
	const struct vt_torch_layout *layout;
	const struct vt_torch_block_layout *block;
	struct vt_torch_walk_limits limits;
	struct vt_torch_device_result *result;
	uint64_t read_end; /* when the first half ended */
	uint64_t away_ns;  /* from then to the second half: the caller's time, not the walk's */
	uint64_t dca;
	int device;
	bool strict; /* one failed invariant refuses; else what fails is dropped */
	bool unstable;
	bool stopped;     /* result->result is final */
	bool found_lock;  /* the walk itself found the mutex held */
	struct mark mark; /* as it began */
	uint64_t mark_ns;
	uint64_t pools_seen; /* a hash of what graph_pools has: no operation on it is counted */

	struct fixed *fixed;
	uint8_t *chunk; /* where is read to */
	uint64_t chunk_size;
	uint64_t capacity; /* blocks that the scratch has room for */
	uint64_t *objects; /* addresses of Block objects */
	uint64_t *nodes;   /* of the set being read */
	struct entry *entries;
	uint64_t *addrs;        /* of the entries' memory: all that ordering them needs */
	uint64_t *keys, *spare; /* see vt_torch_walk_order_by() */
	uint64_t index_mask;
	uint64_t n;          /* objects */
	uint64_t n_entries;  /* those of them that are good */
	uint64_t n_awaiting; /* those of these that await their free */
	uint32_t n_pools;

	/* the set or block range being read */
	enum table table;
	uint32_t pool;
	uint64_t n_nodes, max_nodes;

	/* sums for the comparison with the statistics */
	struct vt_torch_stats stats;
	uint64_t n_state[4];
	uint64_t requested;
	/* those of cudaMalloc: DeviceStats.segment does not count expandable ones */
	uint64_t fixed_segments;
};

/* ---- walk_outcome.c: how a walk ends; each says why, and returns false ---- */

/* An invariant does not hold: a walk that must be exact is refused, else it is unstable. */
bool vt_torch_walk_broken(struct vt_torch_walk *w, const char *why, uint64_t addr);
bool vt_torch_walk_refuse(struct vt_torch_walk *w, const char *why, uint64_t addr);
bool vt_torch_walk_truncate(struct vt_torch_walk *w, const char *why);

/* Add to the text of a reason, which has room for size bytes and is *at long. */
void vt_torch_why_text(char *to, size_t size, size_t *at, const char *text);
void vt_torch_why_number(char *to, size_t size, size_t *at, uint64_t value);

/* The caller's clock; 0: it has none. */
uint64_t vt_torch_walk_now(const struct vt_torch_walk *w);
/* Whether there is time left, asked after every count objects; else the walk is truncated. */
bool vt_torch_walk_in_time(struct vt_torch_walk *w, uint64_t count);

/* ---- walk_sort.c ---- */

/* Sorts n places by their values: afterwards keys has them in order, see index_at. */
void vt_torch_walk_order_by(struct vt_torch_walk *w, const uint64_t *values, uint64_t n);

/* The index of what is at this place of the order. */
static inline uint64_t vt_torch_walk_index_at(const struct vt_torch_walk *w, uint64_t place)
{
	return w->keys[place] & w->index_mask;
}

/* ---- walk_bulk.c ---- */

/*
 * What is done with an object, in no particular order; bytes is NULL when it cannot be read. False
 * ends the walk.
 */
typedef bool (*vt_torch_object_fn)(struct vt_torch_walk *w, uint64_t addr, const uint8_t *bytes);

/* Calls fn for the objects of len bytes at n addresses. */
bool vt_torch_walk_each_object(struct vt_torch_walk *w, const uint64_t *addrs, uint64_t n,
			       unsigned int len, vt_torch_object_fn fn);

/* ---- walk_events.c ---- */

/* Remembers that the last entry, with so many events, awaits its free. */
void vt_torch_walk_awaits(struct vt_torch_walk *w, uint32_t events);
/* Which streams they wait for: fills w->result->waits. When all blocks were read. */
void vt_torch_walk_read_waits(struct vt_torch_walk *w);
/*
 * For a walk that holds: PyTorch's statistics do not count that a block that waits for several
 * streams no longer waits for one of them, nor that one without an event gets some. If that can
 * have been, this reads them again.
 */
void vt_torch_walk_renew_waits(struct vt_torch_walk *w, struct vt_memsrc *src);
/* At the end: only waits of blocks that are exact are known. */
void vt_torch_walk_settle_waits(struct vt_torch_device_result *result);

/* ---- read.c ---- */

/*
 * Calls fn for each private pool that graph_pools has; fn returns 0 to go on. Returns its or an own
 * negative errno.
 */
int vt_torch_each_private(struct vt_memsrc *src, const struct vt_torch_layout *layout, uint64_t dca,
			  int (*fn)(void *arg, const uint8_t *slot), void *arg);

#endif
