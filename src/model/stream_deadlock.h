/* SPDX-License-Identifier: Apache-2.0 */
/* Streams that wait for each other, by what was launched on them (model/launches.h). */
#ifndef VT_MODEL_STREAM_DEADLOCK_H
#define VT_MODEL_STREAM_DEADLOCK_H

#include "model/model.h"

/*
 * Sets stuck, waits_for and ends_it of streams in a deadlock. False: out of memory; then none is
 * found.
 */
bool vt_find_stream_deadlocks(struct vt_model *model);

/* The next stream that begins a ring, from *i on, which goes behind it; each ring once; or NULL. */
const struct vt_model_launch_stream *vt_next_stream_deadlock(const struct vt_model *model,
							     size_t *i);
/* The stream that a stuck one waits for. */
const struct vt_model_launch_stream *vt_stream_waited_for(const struct vt_model *model,
							  const struct vt_model_launch_stream *s);

/*
 * A later look at the streams (model/streams.h) may show that one is past its wait: then there
 * is no deadlock. True: there was such a ring.
 */
bool vt_withdraw_stream_deadlocks(struct vt_model *model);

#endif
