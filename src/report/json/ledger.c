/* SPDX-License-Identifier: Apache-2.0 */
#include "report/json/ledger.h"

#include <limits.h>

#define MAX_DEVICE 1023

/* "device" is its ordinal. */
static const char *line_name(unsigned int kind)
{
	return kind == VT_RANGE_DEVICE ? "device_memory" : vt_range_kind_name(kind);
}

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

static void write_local(struct vt_json *json, const struct vt_model_local_memory *local)
{
	if (!local->known) {
		vt_json_null(json, "local_memory");
		return;
	}
	vt_json_object_line(json, "local_memory");
	vt_json_uint(json, "bytes", local->bytes);
	vt_json_uint(json, "stack_bytes", local->stack_bytes);
	vt_json_uint(json, "multiprocessors", local->multiprocessors);
	vt_json_uint(json, "threads", local->threads);
	vt_json_end_object(json);
}

static void write_device(struct vt_json *json, const struct vt_model_ledger_device *d)
{
	vt_json_object(json, NULL);
	vt_json_int(json, "device", d->device);
	vt_json_bool(json, "pytorch_known", d->claims_known);
	write_claimed(json, d);
	for (unsigned int kind = 0; kind < VT_N_RANGE_KINDS; kind++)
		put_line(json, line_name(kind), &d->kinds[kind]);
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
	write_local(json, &d->local);
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
	if (ledger->fault)
		vt_json_int(json, "fault", ledger->fault);
	else
		vt_json_null(json, "fault");
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

/* ---- reading ---- */

static uint64_t uint_or_0(struct vt_json_in *in, const struct vt_json_value *from, const char *key)
{
	uint64_t value = 0;

	vt_json_in_uint(in, from, key, &value);
	return value;
}

static struct vt_model_line load_line(struct vt_json_in *in, const struct vt_json_value *from)
{
	return (struct vt_model_line){ .bytes = vt_json_in_need_uint(in, from, "bytes"),
				       .asked = vt_json_in_need_uint(in, from, "asked_bytes"),
				       .ranges = vt_json_in_need_uint(in, from, "ranges"),
				       .largest = vt_json_in_need_uint(in, from, "largest_bytes") };
}

static struct vt_model_line load_named(struct vt_json_in *in, const struct vt_json_value *from,
				       const char *key)
{
	return load_line(in, vt_json_in_object(in, from, key));
}

/* A claimer that the file's version does not know has nothing. */
static void load_claimed(struct vt_json_in *in, const struct vt_json_value *from,
			 struct vt_model_ledger_device *d)
{
	const struct vt_json_value *claimed = vt_json_in_object(in, from, "claimed");

	for (unsigned int i = 0; i < VT_N_CLAIMERS; i++) {
		const struct vt_json_value *one =
			vt_json_in_object(in, claimed, vt_claimer_name(i));

		if (!one)
			continue;
		d->claimed[i] = load_line(in, one);
		d->unmapped_bytes[i] = uint_or_0(in, one, "without_memory_bytes");
	}
}

static void load_local(struct vt_json_in *in, const struct vt_json_value *from,
		       struct vt_model_local_memory *local)
{
	const struct vt_json_value *one = vt_json_in_object(in, from, "local_memory");

	if (!one)
		return;
	local->known = true;
	local->bytes = vt_json_in_need_uint(in, one, "bytes");
	local->stack_bytes = vt_json_in_need_uint(in, one, "stack_bytes");
	local->multiprocessors = vt_json_in_need_uint(in, one, "multiprocessors");
	local->threads = vt_json_in_need_uint(in, one, "threads");
}

static void load_device(struct vt_json_in *in, const struct vt_json_value *from,
			struct vt_model_ledger *ledger)
{
	struct vt_model_ledger_device *d = vt_vec_append(&ledger->devices);

	if (!d) {
		in->nomem = true;
		return;
	}
	*d = (struct vt_model_ledger_device){ 0 };
	vt_json_in_int(in, from, "device", 0, MAX_DEVICE, &d->device);
	d->claims_known = vt_json_in_need_bool(in, from, "pytorch_known");
	load_claimed(in, from, d);
	for (unsigned int kind = 0; kind < VT_N_RANGE_KINDS; kind++)
		d->kinds[kind] = load_named(in, from, line_name(kind));
	d->shareable = load_named(in, from, "shareable");
	d->recorded = load_named(in, from, "recorded");
	d->graph_known = vt_json_in_uint(in, from, "graphs_in_use_bytes", &d->graph_used_bytes);
	d->found_bytes = vt_json_in_need_uint(in, from, "found_bytes");
	d->rest_known = vt_json_in_uint(in, from, "rest_bytes", &d->rest_bytes);
	d->own_rest_known = vt_json_in_uint(in, from, "rest_of_process_bytes", &d->own_rest_bytes);
	load_local(in, from, &d->local);
}

static unsigned int claimer_in(struct vt_json_in *in, const struct vt_json_value *from)
{
	return vt_json_in_text(in, from, "claimed_by") ?
		       vt_json_in_word(in, from, "claimed_by", vt_claimer_name, VT_N_CLAIMERS) :
		       VT_CLAIMER_PYTORCH;
}

static void load_range(struct vt_json_in *in, const struct vt_json_value *from,
		       struct vt_model_ledger *ledger)
{
	struct vt_model_range *range = vt_vec_append(&ledger->ranges);
	int device = 0;

	if (!range) {
		in->nomem = true;
		return;
	}
	*range = (struct vt_model_range){ .recorded = VT_NOT_RECORDED };
	range->rec.start = vt_json_in_need_hex(in, from, "address");
	range->rec.size = vt_json_in_need_uint(in, from, "bytes");
	range->rec.kind =
		(uint8_t)vt_json_in_word(in, from, "kind", vt_range_kind_name, VT_N_RANGE_KINDS);
	vt_json_in_int(in, from, "device", -2, MAX_DEVICE, &device);
	range->rec.device = device;
	range->counted_bytes = vt_json_in_need_uint(in, from, "counted_bytes");
	range->claimed_bytes = vt_json_in_need_uint(in, from, "claimed_bytes");
	range->claimer = (uint8_t)claimer_in(in, from);
	vt_json_in_hex(in, from, "memory_address", &range->rec.mapping);
	range->rec.physical = vt_json_in_need_uint(in, from, "memory_bytes");
	vt_json_in_hex(in, from, "memory_number", &range->rec.block);
	vt_json_in_hex(in, from, "pool", &range->rec.pool);
	range->rec.exportable = vt_json_in_need_bool(in, from, "shareable");
}

static void load_pool(struct vt_json_in *in, const struct vt_json_value *from,
		      struct vt_model_ledger *ledger)
{
	struct vt_model_ledger_pool *pool = vt_vec_append(&ledger->pools);

	if (!pool) {
		in->nomem = true;
		return;
	}
	*pool = (struct vt_model_ledger_pool){ .handle = vt_json_in_need_hex(in, from, "pool") };
	vt_json_in_int(in, from, "device", 0, MAX_DEVICE, &pool->device);
	pool->known = vt_json_in_uint(in, from, "reserved_bytes", &pool->reserved_bytes) &&
		      vt_json_in_uint(in, from, "used_bytes", &pool->used_bytes);
}

static void load_each(struct vt_json_in *in, const struct vt_json_value *from, const char *key,
		      struct vt_model_ledger *ledger,
		      void (*load)(struct vt_json_in *in, const struct vt_json_value *from,
				   struct vt_model_ledger *ledger))
{
	const struct vt_json_value *array = vt_json_in_array(in, from, key);

	for (size_t i = 0; i < vt_json_count(array) && !in->nomem; i++)
		load(in, vt_json_in_element(in, array, i, key), ledger);
}

void vt_json_in_ledger(struct vt_json_in *in, const struct vt_json_value *root,
		       struct vt_model_ledger *ledger)
{
	const struct vt_json_value *from = vt_json_in_object(in, root, "ledger");
	int fault = 0;

	if (!from)
		return;
	ledger->known = true;
	ledger->whole = vt_json_in_need_bool(in, from, "whole");
	ledger->by_attributes = vt_json_in_need_bool(in, from, "after_fault");
	if (vt_json_in_int(in, from, "fault", 0, INT_MAX, &fault))
		ledger->fault = fault;
	ledger->pools_asked = vt_json_in_need_bool(in, from, "pools_known");
	ledger->step_bytes = uint_or_0(in, from, "step_bytes");
	ledger->probes = uint_or_0(in, from, "probes");
	ledger->dropped = (size_t)uint_or_0(in, from, "dropped");
	vt_json_in_real(in, from, "inside_ms", &ledger->inside_ms);
	vt_json_in_real(in, from, "total_ms", &ledger->total_ms);
	load_each(in, from, "devices", ledger, load_device);
	load_each(in, from, "pools", ledger, load_pool);
	load_each(in, from, "ranges", ledger, load_range);
}
