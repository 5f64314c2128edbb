/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the snapshot's writer share. */
#ifndef VT_REPORT_SNAPSHOT_INTERNAL_H
#define VT_REPORT_SNAPSHOT_INTERNAL_H

#include "model/model.h"
#include "report/snapshot/pickle.h"

/* Numbers of what the pickle keeps, plus 1; 0: not written yet. */
struct vt_snapshot {
	const struct vt_model *model;
	struct vt_pickle *pickle;
	uint32_t *frames; /* of each place in model.trace_frames, also those of segments alone */
	size_t n_frames;
	uint32_t *traces;       /* of each backtrace's list */
	uint32_t *segment_only; /* the same of those that only segments have */
	uint32_t categories[VT_N_CATEGORIES];
};

/* A key and its value. */
void vt_snapshot_number(struct vt_snapshot *s, const char *key, uint64_t value);
void vt_snapshot_name(struct vt_snapshot *s, const char *key, const char *value);
void vt_snapshot_stream(struct vt_snapshot *s, const struct vt_block_rec *block);
/* MempoolId_t: a pair, (0, 0) for the default pools; nothing where it is not known. */
void vt_snapshot_pool(struct vt_snapshot *s, const char *key, const struct vt_block_rec *block);

/* The key and value of what happened on the devices. */
void vt_snapshot_events(struct vt_snapshot *s);

/* The list of a block's frames, the innermost first; the same of the segment that it begins. */
void vt_snapshot_frames(struct vt_snapshot *s, size_t block);
void vt_snapshot_segment_frames(struct vt_snapshot *s, size_t block);

/* The key and value about the owner of a block, if it has one. */
void vt_snapshot_owner(struct vt_snapshot *s, size_t block);

#endif
