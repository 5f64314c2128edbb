/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What PyTorch's allocator could do with the blocks as they lie now, with its settings and with
 * others. Nothing here knows how they came to lie so: with another setting the history would have
 * been another one. So each figure is what is sure for this moment, and at least that.
 */
#ifndef VT_ADVISE_SIMULATE_H
#define VT_ADVISE_SIMULATE_H

#include "model/model.h"

struct vt_simulated {
	/* Segments without a block in use, which empty_cache() gives back: not of private pools. */
	uint64_t whole_bytes, whole_segments;
	/* Cached blocks of segments with a block in use, and what is in use there. */
	uint64_t hole_bytes, holes, largest_hole;
	uint64_t pinning_bytes, pinning_blocks;
	/* The process has expandable segments already. */
	bool expandable;
	/*
	 * What of the holes expandable segments could map elsewhere: whole pages, by pool; and
	 * those of the pool that the request is for, of both where there is none.
	 */
	uint64_t small_page_bytes, large_page_bytes, joined_bytes;
	/* A request of needed bytes, and so much free on the device: these pages serve it. */
	bool pages_suffice;
	/*
	 * The largest max_split_size_mb for which the segments suffice that it would have kept
	 * whole: all their blocks in use are small enough that they would be in others. 0: none.
	 * unsplit_bytes: their memory, less what those blocks would take elsewhere.
	 */
	uint64_t split_mb, unsplit_bytes, unsplit_segments;
};

/* Only of an exact allocator. needed 0: there is no request. */
void vt_advise_simulate(const struct vt_model *model, const struct vt_model_allocator *a,
			uint64_t needed, uint64_t free_bytes, struct vt_simulated *ret);

#endif
