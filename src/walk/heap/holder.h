/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/walk/heap: what a word of memory lies in. */
#ifndef VT_WALK_HEAP_HOLDER_H
#define VT_WALK_HEAP_HOLDER_H

#include "walk/heap/seek.h"

struct vt_holders {
	struct vt_memsrc *src;
	const struct vt_seek_options *options;
	struct vt_seek_stack *stacks; /* sorted */
	/* The module that was asked for last: its first entry of maps, and where its data ends. */
	uint32_t module;
	uint64_t module_end;
};

/* False: out of memory. Always call vt_holders_deinit() afterwards. */
bool vt_holders_init(struct vt_holders *holders, struct vt_memsrc *src,
		     const struct vt_seek_options *options);
void vt_holders_deinit(struct vt_holders *holders);

/*
 * Sets start, map, tid and place of hit, and the size of a chunk. False: nothing that is alive lies
 * there: it is free, or below a stack pointer.
 */
bool vt_holder_of(struct vt_holders *holders, uint64_t at, struct vt_seek_hit *hit,
		  uint64_t *bytes);

#endif
