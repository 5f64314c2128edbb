/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "device_traces": for each device what happened, in order. PyTorch's own history is not read.
 * vramtap's recorder knows when a block in use was allocated: that is an event, and true. What has
 * been freed since is not among the events, as in a history that began later.
 */
#include <stdlib.h>

#include "base/cleanup.h"
#include "report/snapshot/internal.h"

#define NS_PER_US 1000
#define US_PER_S 1000000

struct event {
	uint64_t age_ns;
	size_t block;
};

/* The oldest first; at one time, by address. */
static int compare_events(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	if (x->age_ns != y->age_ns)
		return x->age_ns > y->age_ns ? -1 : 1;
	return (x->block > y->block) - (x->block < y->block);
}

static void put_time(struct vt_snapshot *s, uint64_t age_ns)
{
	const struct timespec *to = &s->model->recorder.ages_to;

	if (!to->tv_sec)
		return; /* not known: a core's */
	vt_pickle_name(s->pickle, "time_us");
	vt_pickle_int(s->pickle, (int64_t)to->tv_sec * US_PER_S + to->tv_nsec / NS_PER_US -
					 (int64_t)(age_ns / NS_PER_US));
}

static void put_event(struct vt_snapshot *s, const struct event *event)
{
	const struct vt_block_rec *b = &s->model->blocks[event->block];

	vt_pickle_dict(s->pickle);
	vt_snapshot_name(s, "action", "alloc");
	vt_snapshot_number(s, "addr", b->addr);
	vt_snapshot_number(s, "size", b->requested ? b->requested : b->size);
	vt_snapshot_stream(s, b);
	put_time(s, event->age_ns);
	vt_snapshot_pool(s, "pool_id", b);
	vt_pickle_name(s->pickle, "frames");
	vt_snapshot_frames(s, event->block);
	vt_snapshot_owner(s, event->block);
	vt_pickle_end_dict(s->pickle);
}

static size_t find_events(const struct vt_snapshot *s, int device, struct event *events)
{
	size_t n = 0;

	for (size_t i = 0; i < s->model->n_blocks; i++) {
		const struct vt_block_rec *b = &s->model->blocks[i];
		const struct vt_model_record *record = vt_model_block_record(s->model, i);

		if (record && b->device == device && b->state <= VT_BLOCK_AWAITING_FREE)
			events[n++] = (struct event){ .age_ns = record->age_ns, .block = i };
	}
	qsort(events, n, sizeof(*events), compare_events);
	return n;
}

static void put_device(struct vt_snapshot *s, int device, struct event *events)
{
	size_t n = events ? find_events(s, device, events) : 0;
	struct vt_pickle_list list = { 0 };

	vt_pickle_list(s->pickle);
	for (size_t i = 0; i < n; i++) {
		vt_pickle_item(s->pickle, &list);
		put_event(s, &events[i]);
	}
	vt_pickle_end_list(s->pickle, &list);
}

/* Readers look devices up in the list: it has those before the last one, too. */
static int number_of_devices(const struct vt_model *model)
{
	int n = 0;

	for (size_t i = 0; i < model->allocators.n; i++)
		if (model->allocators.data[i].device >= n)
			n = model->allocators.data[i].device + 1;
	return n;
}

void vt_snapshot_events(struct vt_snapshot *s)
{
	int n = number_of_devices(s->model);
	bool recorded = s->model->block_records;
	VT_FREE struct event *events =
		recorded ? malloc((s->model->n_blocks + 1) * sizeof(*events)) : NULL;
	struct vt_pickle_list list = { 0 };

	if (recorded && !events) {
		vt_pickle_no_memory(s->pickle);
		return;
	}
	vt_pickle_name(s->pickle, "device_traces");
	vt_pickle_list(s->pickle);
	for (int i = 0; i < n; i++) {
		vt_pickle_item(s->pickle, &list);
		put_device(s, i, events);
	}
	vt_pickle_end_list(s->pickle, &list);
}
