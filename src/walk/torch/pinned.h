/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PyTorch's caching allocator of pinned host memory (at::getHostAllocator(at::kCUDA), ATen/core/CachingHostAllocator.h), found
 * and listed from outside. It is found by functions that libtorch exports and known by the name of its class; what lies where
 * in it is found by signature, so no table of releases is needed. Checked with the libraries of 2.0.1, 2.1.2, 2.3.1, 2.4.1, 2.6.0,
 * 2.7.1, 2.8.0, 2.10.0, 2.11.0, 2.13.0 and 2.15.0.
 */
#ifndef VT_WALK_TORCH_PINNED_H
#define VT_WALK_TORCH_PINNED_H

#include <stdbool.h>
#include <stddef.h>

#include "target/elfsym.h"
#include "target/maps.h"
#include "vramtap/mem.h"
#include "vramtap/torch.h"

enum vt_pinned_state {
	VT_PINNED_ABSENT,  /* no libtorch_cuda.so in the target */
	VT_PINNED_UNUSED,  /* there is an allocator, and it was never used */
	VT_PINNED_FOUND,
	VT_PINNED_UNKNOWN, /* there must be one, and it was not found */
};

struct vt_pinned_found {
	enum vt_pinned_state state;
	uint64_t object; /* what vt_pinned_read() wants; valid for FOUND */
	char why[96];    /* for UNKNOWN */
};

/* What cannot be read is a reason for UNKNOWN. */
void vt_pinned_find(struct vt_modules *modules, struct vt_memsrc *src, struct vt_pinned_found *found);

/*
 * The part of it that needs no modules: looks at what the code of some functions refers to (addresses in the target; 0 is left
 * out). Fills found but for .why; false: UNKNOWN.
 */
bool vt_pinned_find_in_code(struct vt_memsrc *src, const uint64_t *functions, size_t n, struct vt_pinned_found *found);

/* Whether there is an allocator of the older form, which has no class name to know it by. */
bool vt_pinned_is_unordered(struct vt_memsrc *src, uint64_t object);

struct vt_pinned_limits {
	uint64_t max_blocks;
	uint64_t deadline_ns; /* CLOCK_MONOTONIC */
	unsigned int max_passes; /* over a target that runs, after the first; at least 1 */
	/* The map of now, to check that the blocks lie in memory; NULL (or the function is): it is not known, not checked. */
	const struct vt_maps *(*maps_now)(void *arg);
	void *arg;
};

struct vt_pinned_result {
	uint8_t result;      /* enum vt_walk_result: of UNSTABLE and COMPLETE ones there are blocks */
	bool same_blocks;    /* UNSTABLE: the blocks are sure, what state they are in is not */
	bool have_stats;     /* the allocator counts its blocks and bytes itself, and both numbers agree with these */
	int32_t owner_tid;   /* of the thread that has the lock of the blocks, 0 none */
	uint32_t n_private;  /* private pools */
	struct vt_pinned_block *blocks; /* by address; malloc()ed, the caller frees them */
	size_t n_blocks;
	uint64_t read_ns;
	uint64_t bad_addr;
	char why[96];
};

/*
 * Lists the blocks of the allocator at object. When src is not coherent it is read until two passes in a row agree, within the
 * limits.
 */
void vt_pinned_read(struct vt_memsrc *src, uint64_t object, const struct vt_pinned_limits *limits,
		    struct vt_pinned_result *result);

#endif
