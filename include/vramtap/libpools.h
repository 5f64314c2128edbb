/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools of device memory that libraries other than PyTorch keep, as plain data: XLA's best-fit
 * allocator (JAX), CuPy's pools, RMM's, what NCCL's communicators hold. Walkers find them
 * (walk/libpools/), reports show them.
 */
#ifndef VRAMTAP_LIBPOOLS_H
#define VRAMTAP_LIBPOOLS_H

#include <stdint.h>

enum vt_libpool_kind {
	VT_LIBPOOL_XLA,  /* tsl::BFCAllocator */
	VT_LIBPOOL_CUPY, /* cupy.cuda.memory.SingleDeviceMemoryPool */
	VT_LIBPOOL_RMM,  /* rmm::mr::pool_memory_resource */
	VT_LIBPOOL_NCCL, /* a communicator of NCCL's */
	VT_N_LIBPOOL_KINDS
};

/* How far the pool can be believed. */
enum vt_libpool_state {
	VT_LIBPOOL_EXACT,    /* structure and the library's own counters agree, at one moment */
	VT_LIBPOOL_COUNTERS, /* the library keeps counters only: no chunks */
	VT_LIBPOOL_CHANGING, /* it changed at each look: nothing below is of one moment */
	VT_N_LIBPOOL_STATES
};

/* Which of the numbers the library has. */
enum {
	VT_LIBPOOL_HELD = 1,
	VT_LIBPOOL_USED = 2,
	VT_LIBPOOL_PEAK = 4,
	VT_LIBPOOL_LIMIT = 8,
	VT_LIBPOOL_BLOCKS = 16, /* where each block in use is: else chunks are only what is free */
};

struct vt_libpool_rec {
	uint64_t object;     /* its address */
	uint64_t held_bytes; /* what it has got from below, the driver or another pool */
	uint64_t used_bytes; /* what it has handed out, as it rounds */
	uint64_t peak_bytes; /* of used */
	uint64_t limit_bytes;
	uint32_t known;  /* VT_LIBPOOL_HELD | ... */
	int32_t device;  /* ordinal; -1: not known, its regions tell */
	uint8_t kind;    /* enum vt_libpool_kind */
	uint8_t state;   /* enum vt_libpool_state */
	uint8_t is_host; /* pinned memory of the host */
	uint8_t pad[5];
	char name[64]; /* as the library calls it, with a NUL; hostile */
};

/* What it has got from below in one piece. Sorted by address, disjoint. */
struct vt_libpool_region {
	uint64_t start, size;
};

/* A piece of a region, in use or free. Sorted by address, disjoint, within regions. */
struct vt_libpool_chunk {
	uint64_t start, size;
	uint64_t requested; /* 0: not known */
	const char *note;   /* what it is for, as the library says; NULL nothing; hostile */
	uint8_t in_use;
	uint8_t pad[7];
};

#endif
