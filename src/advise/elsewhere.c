/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is there, but that nobody can have who wants it. */
#include <inttypes.h>
#include <stdio.h>

#include "advise/internal.h"

#define WORTH(d) ((d)->total_bytes / 10)

/* ---- allocated beside PyTorch, by nobody who is known ---- */

/* Of what the recorder saw, the library with the most. */
static const char *library_of(const struct vt_model *model, int device)
{
	for (size_t i = 0; i < model->driver_groups.n; i++) {
		const struct vt_model_driver_group *g = &model->driver_groups.data[i];

		if (g->device == device && g->kind == VT_DRIVER_KIND_DEVICE)
			return g->library;
	}
	return NULL;
}

void vt_advise_raw(struct vt_advise *a)
{
	const struct vt_model *model = a->model;

	for (size_t i = 0; i < model->ledger.devices.n; i++) {
		const struct vt_model_ledger_device *l = &model->ledger.devices.data[i];
		const struct vt_model_line *raw = &l->kinds[VT_RANGE_DEVICE];
		const struct vt_model_device *d = vt_model_device(model, l->device);
		struct vt_model_advice *advice;
		const char *library;

		if (!d || !d->have_memory || !l->claims_known || raw->bytes < WORTH(d) ||
		    !vt_advise_was_short(model, l->device))
			continue;
		advice = vt_advise_add(a, l->device);
		library = library_of(model, l->device);
		vt_advise_number(advice, "raw_bytes", raw->bytes);
		vt_advise_number(advice, "raw_allocations", raw->ranges);
		vt_advise_number(advice, "largest_bytes", raw->largest);
		vt_advise_number(advice, "free_bytes", d->free_bytes);
		if (library)
			vt_advise_text(a, advice, "library", library);
		else if (vt_advise_is_live(model) && model->recorder.state == VT_RECORDING_NONE)
			vt_advise_command(a, advice, "vramtap record %d on",
					  (int)model->process.pid);
	}
}

/* ---- cached for a stream ---- */

#define MAX_STREAMS 64

struct streams {
	struct {
		uint64_t stream, bytes, largest;
	} of[MAX_STREAMS];
	size_t n;
};

static void add_hole(struct streams *streams, const struct vt_block_rec *block)
{
	size_t i = 0;

	while (i < streams->n && streams->of[i].stream != block->stream)
		i++;
	if (i == MAX_STREAMS)
		return;
	if (i == streams->n) {
		streams->of[i].stream = block->stream;
		streams->of[i].bytes = streams->of[i].largest = 0;
		streams->n++;
	}
	streams->of[i].bytes += block->size;
	if (block->size > streams->of[i].largest)
		streams->of[i].largest = block->size;
}

/*
 * Whole segments that nobody uses are given back before a request fails, of all streams. So only
 * the holes of the others count.
 */
static void add_segment(struct streams *streams, const struct vt_block_rec *blocks, size_t n)
{
	bool used = false;

	for (size_t i = 0; i < n; i++)
		used |= blocks[i].state == VT_BLOCK_ALLOCATED ||
			blocks[i].state == VT_BLOCK_AWAITING_FREE;
	for (size_t i = 0; used && i < n; i++)
		if (blocks[i].state == VT_BLOCK_CACHED && blocks[i].stream &&
		    !(blocks[i].flags & VT_BLOCK_PRIVATE_POOL))
			add_hole(streams, &blocks[i]);
}

static struct streams find_streams(const struct vt_model *model,
				   const struct vt_model_allocator *allocator)
{
	size_t end = allocator->first_block + allocator->n_blocks;
	struct streams streams = { .n = 0 };

	for (size_t i = allocator->first_block, next; i < end; i = next) {
		next = vt_model_segment_end(model, i, end);
		add_segment(&streams, model->blocks + i, next - i);
	}
	return streams;
}

static void advise_streams(struct vt_advise *a, const struct vt_model_allocator *allocator)
{
	const struct vt_model_device *d = vt_model_device(a->model, allocator->device);
	struct streams streams;
	struct vt_model_advice *advice;
	char name[32];
	size_t most = 0;

	if (!d || !d->have_memory || !vt_advise_was_short(a->model, d->ordinal))
		return;
	streams = find_streams(a->model, allocator);
	for (size_t i = 1; i < streams.n; i++)
		if (streams.of[i].bytes > streams.of[most].bytes)
			most = i;
	if (!streams.n || streams.of[most].bytes < WORTH(d))
		return;
	snprintf(name, sizeof(name), "0x%" PRIx64, streams.of[most].stream);
	advice = vt_advise_add(a, d->ordinal);
	vt_advise_text(a, advice, "stream", name);
	vt_advise_number(advice, "stream_cached_bytes", streams.of[most].bytes);
	vt_advise_number(advice, "largest_hole_bytes", streams.of[most].largest);
	vt_advise_number(advice, "free_bytes", d->free_bytes);
}

/* Where the request that failed is known, the rule "elsewhere" knows more. */
void vt_advise_stream_cache(struct vt_advise *a)
{
	for (size_t i = 0; i < a->model->allocators.n && !a->model->caught.oom; i++)
		if (a->model->allocators.data[i].exact)
			advise_streams(a, &a->model->allocators.data[i]);
}

/* ---- pinned ---- */

#define MUCH_PINNED (UINT64_C(1) << 30)

/* PyTorch never gives pinned memory back by itself, and neither the host nor others can have it. */
void vt_advise_pinned_cache(struct vt_advise *a)
{
	const struct vt_model_pinned *p = &a->model->pinned;
	const struct vt_model_amount *cached = &p->states[VT_BLOCK_CACHED];
	struct vt_model_advice *advice;

	if (!p->exact || cached->bytes < MUCH_PINNED || cached->bytes < p->total.bytes / 2)
		return;
	advice = vt_advise_add(a, -1);
	vt_advise_number(advice, "cached_bytes", cached->bytes);
	vt_advise_number(advice, "cached_blocks", cached->blocks);
	vt_advise_number(advice, "largest_bytes", p->largest_cached);
	vt_advise_number(advice, "pinned_bytes", p->total.bytes);
	if (vt_advise_is_live(a->model))
		vt_advise_command(a, advice, "vramtap relieve %d --trim-pinned --dry-run",
				  (int)a->model->process.pid);
}
