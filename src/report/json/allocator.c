/* SPDX-License-Identifier: Apache-2.0 */
/* PyTorch's caching allocator of one device: totals, statistics, groups, segments with blocks. */
#include "report/json/allocator.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "model/awaiting.h"
#include "report/json/amount.h"
#include "report/json/owners.h"
#include "report/json/recorder.h"

static void put_pool(struct vt_json *json, bool is_private, bool is_small, bool expandable,
		     uint64_t pool)
{
	char id[32];

	vt_json_text(json, "pool", is_small ? "small" : "large");
	snprintf(id, sizeof(id), "%" PRIu32 ":%" PRIu32, (uint32_t)(pool >> 32), (uint32_t)pool);
	if (is_private)
		vt_json_text(json, "private_pool", pool ? id : "unknown");
	else
		vt_json_null(json, "private_pool");
	vt_json_bool(json, "expandable", expandable);
}

static void write_totals(struct vt_json *json, const struct vt_model_allocator *a)
{
	if (!a->exact) {
		vt_json_null(json, "totals");
		return;
	}
	vt_json_object(json, "totals");
	vt_json_uint(json, "segments", a->result.segments);
	vt_json_uint(json, "reserved_bytes", a->reserved_bytes);
	vt_json_amount(json, "allocated", a->allocated_bytes, a->allocated_blocks);
	vt_json_amount(json, "awaiting_free", a->awaiting_bytes, a->awaiting_blocks);
	vt_json_amount(json, "cached", a->cached_bytes, a->cached_blocks);
	vt_json_uint(json, "largest_cached_bytes", a->largest_cached);
	if (a->requested_known) {
		vt_json_uint(json, "requested_bytes", a->requested_bytes);
		vt_json_uint(json, "rounding_bytes", a->rounding_bytes);
	} else {
		vt_json_null(json, "requested_bytes");
		vt_json_null(json, "rounding_bytes");
	}
	vt_json_object(json, "private_pools");
	vt_json_uint(json, "bytes", a->private_bytes);
	vt_json_amount(json, "allocated", a->private_allocated_bytes, a->private_allocated_blocks);
	vt_json_amount(json, "cached", a->private_cached_bytes, a->private_cached_blocks);
	vt_json_end_object(json);
	if (a->other_known)
		vt_json_uint(json, "everything_else_bytes", a->other_bytes);
	else
		vt_json_null(json, "everything_else_bytes");
	vt_json_end_object(json);
}

static void write_wait(struct vt_json *json, const struct vt_model *model,
		       const struct vt_torch_wait *wait)
{
	const struct vt_model_stream *stream = vt_torch_wait_stream(model, wait);
	bool of_pool = wait->kind == VT_TORCH_STREAM_POOL;

	vt_json_object_line(json, NULL);
	vt_json_int(json, "device", wait->device);
	if (of_pool && !stream)
		vt_json_null(json, "handle");
	else
		vt_json_hex(json, "handle", of_pool ? stream->handle : wait->handle);
	vt_json_text(json, "kind",
		     vt_stream_kind_name(of_pool      ? VT_STREAM_IS_POOL :
					 wait->handle ? VT_STREAM_IS_EXTERNAL :
							VT_STREAM_IS_DEFAULT));
	if (of_pool) {
		vt_json_int(json, "priority", wait->priority);
		vt_json_uint(json, "number", wait->number);
	} else {
		vt_json_null(json, "priority");
		vt_json_null(json, "number");
	}
	vt_json_uint(json, "bytes", wait->bytes);
	vt_json_uint(json, "blocks", wait->blocks);
	vt_json_end_object(json);
}

static void write_waits(struct vt_json *json, const struct vt_model *model,
			const struct vt_model_allocator *a)
{
	const struct vt_torch_waits *waits = &a->result.waits;

	vt_json_object_line(json, "waits");
	vt_json_text(json, "state", vt_torch_waits_name(waits->state));
	vt_json_amount(json, "eventless", waits->eventless_bytes, waits->eventless_blocks);
	vt_json_array(json, "streams");
	for (size_t i = 0; i < waits->n; i++)
		write_wait(json, model, &waits->list[i]);
	vt_json_end_array(json);
	vt_json_end_object(json);
}

static void put_stat(struct vt_json *json, const char *key, const struct vt_torch_stat *s)
{
	vt_json_object_line(json, key);
	vt_json_int(json, "current", s->current);
	vt_json_int(json, "peak", s->peak);
	vt_json_int(json, "allocated", s->allocated);
	vt_json_int(json, "freed", s->freed);
	vt_json_end_object(json);
}

static void write_statistics(struct vt_json *json, const struct vt_model_allocator *a)
{
	const struct vt_torch_stats *s = &a->result.stats;

	if (!a->result.have_stats || a->result.result == VT_WALK_REFUSED) {
		vt_json_null(json, "statistics");
		return;
	}
	vt_json_object(json, "statistics");
	put_stat(json, "allocation", &s->allocation);
	put_stat(json, "segment", &s->segment);
	put_stat(json, "active", &s->active);
	put_stat(json, "inactive_split", &s->inactive_split);
	put_stat(json, "allocated_bytes", &s->allocated_bytes);
	put_stat(json, "reserved_bytes", &s->reserved_bytes);
	put_stat(json, "active_bytes", &s->active_bytes);
	put_stat(json, "inactive_split_bytes", &s->inactive_split_bytes);
	put_stat(json, "requested_bytes", &s->requested_bytes);
	vt_json_known(json, "alloc_retries", s->num_alloc_retries);
	vt_json_known(json, "ooms", s->num_ooms);
	vt_json_end_object(json);
}

static void write_groups(struct vt_json *json, const struct vt_model *model, int device)
{
	vt_json_array(json, "groups");
	for (size_t i = 0; i < model->groups.n; i++) {
		const struct vt_model_group *g = &model->groups.data[i];

		if (g->device != device)
			continue;
		vt_json_object_line(json, NULL);
		vt_json_uint(json, "bytes", g->bytes);
		vt_json_uint(json, "blocks", g->blocks);
		vt_json_uint(json, "block_bytes", g->size);
		vt_json_text(json, "state", vt_block_state_name(g->state));
		vt_json_hex(json, "stream", g->stream);
		put_pool(json, g->private_pool, g->small_pool, g->expandable, g->pool);
		vt_json_end_object(json);
	}
	vt_json_end_array(json);
}

static bool is_in_use(const struct vt_block_rec *b)
{
	return b->state == VT_BLOCK_ALLOCATED || b->state == VT_BLOCK_AWAITING_FREE || b->context;
}

static void write_block(struct vt_json *json, const struct vt_model *model, size_t i)
{
	const struct vt_block_rec *b = &model->blocks[i];
	const struct vt_model_trace *trace = vt_model_block_trace(model, i);
	const struct vt_model_record *record = vt_model_block_record(model, i);
	const struct vt_model_owner *owner = vt_model_owner(model, i);

	vt_json_object_line(json, NULL);
	vt_json_hex(json, "address", b->addr);
	vt_json_uint(json, "bytes", b->size);
	vt_json_text(json, "state", vt_block_state_name(b->state));
	if (vt_block_asked_for(b))
		vt_json_uint(json, "requested_bytes", vt_block_asked_for(b));
	if (b->context)
		vt_json_hex(json, "history", b->context);
	if (trace)
		vt_json_uint(json, "backtrace", model->block_traces[i]);
	else if (model->block_traces &&
		 model->block_traces[i] != VT_UNTRACED(VT_UNTRACED_NOT_RECORDED) && is_in_use(b))
		vt_json_text(
			json, "no_backtrace",
			vt_untraced_name((enum vt_untraced)(UINT32_MAX - model->block_traces[i])));
	if (record)
		vt_json_record(json, record);
	vt_json_hex(json, "object", b->object);
	if (owner)
		vt_json_owner(json, owner);
	vt_json_end_object(json);
}

static void write_blocks(struct vt_json *json, const struct vt_model *model, size_t first,
			 size_t end)
{
	vt_json_array(json, "blocks");
	for (size_t i = first; i < end; i++)
		write_block(json, model, i);
	vt_json_end_array(json);
}

const struct vt_json_blocks vt_json_blocks_plain = { .segment = write_blocks };

static void write_segment(struct vt_json *json, const struct vt_model *model, size_t first,
			  size_t end, const struct vt_json_blocks *blocks)
{
	const struct vt_block_rec *b = &model->blocks[first];
	uint64_t mapped = 0;

	for (size_t i = first; i < end; i++)
		if (model->blocks[i].state != VT_BLOCK_UNMAPPED)
			mapped += model->blocks[i].size;
	vt_json_object(json, NULL);
	vt_json_hex(json, "address", b->addr);
	vt_json_uint(json, "bytes", mapped);
	vt_json_hex(json, "stream", b->stream);
	put_pool(json, b->flags & VT_BLOCK_PRIVATE_POOL, b->flags & VT_BLOCK_SMALL_POOL,
		 b->flags & VT_BLOCK_EXPANDABLE, b->pool);
	blocks->segment(json, model, first, end);
	vt_json_end_object(json);
}

static void write_segments(struct vt_json *json, const struct vt_model *model,
			   const struct vt_model_allocator *a, const struct vt_json_blocks *blocks)
{
	size_t end = a->first_block + a->n_blocks, next;

	vt_json_array(json, "segments");
	for (size_t i = a->first_block; i < end; i = next) {
		next = vt_model_segment_end(model, i, end);
		write_segment(json, model, i, next, blocks);
	}
	vt_json_end_array(json);
}

void vt_json_allocator(struct vt_json *json, const struct vt_model *model,
		       const struct vt_model_allocator *a, const struct vt_json_blocks *blocks)
{
	size_t why_len = strnlen(a->result.why, sizeof(a->result.why));

	vt_json_object(json, NULL);
	vt_json_int(json, "device", a->device);
	vt_json_text(json, "method", vt_method_name(a->method));
	vt_json_text(json, "result", vt_walk_result_name(a->result.result));
	if (why_len)
		vt_json_textn(json, "why", a->result.why, why_len);
	else
		vt_json_null(json, "why");
	vt_json_name(json, "consistency", a->exact ? vt_consistency_name(a->consistency) : NULL);
	vt_json_uint(json, "passes", a->passes);
	vt_json_uint(json, "dropped_blocks", a->result.dropped);
	vt_json_object_line(json, "lock");
	vt_json_text(json, "state", vt_walk_lock_name(a->result.lock));
	if (a->result.owner_tid > 0)
		vt_json_int(json, "owner_tid", a->result.owner_tid);
	else
		vt_json_null(json, "owner_tid");
	vt_json_name(json, "owner_name", a->owner_name);
	vt_json_end_object(json);
	vt_json_uint(json, "walk_ns", a->result.walk_ns);
	vt_json_uint(json, "read_ns", a->result.read_ns);
	vt_json_hex(json, "object", a->result.allocator);
	write_totals(json, a);
	write_waits(json, model, a);
	write_statistics(json, a);
	write_groups(json, model, a->device);
	write_segments(json, model, a, blocks);
	vt_json_end_object(json);
}
