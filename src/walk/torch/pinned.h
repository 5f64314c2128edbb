/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PyTorch's caching allocator of pinned host memory (at::getHostAllocator(at::kCUDA),
 * ATen/core/CachingHostAllocator.h), found and listed from outside. Functions that libtorch exports
 * lead to it, and its class name identifies it. Its fields are found by signature, so it needs no
 * table of releases. Checked with the libraries of 2.0.1, 2.1.2, 2.3.1, 2.4.1, 2.6.0, 2.7.1, 2.8.0,
 * 2.10.0, 2.11.0, 2.13.0 and 2.15.0.
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
	VT_PINNED_ABSENT, /* no libtorch_cuda.so in the target */
	VT_PINNED_UNUSED, /* there is an allocator, but it was never used */
	VT_PINNED_FOUND,
	VT_PINNED_UNKNOWN, /* there must be one, but it was not found */
};

struct vt_pinned_found {
	enum vt_pinned_state state;
	uint64_t object; /* the argument for vt_pinned_read(); valid for FOUND */
	char why[96];    /* for UNKNOWN */
};

/* Unreadable memory leads to UNKNOWN. */
void vt_pinned_find(struct vt_modules *modules, struct vt_memsrc *src,
		    struct vt_pinned_found *found);

/*
 * The part of vt_pinned_find() that needs no modules: follows the references in the code of some
 * functions (addresses in the target; 0 is skipped). Fills found except .why. False: UNKNOWN.
 */
bool vt_pinned_find_in_code(struct vt_memsrc *src, const uint64_t *functions, size_t n,
			    struct vt_pinned_found *found);

/* Whether there is an allocator of the older form, which has no class name to identify it. */
bool vt_pinned_is_unordered(struct vt_memsrc *src, uint64_t object);

struct vt_pinned_limits {
	uint64_t max_blocks;
	uint64_t deadline_ns;    /* CLOCK_MONOTONIC */
	unsigned int max_passes; /* over a running target, after the first; at least 1 */
	/*
	 * Returns the current map, to check that the blocks are in mapped memory. If the function
	 * or its result is NULL, there is no check.
	 */
	const struct vt_maps *(*maps_now)(void *arg);
	void *arg;
};

struct vt_pinned_result {
	uint8_t result;     /* enum vt_walk_result; UNSTABLE and COMPLETE have blocks */
	bool same_blocks;   /* UNSTABLE: the blocks are sure, their states are not */
	bool have_stats;    /* the allocator's own counts of blocks and bytes agree with these */
	int32_t owner_tid;  /* of the thread that holds the lock of the blocks, 0 none */
	uint32_t n_private; /* private pools */
	struct vt_pinned_block *blocks; /* by address; malloc()ed, the caller frees them */
	size_t n_blocks;
	uint64_t read_ns;
	uint64_t bad_addr;
	char why[96];
};

/*
 * Lists the blocks of the allocator at object. When src is not coherent, it reads until two passes
 * in a row agree, within the limits.
 */
void vt_pinned_read(struct vt_memsrc *src, uint64_t object, const struct vt_pinned_limits *limits,
		    struct vt_pinned_result *result);

#endif
