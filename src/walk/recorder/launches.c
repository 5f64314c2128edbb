/* SPDX-License-Identifier: Apache-2.0 */
#include "walk/recorder/launches.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "target/live.h"

#define MAX_NAMES (UINT32_C(1) << 20)
#define LAST 8 /* of a stream of which everything has ended */

struct reader {
	struct vt_memsrc *src;
	struct vt_recorder_launches_pass *pass;
	char *names; /* a copy, with a terminator at its end */
	uint32_t n_names;
	struct vt_recorder_launch *ring;
};

bool vt_recorder_launch_stream_is(const struct vt_recorder_launch_stream *s)
{
	return s->key && s->ready == 1;
}

/* A wait may end, and more be launched, while we read: then what is between ended. */
static uint64_t first_wanted(const struct vt_recorder_launch_stream *s)
{
	uint64_t launches = vt_recorder_stream_launches(s);
	uint64_t first = s->done < launches ? s->done + 1 :
			 launches > LAST    ? launches - LAST + 1 :
					      1;
	uint64_t oldest = launches > VT_LAUNCH_RING ? launches - VT_LAUNCH_RING + 1 : 1;

	return first > oldest ? first : oldest;
}

/*
 * Names stand one behind the other, so one begins behind the end of another: then all that differ
 * are together no longer than the table.
 */
static const char *name_of(const struct reader *r, const struct vt_recorder_launch *record)
{
	uint32_t at = record->name - 1;

	return record->name && at < r->n_names && (!at || !r->names[at - 1]) ? r->names + at : NULL;
}

static bool is_record(const struct vt_recorder_launch *record, uint64_t number)
{
	return record->number_state >> VT_LAUNCH_STATE_BITS == number && record->kind &&
	       record->kind < VT_N_LAUNCH_KINDS &&
	       record->check == vt_recorder_launch_check(record);
}

/*
 * One that is torn is read once more; one that has been replaced by a later one is not kept any
 * more.
 */
static bool read_record(struct reader *r, const struct vt_recorder_launch_stream *s,
			uint64_t number, struct vt_recorder_launch *record)
{
	uint64_t slot = (number - 1) % VT_LAUNCH_RING;

	*record = r->ring[slot];
	for (int try = 0; try < 3; try++) {
		if (is_record(record, number))
			return true;
		if (record->number_state >> VT_LAUNCH_STATE_BITS > number ||
		    vt_mem_read(r->src, s->ring + slot * sizeof(*record), record, sizeof(*record)))
			return false;
	}
	/* With another number it is not written yet: its launch has just begun. */
	r->pass->n_damaged += record->number_state >> VT_LAUNCH_STATE_BITS == number;
	return false;
}

static struct vt_error *read_list(struct reader *r, struct vt_recorder_launch_list *list)
{
	const struct vt_recorder_launch_stream *s = &list->stream;
	uint64_t launches = vt_recorder_stream_launches(s);
	uint64_t first = first_wanted(s), done = s->done < launches ? s->done : launches;
	int ret;

	list->n_unkept = launches - done;
	if (!launches || !s->ring)
		return NULL;
	ret = vt_mem_read(r->src, s->ring, r->ring, VT_LAUNCH_RING * sizeof(*r->ring));
	if (ret == -ESRCH)
		return vt_mem_error(r->src, ret, "the recorder's launches");
	if (ret) {
		r->pass->n_damaged++;
		return NULL;
	}
	list->launches =
		vt_arena_alloc(&r->pass->arena, (launches - first + 1) * sizeof(*list->launches));
	if (!list->launches)
		return &vt_enomem;
	for (uint64_t number = first; number <= launches; number++) {
		struct vt_recorder_launched *to = &list->launches[list->n];

		if (!read_record(r, s, number, &to->record))
			continue;
		to->number = number;
		to->state = to->record.number_state & ((1 << VT_LAUNCH_STATE_BITS) - 1);
		list->n++;
		list->n_unkept -= number > done;
	}
	return NULL;
}

static struct vt_error *read_names(struct reader *r, const struct vt_recorder_launches *l)
{
	uint32_t n = l->names_n < l->names_room ? l->names_n : l->names_room;
	int ret;

	if (n > MAX_NAMES)
		n = MAX_NAMES;
	r->names = vt_arena_alloc(&r->pass->arena, (size_t)n + 1);
	if (!r->names)
		return &vt_enomem;
	ret = n ? vt_mem_read(r->src, l->names, r->names, n) : 0;
	if (ret == -ESRCH)
		return vt_mem_error(r->src, ret, "the recorder's names of kernels");
	r->names[n] = '\0';
	r->n_names = ret ? 0 : n;
	return NULL;
}

static void give_names(const struct reader *r)
{
	for (size_t i = 0; i < r->pass->streams.n; i++) {
		struct vt_recorder_launch_list *list = &r->pass->streams.data[i];

		for (size_t k = 0; k < list->n; k++)
			list->launches[k].name = name_of(r, &list->launches[k].record);
	}
}

static struct vt_error *read_streams(struct reader *r, const struct vt_recorder_launches *l)
{
	VT_FREE struct vt_recorder_launch_stream *streams =
		malloc(VT_LAUNCH_STREAMS * sizeof(*streams));
	int ret;

	if (!streams)
		return &vt_enomem;
	ret = vt_mem_read(r->src, l->streams, streams, VT_LAUNCH_STREAMS * sizeof(*streams));
	if (ret == -ESRCH)
		return vt_mem_error(r->src, ret, "the recorder's streams");
	if (ret) {
		r->pass->unread = true;
		return NULL;
	}
	for (size_t i = 0; i < VT_LAUNCH_STREAMS; i++) {
		struct vt_recorder_launch_list *list;

		if (!vt_recorder_launch_stream_is(&streams[i]))
			continue;
		list = vt_vec_append(&r->pass->streams);
		if (!list)
			return &vt_enomem;
		*list = (struct vt_recorder_launch_list){ .stream = streams[i] };
		r->pass->total += vt_recorder_stream_launches(&streams[i]);
		VT_TRY(read_list(r, list));
	}
	return NULL;
}

static struct vt_error *read_state(struct vt_memsrc *src, uint64_t head_addr,
				   struct vt_recorder_launches *l)
{
	int ret = vt_mem_read(src, head_addr + offsetof(struct vt_recorder_head, launches), l,
			      sizeof(*l));

	return ret ? vt_mem_error(src, ret, "the recorder's launches") : NULL;
}

bool vt_recorder_launch_streams_read(struct vt_memsrc *src, uint64_t head_addr,
				     struct vt_recorder_launch_stream *streams)
{
	struct vt_recorder_launches l;
	uint64_t addr = head_addr + offsetof(struct vt_recorder_head, launches);

	return !vt_mem_read(src, addr, &l, sizeof(l)) && l.streams &&
	       !vt_mem_read(src, l.streams, streams, VT_LAUNCH_STREAMS * sizeof(*streams));
}

struct vt_error *vt_recorder_launches_read(struct vt_memsrc *src, uint64_t head_addr,
					   struct vt_recorder_launches_pass *pass)
{
	VT_FREE struct vt_recorder_launch *ring = malloc(VT_LAUNCH_RING * sizeof(*ring));
	struct reader r = { .src = src, .pass = pass, .ring = ring };
	struct vt_recorder_launches l;

	if (!ring)
		return &vt_enomem;
	VT_TRY(read_state(src, head_addr, &l));
	if (!l.streams)
		return NULL;
	pass->lost = l.lost;
	pass->n_words = l.n_words;
	pass->n_left = l.n_left;
	VT_TRY(read_streams(&r, &l));
	/* Afterwards: each name that a launch has is there by now. */
	VT_TRY(read_state(src, head_addr, &l));
	VT_TRY(read_names(&r, &l));
	give_names(&r);
	return NULL;
}

void vt_recorder_launches_deinit(struct vt_recorder_launches_pass *pass)
{
	vt_vec_deinit(&pass->streams);
	vt_arena_deinit(&pass->arena);
	*pass = (struct vt_recorder_launches_pass){ 0 };
}
