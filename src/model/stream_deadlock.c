/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each stream is led through what it was given, past every wait that may end: what is at the
 * address now ends it, or what a stream writes that has come so far, or it is not known. So a
 * stream that does not get to its end stands at a wait that nothing else that was launched can
 * end. It is in a deadlock if something will be launched that ends its wait, but only by streams
 * that are in it themselves.
 *
 * What this does not see is a value that was there once and is not any more: the stream is past its
 * wait then. Only what is written can take a value away, so no stream may have anything before it,
 * behind its own wait, that would. A host, a kernel or another process may write, too: of a wait
 * that only they can end nothing is said.
 *
 * An event is recorded before a stream is told to wait for it, so events alone make no ring.
 */
#include "model/stream_deadlock.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/cleanup.h"
#include "base/map.h"
#include "model/stream_waits.h"
#include "model/streams.h"

/* The host may be about to write what sets the streams going: so long it has not. */
#define STANDS_NS (5 * VT_NS_PER_S)
#define MAX_STEPS 20000000 /* what is written is looked at; a hostile process may write often */
#define NONE SIZE_MAX

/* A write of a value, or a record of an event, that is not known to be over. */
struct op {
	size_t stream, at;
	size_t next; /* of the same event, or in the same 8 bytes; NONE */
};

struct look {
	const struct vt_model *model;
	const struct vt_model_launches *launches;
	VT_VEC(struct op) ops;
	struct vt_map values; /* address / 8 → the first in ops */
	struct vt_map events;
	size_t *at; /* of each stream: the launch that it stands at */
	bool *in;   /* it is in a deadlock */
	uint64_t steps;
};

static const struct vt_model_launch_stream *stream_at(const struct look *l, size_t i)
{
	return &l->launches->streams.data[i];
}

static const struct vt_model_launch *launch_of(const struct look *l, const struct op *op)
{
	return &stream_at(l, op->stream)->launches[op->at];
}

/* Its stream comes so far. */
static bool is_reached(const struct look *l, const struct op *op)
{
	return op->at < l->at[op->stream];
}

/* ---- what is written, and recorded ---- */

static bool add_op(struct look *l, size_t stream, size_t at)
{
	const struct vt_model_launch *launch = &stream_at(l, stream)->launches[at];
	bool is_value = launch->kind == VT_LAUNCHED_WRITE_VALUE;
	struct vt_map *map = is_value ? &l->values : &l->events;
	uint64_t key = is_value ? launch->what / 8 : launch->what;
	const uint64_t *first = vt_map_get(map, key);
	struct op *op = vt_vec_append(&l->ops);

	if (!op)
		return false;
	*op = (struct op){ stream, at, first ? (size_t)*first : NONE };
	return vt_map_put(map, key, l->ops.n - 1);
}

static bool list_ops(struct look *l)
{
	for (size_t i = 0; i < l->launches->streams.n; i++) {
		const struct vt_model_launch_stream *s = stream_at(l, i);

		for (size_t k = 0; k < s->n; k++)
			if ((s->launches[k].kind == VT_LAUNCHED_WRITE_VALUE ||
			     s->launches[k].kind == VT_LAUNCHED_RECORD_EVENT) &&
			    vt_launch_is_open(&s->launches[k]) && !add_op(l, i, k))
				return false;
	}
	return true;
}

static size_t first_of(const struct look *l, const struct vt_model_launch *wait)
{
	const uint64_t *first = wait->kind == VT_LAUNCHED_WAIT_VALUE ?
					vt_map_get(&l->values, wait->what / 8) :
					vt_map_get(&l->events, wait->what);

	return first ? (size_t)*first : NONE;
}

enum effect { ELSEWHERE, ENDS, DOES_NOT_END, UNCLEAR };

/* Of a write in the same 8 bytes. */
static enum effect effect_of(const struct vt_model_launch *wait,
			     const struct vt_model_launch *write)
{
	uint64_t from = write->what, to = from + write->bits / 8;
	uint64_t value = write->value;

	if (to <= wait->what || from >= wait->what + wait->bits / 8)
		return ELSEWHERE;
	if (from > wait->what || to < wait->what + wait->bits / 8)
		return UNCLEAR;
	value >>= 8 * (wait->what - from);
	return vt_wait_ends_with(wait, value) ? ENDS : DOES_NOT_END;
}

/*
 * A wait is for the last record before it. There is only one that is not over: it is that one, if
 * it was there in time; or the wait is over.
 */
static const struct op *record_of(const struct look *l, size_t stream, size_t at)
{
	const struct vt_model_launch *wait = &stream_at(l, stream)->launches[at];
	size_t first = first_of(l, wait);
	const struct op *op = first == NONE ? NULL : &l->ops.data[first];

	if (!op || op->next != NONE || launch_of(l, op)->age_ns < wait->age_ns ||
	    (op->stream == stream && op->at > at))
		return NULL;
	return op;
}

/* ---- how far each stream comes ---- */

static bool is_written(struct look *l, const struct vt_model_launch *wait)
{
	for (size_t i = first_of(l, wait); i != NONE; i = l->ops.data[i].next) {
		const struct op *op = &l->ops.data[i];
		enum effect effect = effect_of(wait, launch_of(l, op));

		l->steps++;
		if ((effect == ENDS || effect == UNCLEAR) && is_reached(l, op))
			return true;
	}
	return false;
}

static bool may_pass(struct look *l, size_t stream, size_t at)
{
	const struct vt_model_launch *launch = &stream_at(l, stream)->launches[at];
	const struct op *record;

	l->steps++;
	if (!vt_launch_is_open(launch))
		return true;
	if (launch->kind == VT_LAUNCHED_WAIT_VALUE)
		return !launch->there_known || vt_wait_ends_with(launch, launch->there) ||
		       is_written(l, launch);
	if (launch->kind != VT_LAUNCHED_WAIT_EVENT)
		return true;
	record = record_of(l, stream, at);
	return !record || is_reached(l, record);
}

/* False: that takes too long. */
static bool lead_all(struct look *l)
{
	bool moved = true;

	while (moved) {
		moved = false;
		for (size_t i = 0; i < l->launches->streams.n; i++)
			for (; l->at[i] < stream_at(l, i)->n && may_pass(l, i, l->at[i]);
			     l->at[i]++)
				moved = true;
		if (l->steps > MAX_STEPS)
			return false;
	}
	return true;
}

/* ---- which of them are in a deadlock ---- */

static const struct vt_model_launch *wait_of(const struct look *l, size_t stream)
{
	return &stream_at(l, stream)->launches[l->at[stream]];
}

/* It has nothing to do, or had at one of two moments: whatever it waited for came. */
static bool goes_on(const struct vt_model *model, const struct vt_model_launch_stream *stream)
{
	const struct vt_model_stream *asked = vt_launch_stream_asked(model, stream);

	return asked && !asked->error &&
	       (asked->state == VT_STREAM_IDLE_STATE || asked->state == VT_STREAM_MOVING_STATE);
}

static bool may_be_in(const struct look *l, size_t stream)
{
	return l->at[stream] < stream_at(l, stream)->n && !wait_of(l, stream)->there_shared &&
	       wait_of(l, stream)->age_ns >= STANDS_NS && !goes_on(l->model, stream_at(l, stream));
}

/* What ends its wait, if all that does is of streams in the deadlock; or NULL. */
static const struct op *ending_of(struct look *l, size_t stream)
{
	const struct vt_model_launch *wait = wait_of(l, stream);
	const struct op *ending = NULL;

	if (wait->kind == VT_LAUNCHED_WAIT_EVENT) {
		ending = record_of(l, stream, l->at[stream]);
		return ending && l->in[ending->stream] ? ending : NULL;
	}
	for (size_t i = first_of(l, wait); i != NONE; i = l->ops.data[i].next) {
		const struct op *op = &l->ops.data[i];
		enum effect effect = effect_of(wait, launch_of(l, op));

		l->steps++;
		if (effect == UNCLEAR || (effect == ENDS && !l->in[op->stream]) ||
		    (effect == DOES_NOT_END && !is_reached(l, op)))
			return NULL;
		/* The list begins with the last one. */
		if (effect == ENDS)
			ending = op;
	}
	return ending;
}

static void leave_out(struct look *l)
{
	bool changed = true;

	while (changed && l->steps <= MAX_STEPS) {
		changed = false;
		for (size_t i = 0; i < l->launches->streams.n; i++)
			if (l->in[i] && !ending_of(l, i)) {
				l->in[i] = false;
				changed = true;
			}
	}
}

/* Streams that only wait for one of a ring are in no ring themselves. */
static bool is_in_ring(const struct vt_model_launches *launches, size_t stream)
{
	size_t i = stream;

	for (size_t n = 0; n < launches->streams.n; n++) {
		i = launches->streams.data[i].waits_for;
		if (i == stream)
			return true;
	}
	return false;
}

static void put_rings(struct look *l, struct vt_model_launches *launches)
{
	for (size_t i = 0; i < launches->streams.n; i++) {
		struct vt_model_launch_stream *s = &launches->streams.data[i];
		const struct op *ending = l->in[i] ? ending_of(l, i) : NULL;

		if (!ending)
			continue;
		s->waits_for = ending->stream;
		s->ends_it = launch_of(l, ending);
	}
	for (size_t i = 0; i < launches->streams.n; i++)
		if (l->in[i] && is_in_ring(launches, i))
			launches->streams.data[i].stuck = wait_of(l, i);
}

/* All that was launched is there; what is not, might end a wait. */
static bool is_whole(const struct vt_model_launches *launches)
{
	for (size_t i = 0; i < launches->streams.n; i++)
		if (launches->streams.data[i].not_kept)
			return false;
	return launches->known && launches->whole && !launches->lost;
}

static bool look(struct look *l, struct vt_model_launches *launches)
{
	if (!list_ops(l))
		return false;
	if (!l->ops.n || !lead_all(l))
		return true;
	for (size_t i = 0; i < launches->streams.n; i++)
		l->in[i] = may_be_in(l, i);
	leave_out(l);
	if (l->steps <= MAX_STEPS)
		put_rings(l, launches);
	return true;
}

bool vt_find_stream_deadlocks(struct vt_model *model)
{
	struct vt_model_launches *launches = &model->launches;
	VT_FREE size_t *at = calloc(launches->streams.n + 1, sizeof(*at));
	VT_FREE bool *in = calloc(launches->streams.n + 1, sizeof(*in));
	struct look l = { .model = model, .launches = launches, .at = at, .in = in };
	bool ok;

	for (size_t i = 0; i < launches->streams.n; i++)
		launches->streams.data[i].stuck = NULL;
	if (!is_whole(launches))
		return true;
	ok = at && in && look(&l, launches);
	vt_vec_deinit(&l.ops);
	vt_map_deinit(&l.values);
	vt_map_deinit(&l.events);
	return ok;
}

/* ---- what was found ---- */

const struct vt_model_launch_stream *vt_stream_waited_for(const struct vt_model *model,
							  const struct vt_model_launch_stream *s)
{
	return &model->launches.streams.data[s->waits_for];
}

static bool is_first_of_ring(const struct vt_model *model,
			     const struct vt_model_launch_stream *first)
{
	const struct vt_model_launch_stream *s = vt_stream_waited_for(model, first);

	for (; s != first; s = vt_stream_waited_for(model, s))
		if (s < first)
			return false;
	return true;
}

const struct vt_model_launch_stream *vt_next_stream_deadlock(const struct vt_model *model,
							     size_t *i)
{
	while (*i < model->launches.streams.n) {
		const struct vt_model_launch_stream *s = &model->launches.streams.data[(*i)++];

		if (s->stuck && is_first_of_ring(model, s))
			return s;
	}
	return NULL;
}

static bool one_went_on(const struct vt_model *model, const struct vt_model_launch_stream *first)
{
	const struct vt_model_launch_stream *s = first;

	do {
		if (goes_on(model, s))
			return true;
		s = vt_stream_waited_for(model, s);
	} while (s != first);
	return false;
}

static void forget_ring(struct vt_model_launch_stream *streams,
			const struct vt_model_launch_stream *first)
{
	size_t at = (size_t)(first - streams);

	for (; streams[at].stuck; at = streams[at].waits_for)
		streams[at].stuck = NULL;
}

bool vt_withdraw_stream_deadlocks(struct vt_model *model)
{
	const struct vt_model_launch_stream *first;
	bool any = false;
	size_t i = 0;

	while ((first = vt_next_stream_deadlock(model, &i))) {
		if (!one_went_on(model, first))
			continue;
		forget_ring(model->launches.streams.data, first);
		any = true;
	}
	return any;
}
