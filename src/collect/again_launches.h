/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to collect/again.c: which launches vramtap's recorder sees end between the first look and
 * the last. Read from outside.
 */
#ifndef VT_COLLECT_AGAIN_LAUNCHES_H
#define VT_COLLECT_AGAIN_LAUNCHES_H

#include "collect/target.h"
#include "model/model.h"
#include "vramtap/recorder.h"

struct vt_again_launches {
	struct vt_target target;                 /* open as long as first is set */
	uint64_t addr;                           /* of the recorder's head */
	uint32_t generation;                     /* of the recording */
	struct vt_recorder_launch_stream *first; /* [VT_LAUNCH_STREAMS] at the begin; NULL: none */
};

/* Not known: launches are not recorded, or that cannot be read. */
void vt_again_launches_begin(struct vt_again_launches *launches, const struct vt_subject *subject,
			     const struct vt_model *model);

/* Into the model: how many ended since the begin, of all streams and of those that were asked. */
void vt_again_launches_count(const struct vt_again_launches *launches, struct vt_model *model);

void vt_again_launches_end(struct vt_again_launches *launches);

#endif
