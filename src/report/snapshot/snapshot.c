/* SPDX-License-Identifier: Apache-2.0 */
#include "report/snapshot/snapshot.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "report/snapshot/internal.h"

/* ---- whether there is one ---- */

static const char *const no_blocks[VT_N_ALLOCATOR_STATES] = {
	[VT_ALLOCATOR_UNKNOWN] = "no allocator of PyTorch's was found",
	[VT_ALLOCATOR_NOT_LOADED] = "PyTorch's allocator is not loaded",
	[VT_ALLOCATOR_NOT_INITIALISED] = "PyTorch's allocator is not in use",
	[VT_ALLOCATOR_INHERITED] = "PyTorch's allocator was copied from the parent by fork()",
	[VT_ALLOCATOR_ASYNC] = "PyTorch uses cudaMallocAsync, which lists no blocks",
	[VT_ALLOCATOR_PLUGGABLE] = "PyTorch uses a pluggable allocator, which lists no blocks",
	[VT_ALLOCATOR_REFUSED] = "the layout of PyTorch's allocator is not understood",
};

struct vt_error *vt_snapshot_refuse(const void *what)
{
	const struct vt_model *model = what;
	static const char none[] = "no snapshot is written";

	if (no_blocks[model->torch_state])
		return vt_error_create(VT_ERR_UNSUPPORTED, "%s: %s", none,
				       no_blocks[model->torch_state]);
	if (!model->allocators.n)
		return vt_error_create(VT_ERR_NOTFOUND,
				       "%s: the blocks of PyTorch's allocator were not read", none);
	for (size_t i = 0; i < model->allocators.n; i++) {
		const struct vt_model_allocator *a = &model->allocators.data[i];

		if (!a->exact)
			return vt_error_create(
				VT_ERR_FORMAT,
				"%s: the blocks of GPU %d are not known for sure (%s)%s", none,
				a->device,
				*a->result.why ? a->result.why :
						 vt_walk_result_name(a->result.result),
				vt_try_again(model));
	}
	return NULL;
}

/* ---- segments ---- */

static const char *const states[] = {
	[VT_BLOCK_ALLOCATED] = "active_allocated",
	[VT_BLOCK_AWAITING_FREE] = "active_pending_free",
	[VT_BLOCK_CACHED] = "inactive",
};

/*
 * A block without "frames" and "requested_size" has the form of old releases, which recorded no
 * such sizes: readers take the block's own size.
 */
static void put_block(struct vt_snapshot *s, const struct vt_model_allocator *a, size_t i)
{
	const struct vt_block_rec *b = &s->model->blocks[i];

	vt_pickle_dict(s->pickle);
	vt_snapshot_number(s, "address", b->addr);
	vt_snapshot_number(s, "size", b->size);
	if (a->requested_known)
		vt_snapshot_number(s, "requested_size", b->requested);
	vt_snapshot_name(s, "state", states[b->state]);
	if (a->requested_known) {
		vt_pickle_name(s->pickle, "frames");
		vt_snapshot_frames(s, i);
	}
	vt_snapshot_owner(s, i);
	vt_pickle_end_dict(s->pickle);
}

struct sums {
	uint64_t total, allocated, active, requested;
};

static struct sums sum_up(const struct vt_model *model, size_t first, size_t end)
{
	struct sums sums = { 0 };

	for (size_t i = first; i < end; i++) {
		const struct vt_block_rec *b = &model->blocks[i];
		bool active = b->state != VT_BLOCK_CACHED;

		sums.total += b->size;
		sums.allocated += b->state == VT_BLOCK_ALLOCATED ? b->size : 0;
		sums.active += active ? b->size : 0;
		sums.requested += active ? b->requested : 0;
	}
	return sums;
}

static void put_sums(struct vt_snapshot *s, const struct vt_model_allocator *a, size_t first,
		     size_t end)
{
	struct sums sums = sum_up(s->model, first, end);

	vt_snapshot_number(s, "total_size", sums.total);
	vt_snapshot_number(s, "allocated_size", sums.allocated);
	vt_snapshot_number(s, "active_size", sums.active);
	if (a->requested_known)
		vt_snapshot_number(s, "requested_size", sums.requested);
}

static void put_segment(struct vt_snapshot *s, const struct vt_model_allocator *a, size_t first,
			size_t end)
{
	const struct vt_block_rec *head = &s->model->blocks[first];
	struct vt_pickle_list list = { 0 };

	vt_pickle_dict(s->pickle);
	vt_snapshot_number(s, "device", (uint64_t)a->device);
	vt_snapshot_number(s, "address", head->addr);
	put_sums(s, a, first, end);
	vt_snapshot_stream(s, head);
	vt_snapshot_name(s, "segment_type", head->flags & VT_BLOCK_SMALL_POOL ? "small" : "large");
	vt_snapshot_pool(s, "segment_pool_id", head);
	vt_pickle_name(s->pickle, "is_expandable");
	vt_pickle_bool(s->pickle, head->flags & VT_BLOCK_EXPANDABLE);
	vt_pickle_name(s->pickle, "frames");
	vt_snapshot_segment_frames(s, first);
	vt_pickle_name(s->pickle, "blocks");
	vt_pickle_list(s->pickle);
	for (size_t i = first; i < end; i++) {
		vt_pickle_item(s->pickle, &list);
		put_block(s, a, i);
	}
	vt_pickle_end_list(s->pickle, &list);
	vt_pickle_end_dict(s->pickle);
}

static void put_segments(struct vt_snapshot *s)
{
	struct vt_pickle_list list = { 0 };

	vt_pickle_name(s->pickle, "segments");
	vt_pickle_list(s->pickle);
	for (size_t i = 0; i < s->model->allocators.n; i++) {
		const struct vt_model_allocator *a = &s->model->allocators.data[i];
		size_t end = a->first_block + a->n_blocks, next;

		for (size_t first = a->first_block; first < end; first = next) {
			next = vt_model_segment_end(s->model, first, end);
			if (s->model->blocks[first].state == VT_BLOCK_UNMAPPED)
				continue;
			vt_pickle_item(s->pickle, &list);
			put_segment(s, a, first, next);
		}
	}
	vt_pickle_end_list(s->pickle, &list);
}

/* ---- the rest ---- */

static bool is_lost(uint32_t trace)
{
	return trace == VT_UNTRACED(VT_UNTRACED_CHANGED) ||
	       trace == VT_UNTRACED(VT_UNTRACED_UNREADABLE);
}

/*
 * How many segments and blocks have a recorded backtrace that could not be read: without frames
 * they look like what nothing was recorded of.
 */
static void put_missing(struct vt_snapshot *s)
{
	const struct vt_model *model = s->model;
	uint64_t segments = 0, blocks = 0;

	for (size_t i = 0; i < model->n_blocks; i++) {
		segments += model->segment_traces && is_lost(model->segment_traces[i]);
		blocks += model->block_traces && is_lost(model->block_traces[i]);
	}
	if (segments)
		vt_snapshot_number(s, "segments_without_their_frames", segments);
	if (blocks)
		vt_snapshot_number(s, "blocks_without_their_frames", blocks);
}

/* Where the file is from. */
static void put_origin(struct vt_snapshot *s)
{
	const struct vt_model *model = s->model;

	vt_pickle_name(s->pickle, "vramtap");
	vt_pickle_dict(s->pickle);
	vt_snapshot_name(s, "version", model->tool_version ? model->tool_version : "");
	vt_snapshot_name(s, "torch", model->versions.torch ? model->versions.torch : "");
	vt_snapshot_name(s, "process", model->process.name ? model->process.name : "");
	vt_snapshot_number(s, "pid", (uint64_t)model->process.pid);
	vt_pickle_name(s->pickle, "time_us");
	vt_pickle_int(s->pickle,
		      (int64_t)model->when.tv_sec * 1000000 + model->when.tv_nsec / 1000);
	put_missing(s);
	vt_pickle_end_dict(s->pickle);
}

static void put_snapshot(struct vt_snapshot *s)
{
	vt_pickle_dict(s->pickle);
	put_segments(s);
	vt_snapshot_events(s);
	put_origin(s);
	vt_pickle_end_dict(s->pickle);
}

struct vt_error *vt_write_report_snapshot(const void *what, const struct vt_writer_options *options,
					  FILE *out)
{
	const struct vt_model *model = what;
	VT_FREE struct vt_pickle *pickle = malloc(sizeof(*pickle));
	size_t n_frames = model->segment_only.n ? model->n_segment_frames : model->n_trace_frames;
	VT_FREE uint32_t *frames = calloc(n_frames + 1, sizeof(*frames));
	VT_FREE uint32_t *traces = calloc(model->traces.n + 1, sizeof(*traces));
	VT_FREE uint32_t *segment_only = calloc(model->segment_only.n + 1, sizeof(*segment_only));
	struct vt_snapshot s = { .model = model,
				 .pickle = pickle,
				 .frames = frames,
				 .n_frames = n_frames,
				 .traces = traces,
				 .segment_only = segment_only };
	struct vt_error *err;

	(void)options; /* options are for text */
	if (!pickle || !frames || !traces || !segment_only)
		return &vt_enomem;
	vt_pickle_init(pickle, out);
	put_snapshot(&s);
	err = vt_pickle_finish(pickle);
	vt_pickle_deinit(pickle);
	return err;
}
