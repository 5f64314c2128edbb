/* SPDX-License-Identifier: Apache-2.0 */
/* doc/relieve.schema.json describes the document. */
#include "json/out.h"
#include "relieve/words.h"
#include "relieve/write.h"

#define SCHEMA "vramtap-relieve/1"

static void put_refusal(struct vt_json *json, const struct vt_relieve_result *result)
{
	struct vt_str text = { 0 };

	if (result->outcome != VT_RELIEVE_REFUSED) {
		vt_json_null(json, "refused");
		return;
	}
	vt_relieve_add_why(&text, result);
	vt_json_object(json, "refused");
	vt_json_text(json, "code", vt_relieve_why_name(result->why));
	vt_json_text(json, "text", vt_str_get(&text));
	vt_json_known(json, "device", result->device);
	vt_json_known(json, "thread", result->tid ? result->tid : -1);
	vt_json_known(json, "cuda_error",
		      result->why == VT_RELIEF_DRIVER_ERROR ? result->answer.error : -1);
	vt_json_end_object(json);
	if (text.failed)
		vt_json_no_memory(json);
	vt_str_deinit(&text);
}

static void put_pair(struct vt_json *json, const char *key, bool known, uint64_t before,
		     uint64_t after)
{
	if (!known) {
		vt_json_null(json, key);
		return;
	}
	vt_json_object_line(json, key);
	vt_json_uint(json, "before", before);
	vt_json_uint(json, "after", after);
	vt_json_end_object(json);
}

static void put_part(struct vt_json *json, const char *key, const struct vt_diff_device *d,
		     enum vt_diff_part part)
{
	put_pair(json, key, d->known[part], d->parts[part].before.bytes,
		 d->parts[part].after.bytes);
}

static void put_reserved(struct vt_json *json, const struct vt_diff_device *d)
{
	uint64_t before = 0, after = 0;
	bool known = true;

	for (int part = VT_DIFF_ALLOCATED; part <= VT_DIFF_CACHED; part++) {
		known = known && d->known[part];
		before += d->parts[part].before.bytes;
		after += d->parts[part].after.bytes;
	}
	put_pair(json, "reserved_bytes", known, before, after);
}

static void put_device(struct vt_json *json, const struct vt_diff_device *d)
{
	vt_json_object(json, NULL);
	vt_json_int(json, "device", d->ordinal);
	put_part(json, "allocated_bytes", d, VT_DIFF_ALLOCATED);
	put_part(json, "awaiting_free_bytes", d, VT_DIFF_AWAITING);
	put_part(json, "cached_bytes", d, VT_DIFF_CACHED);
	put_reserved(json, d);
	put_part(json, "free_bytes", d, VT_DIFF_FREE);
	vt_json_object(json, "changed_lines");
	for (unsigned int i = 0; i < VT_N_DIFF_LINES; i++)
		if (d->line_known[i] && vt_diff_bytes(&d->lines[i]))
			put_pair(json, vt_diff_line_name(i), true, d->lines[i].before.bytes,
				 d->lines[i].after.bytes);
	vt_json_end_object(json);
	vt_json_end_object(json);
}

static void put_memory(struct vt_json *json, const struct vt_relieve_result *result)
{
	const struct vt_model_pinned *before = &result->before.pinned;
	const struct vt_model_pinned *after = &result->after.pinned;

	vt_json_array(json, "devices");
	for (size_t i = 0; result->have_after && i < result->diff.devices.n; i++)
		put_device(json, &result->diff.devices.data[i]);
	vt_json_end_array(json);
	put_pair(json, "pinned_bytes", result->have_after && before->sum_known && after->sum_known,
		 before->total.bytes, after->total.bytes);
	vt_json_name(json, "why_no_after", result->no_after);
}

static void put_wait(struct vt_json *json, const char *key, bool ended, double ms)
{
	if (ended)
		vt_json_milli(json, key, ms);
	else
		vt_json_null(json, key);
}

static void put_timing(struct vt_json *json, const struct vt_relieve_result *result)
{
	bool returned = result->answer.stage >= VT_RELIEF_RETURNED;

	vt_json_object(json, "timing");
	vt_json_milli(json, "total_ms", result->total_ms);
	put_wait(json, "gpu_wait_ms", !result->answer.in_driver,
		 (double)result->answer.gpu_wait_ns / 1e6);
	put_wait(json, "gil_wait_ms", result->gil_waited_ms >= 0, result->gil_waited_ms);
	put_wait(json, "call_ms", returned, (double)result->answer.call_ns / 1e6);
	vt_json_end_object(json);
}

struct vt_error *vt_relieve_write_json(const void *what, const struct vt_writer_options *options,
				       FILE *out)
{
	const struct vt_relieve_result *result = what;
	struct vt_json json;

	(void)options; /* those are for people */
	vt_json_init(&json, out);
	vt_json_object(&json, NULL);
	vt_json_text(&json, "schema", SCHEMA);
	vt_json_text(&json, "tool_version", result->before.tool_version);
	vt_json_int(&json, "pid", result->before.process.pid);
	vt_json_text(&json, "action", vt_relieve_action_name(result->request.what));
	vt_json_bool(&json, "dry_run", result->request.dry_run);
	vt_json_text(&json, "outcome", vt_relieve_outcome_name(result->outcome));
	put_refusal(&json, result);
	vt_json_known(&json, "collected_objects",
		      result->request.what == VT_RELIEF_COLLECT_GARBAGE ? result->answer.collected :
									  -1);
	vt_json_known(&json, "at_most_bytes", vt_relieve_at_most(result));
	vt_json_bool(&json, "gpu_asked", result->answer.asked_gpu);
	put_memory(&json, result);
	put_timing(&json, result);
	vt_json_end_object(&json);
	return vt_json_finish(&json);
}
