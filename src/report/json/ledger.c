/* SPDX-License-Identifier: Apache-2.0 */
#include "report/json/ledger.h"

static void put_line_members(struct vt_json *json, const struct vt_model_line *line)
{
	vt_json_uint(json, "bytes", line->bytes);
	vt_json_uint(json, "asked_bytes", line->asked);
	vt_json_uint(json, "ranges", line->ranges);
	vt_json_uint(json, "largest_bytes", line->largest);
}

static void put_line(struct vt_json *json, const char *key, const struct vt_model_line *line)
{
	vt_json_object_line(json, key);
	put_line_members(json, line);
	vt_json_end_object(json);
}

static void write_claimed(struct vt_json *json, const struct vt_model_ledger_device *d)
{
	vt_json_object(json, "claimed");
	for (unsigned int i = 0; i < VT_N_CLAIMERS; i++) {
		vt_json_object_line(json, vt_claimer_name(i));
		put_line_members(json, &d->claimed[i]);
		vt_json_uint(json, "without_memory_bytes", d->unmapped_bytes[i]);
		vt_json_end_object(json);
	}
	vt_json_end_object(json);
}

static void write_device(struct vt_json *json, const struct vt_model_ledger_device *d)
{
	vt_json_object(json, NULL);
	vt_json_int(json, "device", d->device);
	vt_json_bool(json, "pytorch_known", d->claims_known);
	write_claimed(json, d);
	for (unsigned int kind = 0; kind < VT_N_RANGE_KINDS; kind++)
		put_line(json, kind == VT_RANGE_DEVICE ? "device_memory" : vt_range_kind_name(kind),
			 &d->kinds[kind]);
	put_line(json, "shareable", &d->shareable);
	put_line(json, "recorded", &d->recorded);
	if (d->graph_known)
		vt_json_uint(json, "graphs_in_use_bytes", d->graph_used_bytes);
	else
		vt_json_null(json, "graphs_in_use_bytes");
	vt_json_uint(json, "found_bytes", d->found_bytes);
	if (d->rest_known)
		vt_json_uint(json, "rest_bytes", d->rest_bytes);
	else
		vt_json_null(json, "rest_bytes");
	if (d->own_rest_known)
		vt_json_uint(json, "rest_of_process_bytes", d->own_rest_bytes);
	else
		vt_json_null(json, "rest_of_process_bytes");
	vt_json_end_object(json);
}

static void write_pool(struct vt_json *json, const struct vt_model_ledger_pool *pool)
{
	vt_json_object_line(json, NULL);
	vt_json_hex(json, "pool", pool->handle);
	vt_json_int(json, "device", pool->device);
	if (pool->known) {
		vt_json_uint(json, "reserved_bytes", pool->reserved_bytes);
		vt_json_uint(json, "used_bytes", pool->used_bytes);
	} else {
		vt_json_null(json, "reserved_bytes");
		vt_json_null(json, "used_bytes");
	}
	vt_json_end_object(json);
}

static void put_hex_or_null(struct vt_json *json, const char *key, uint64_t value)
{
	if (value)
		vt_json_hex(json, key, value);
	else
		vt_json_null(json, key);
}

static void write_range(struct vt_json *json, const struct vt_model *model,
			const struct vt_model_range *range)
{
	const struct vt_range_rec *r = &range->rec;
	uint32_t trace = range->recorded < model->driver_blocks.n ?
				 model->driver_blocks.data[range->recorded].trace :
				 UINT32_MAX;

	vt_json_object_line(json, NULL);
	vt_json_hex(json, "address", r->start);
	vt_json_uint(json, "bytes", r->size);
	vt_json_text(json, "kind", vt_range_kind_name(r->kind));
	vt_json_int(json, "device", r->device);
	vt_json_uint(json, "counted_bytes", range->counted_bytes);
	vt_json_uint(json, "claimed_bytes", range->claimed_bytes);
	if (range->claimed_bytes)
		vt_json_text(json, "claimed_by", vt_claimer_name(range->claimer));
	else
		vt_json_null(json, "claimed_by");
	put_hex_or_null(json, "memory_address", r->physical ? r->mapping : 0);
	vt_json_uint(json, "memory_bytes", r->physical);
	put_hex_or_null(json, "memory_number", r->block);
	put_hex_or_null(json, "pool", r->pool);
	vt_json_bool(json, "shareable", r->exportable);
	if (trace < model->traces.n)
		vt_json_uint(json, "backtrace", trace);
	else
		vt_json_null(json, "backtrace");
	vt_json_end_object(json);
}

void vt_json_ledger(struct vt_json *json, const struct vt_model *model)
{
	const struct vt_model_ledger *ledger = &model->ledger;

	if (!ledger->known) {
		vt_json_null(json, "ledger");
		return;
	}
	vt_json_object(json, "ledger");
	vt_json_bool(json, "whole", ledger->whole);
	vt_json_bool(json, "after_fault", ledger->by_attributes);
	vt_json_bool(json, "pools_known", ledger->pools_asked);
	vt_json_uint(json, "step_bytes", ledger->step_bytes);
	vt_json_uint(json, "probes", ledger->probes);
	vt_json_uint(json, "dropped", ledger->dropped);
	vt_json_milli(json, "inside_ms", ledger->inside_ms);
	vt_json_milli(json, "total_ms", ledger->total_ms);
	vt_json_array(json, "devices");
	for (size_t i = 0; i < ledger->devices.n; i++)
		write_device(json, &ledger->devices.data[i]);
	vt_json_end_array(json);
	vt_json_array(json, "pools");
	for (size_t i = 0; i < ledger->pools.n; i++)
		write_pool(json, &ledger->pools.data[i]);
	vt_json_end_array(json);
	vt_json_array(json, "ranges");
	for (size_t i = 0; i < ledger->ranges.n; i++)
		write_range(json, model, &ledger->ranges.data[i]);
	vt_json_end_array(json);
	vt_json_end_object(json);
}
