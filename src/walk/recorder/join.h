/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which record is about which block. Frees are not recorded, and the blocks are listed at one moment, the records read at others;
 * so a record counts only if nothing else can have been at that address when the blocks were listed:
 * - it was there, the same (by its serial number), in a pass before that moment and in one after it; or
 * - it is in the pass after it, and older than that moment by more than its clock can be late. Had its block been freed and the
 *   address handed out again since, a newer record would be in its place.
 * And its size must be what PyTorch says was asked for, where PyTorch does say that: a block can come into being without passing the
 * allocator's entries, as where the state of a private pool is restored.
 */
#ifndef VT_WALK_RECORDER_JOIN_H
#define VT_WALK_RECORDER_JOIN_H

#include "vramtap/torch.h"
#include "walk/recorder/recorder.h"

enum vt_recorder_fate {
	VT_RECORD_NONE,     /* there is no record of this address */
	VT_RECORD_JOINED,
	VT_RECORD_CHANGED,  /* there is one, perhaps of what came after the block, or was there before it */
	VT_RECORD_MISMATCH, /* there is one, and it is not of this block: that came into being unseen */
	VT_RECORD_TWICE,    /* there are two */
	VT_RECORD_N_FATES
};

struct vt_recorder_joined {
	uint32_t *record_of; /* of each block: index in after->blocks, if its fate is VT_RECORD_JOINED */
	uint8_t *fate_of;    /* of each block: enum vt_recorder_fate; VT_RECORD_NONE where it is not in use */
	size_t n[VT_RECORD_N_FATES]; /* blocks in use, by fate */
};

struct vt_recorder_moment {
	const struct vt_recorder_pass *before; /* NULL: both are of one moment, as in a core */
	const struct vt_recorder_pass *after;
	const struct vt_recorder_head *head;
	const uint64_t *listed_ns; /* by device: when its blocks were listed, or any time before that */
};

/* joined must be zeroed. False when memory is short. */
bool vt_recorder_join(const struct vt_recorder_moment *moment, const struct vt_block_rec *blocks, size_t n_blocks,
		      struct vt_recorder_joined *joined);
void vt_recorder_joined_deinit(struct vt_recorder_joined *joined);

#endif
