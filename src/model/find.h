/* SPDX-License-Identifier: Apache-2.0 */
/* What is at an address of the target: the block that contains it, and its surroundings. */
#ifndef VT_MODEL_FIND_H
#define VT_MODEL_FIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/model.h"

enum vt_found_kind {
	VT_FOUND_NOTHING, /* the model knows nothing there */
	VT_FOUND_BLOCK,   /* in a block of PyTorch's caching allocator, whatever its state */
	VT_FOUND_PINNED,  /* in a block of PyTorch's pinned host memory */
	VT_FOUND_DRIVER,  /* in a recorded driver allocation that is not a segment of PyTorch's */
};

#define VT_FOUND_NONE SIZE_MAX

struct vt_found {
	enum vt_found_kind kind;
	uint64_t addr; /* the address looked for */
	size_t index;  /* in model.blocks, model.pinned.blocks or model.driver_blocks */
	/* VT_FOUND_BLOCK: */
	const struct vt_model_allocator *allocator;
	/* the blocks of its segment: indices in model.blocks, the end exclusive */
	size_t segment, segment_end;
	uint64_t segment_bytes; /* of its mapped blocks */
	size_t before, after;   /* neighbours in the segment: in model.blocks, or VT_FOUND_NONE */
	/* VT_FOUND_NOTHING: the nearest blocks of the allocators below and above, VT_FOUND_NONE */
	size_t below, above;
};

/*
 * Searches the blocks of inexact allocators too: what was read of them is right, but blocks may be
 * missing.
 */
void vt_model_find_address(const struct vt_model *model, uint64_t addr, struct vt_found *ret);

#endif
