/* SPDX-License-Identifier: Apache-2.0 */
/* What is at an address of the target: the block that contains it, and what is around that. */
#ifndef VT_MODEL_FIND_H
#define VT_MODEL_FIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/model.h"

enum vt_found_kind {
	VT_FOUND_NOTHING, /* in nothing that the model knows */
	VT_FOUND_BLOCK,   /* in a block of PyTorch's caching allocator, whatever its state */
	VT_FOUND_PINNED,  /* in a block of its pinned host memory */
	VT_FOUND_DRIVER,  /* in memory that was asked of the driver while that was recorded, and is not a segment of PyTorch's */
};

#define VT_FOUND_NONE SIZE_MAX

struct vt_found {
	enum vt_found_kind kind;
	uint64_t addr;           /* that was looked for */
	size_t index;            /* in model.blocks, model.pinned.blocks or model.driver_blocks */
	/* VT_FOUND_BLOCK: */
	const struct vt_model_allocator *allocator;
	size_t segment, segment_end; /* the blocks of its segment: indices in model.blocks, the end exclusive */
	uint64_t segment_bytes;  /* of them, mapped ones */
	size_t before, after;    /* its neighbours in the segment: indices in model.blocks, VT_FOUND_NONE */
	/* VT_FOUND_NOTHING: the nearest blocks of the allocators below and above, VT_FOUND_NONE */
	size_t below, above;
};

/* Of blocks of allocators that are not exact, too: what was read of them is right, only some may be missing. */
void vt_model_find_address(const struct vt_model *model, uint64_t addr, struct vt_found *ret);

#endif
