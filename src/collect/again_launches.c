/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/again_launches.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "walk/recorder/find.h"
#include "walk/recorder/launches.h"
#include "walk/recorder/recorder.h"

/* Which recording it is: one that was switched off and on again counts from 0. */
static bool read_generation(const struct vt_again_launches *launches, uint32_t *generation)
{
	struct vt_recorder_head head;
	enum vt_recorder_found found;
	VT_ERROR struct vt_error *err =
		vt_recorder_head_read(launches->target.mem, launches->addr, &head, &found);

	if (err || found != VT_RECORDER_IS_ON || !head.config.launches)
		return false;
	*generation = head.generation;
	return true;
}

static struct vt_recorder_launch_stream *read_streams(const struct vt_again_launches *launches)
{
	struct vt_recorder_launch_stream *streams = calloc(VT_LAUNCH_STREAMS, sizeof(*streams));

	if (streams &&
	    vt_recorder_launch_streams_read(launches->target.mem, launches->addr, streams))
		return streams;
	free(streams);
	return NULL;
}

void vt_again_launches_begin(struct vt_again_launches *launches, const struct vt_subject *subject,
			     const struct vt_model *model)
{
	VT_ERROR struct vt_error *err = NULL;

	if (!model->launches.known)
		return;
	err = vt_target_open(&launches->target, subject);
	if (!err)
		launches->addr = vt_recorder_find(&launches->target.maps, launches->target.mem);
	if (launches->addr && read_generation(launches, &launches->generation))
		launches->first = read_streams(launches);
	if (!launches->first)
		vt_target_close(&launches->target);
}

/* All launches up to this number have ended. The recorder raises both words while they are read. */
static uint64_t done_of(const struct vt_recorder_launch_stream *s)
{
	uint64_t n = vt_recorder_stream_launches(s);

	return s->done < n ? s->done : n;
}

/*
 * A stream keeps its place in the table; of one that is new, all that has ended has ended since.
 * False: it has gone back, and nothing is known.
 */
static bool count_stream(const struct vt_recorder_launch_stream *before,
			 const struct vt_recorder_launch_stream *now, uint64_t *ended)
{
	uint64_t from = vt_recorder_launch_stream_is(before) ? done_of(before) : 0;

	*ended = done_of(now) - from;
	return (!vt_recorder_launch_stream_is(before) || before->key == now->key) &&
	       done_of(now) >= from;
}

/* A default stream is of its context: that of the primary one was asked. */
static struct vt_model_stream *stream_of(const struct vt_model *model,
					 const struct vt_recorder_launch_stream *s)
{
	if (s->tid)
		return NULL;
	if (s->handle)
		return vt_model_streams_of(&model->streams, s->device, s->handle);
	for (size_t i = 0; s->context && i < model->devices.n; i++)
		if (model->devices.data[i].context == s->context)
			return vt_model_streams_of(&model->streams, model->devices.data[i].ordinal,
						   0);
	return NULL;
}

static void add(struct vt_model *model, const struct vt_recorder_launch_stream *s, uint64_t ended)
{
	struct vt_model_stream *stream = stream_of(model, s);

	model->again.launches_ended += ended;
	if (stream) {
		stream->ended_known = true;
		stream->ended += ended;
	}
}

/* The last look counts, also if it tells nothing. */
static void forget(struct vt_model *model)
{
	model->again.launches_known = false;
	model->again.launches_ended = 0;
	for (size_t i = 0; i < model->streams.list.n; i++) {
		model->streams.list.data[i].ended_known = false;
		model->streams.list.data[i].ended = 0;
	}
}

void vt_again_launches_count(const struct vt_again_launches *launches, struct vt_model *model)
{
	VT_FREE struct vt_recorder_launch_stream *now = launches->first ? read_streams(launches) :
									  NULL;
	uint64_t ended[VT_LAUNCH_STREAMS];
	uint32_t generation;

	forget(model);
	if (!now || !read_generation(launches, &generation) || generation != launches->generation)
		return;
	for (size_t i = 0; i < VT_LAUNCH_STREAMS; i++)
		if (vt_recorder_launch_stream_is(&now[i]) &&
		    !count_stream(&launches->first[i], &now[i], &ended[i]))
			return;
	model->again.launches_known = true;
	for (size_t i = 0; i < VT_LAUNCH_STREAMS; i++)
		if (vt_recorder_launch_stream_is(&now[i]))
			add(model, &now[i], ended[i]);
}

void vt_again_launches_end(struct vt_again_launches *launches)
{
	if (launches->first)
		vt_target_close(&launches->target);
	free(launches->first);
	launches->first = NULL;
}
