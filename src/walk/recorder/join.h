/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matches records to blocks. The recorder does not record frees, and the blocks are listed at one
 * moment and the records read at others. So a record counts only if no other block can have been at
 * its address when the blocks were listed:
 * - the same record (by its serial number) is in a pass before that moment and in one after it; or
 * - it is in the pass after that moment, and older than the moment by more than its clock can be
 *   late. If its block had been freed and the address reused since, a newer record would be there.
 * If PyTorch tells the requested size, the record's size must equal it. A block can come into being
 * without passing the allocator's entries, for example when a private pool's state is restored.
 */
#ifndef VT_WALK_RECORDER_JOIN_H
#define VT_WALK_RECORDER_JOIN_H

#include "vramtap/torch.h"
#include "walk/recorder/recorder.h"

enum vt_recorder_fate {
	VT_RECORD_NONE, /* there is no record of this address */
	VT_RECORD_JOINED,
	VT_RECORD_CHANGED,  /* there is one, but perhaps of an earlier or later block */
	VT_RECORD_MISMATCH, /* there is one, but of another block: this one was made unseen */
	VT_RECORD_TWICE,    /* there are two */
	VT_RECORD_N_FATES
};

struct vt_recorder_joined {
	uint32_t *record_of; /* for each block: index in after->blocks, if VT_RECORD_JOINED */
	uint8_t *fate_of;    /* for each block: enum vt_recorder_fate; VT_RECORD_NONE: not in use */
	size_t n[VT_RECORD_N_FATES]; /* blocks in use, by fate */
};

struct vt_recorder_moment {
	const struct vt_recorder_pass *before; /* NULL: both are from one moment, as in a core */
	const struct vt_recorder_pass *after;
	const struct vt_recorder_head *head;
	const uint64_t *listed_ns; /* by device: when its blocks were listed, or any earlier time */
};

/* joined must be zeroed. False when out of memory. */
bool vt_recorder_join(const struct vt_recorder_moment *moment, const struct vt_block_rec *blocks,
		      size_t n_blocks, struct vt_recorder_joined *joined);
void vt_recorder_joined_deinit(struct vt_recorder_joined *joined);

#endif
