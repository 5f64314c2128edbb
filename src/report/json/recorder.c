/* SPDX-License-Identifier: Apache-2.0 */
#include "report/json/recorder.h"

#include <math.h>

#include "base/clock.h"
#include "report/json/launches.h"
#include "report/state_words.h"

static double seconds(uint64_t age_ns)
{
	return age_ns == VT_NO_AGE ? NAN : (double)age_ns / (double)VT_NS_PER_S;
}

void vt_json_ages(struct vt_json *json, const struct vt_model_ages *ages)
{
	vt_json_milli(json, "oldest_age_s", seconds(ages->oldest_ns));
	vt_json_milli(json, "newest_age_s", seconds(ages->newest_ns));
}

static void put_thread(struct vt_json *json, pid_t tid, const char *name)
{
	vt_json_int(json, "tid", tid);
	vt_json_name(json, "thread", name);
}

void vt_json_record(struct vt_json *json, const struct vt_model_record *record)
{
	vt_json_milli(json, "age_s", seconds(record->age_ns));
	put_thread(json, record->tid, record->thread);
}

static void put_device(struct vt_json *json, int device)
{
	if (device < 0)
		vt_json_null(json, "device");
	else
		vt_json_int(json, "device", device);
}

static void put_backtrace(struct vt_json *json, const struct vt_model *model, uint32_t trace)
{
	if (trace < model->traces.n)
		vt_json_uint(json, "backtrace", trace);
	else
		vt_json_null(json, "backtrace");
}

static void write_driver_block(struct vt_json *json, const struct vt_model *model,
			       const struct vt_model_driver_block *b)
{
	vt_json_object_line(json, NULL);
	vt_json_hex(json, "address", b->addr);
	vt_json_uint(json, "bytes", b->size);
	vt_json_text(json, "kind", vt_driver_kind_name(b->kind));
	put_device(json, b->device);
	vt_json_hex(json, "stream", b->stream);
	vt_json_bool(json, "of_pytorch", b->of_pytorch);
	vt_json_record(json, &b->record);
	put_backtrace(json, model, b->trace);
	vt_json_end_object(json);
}

static void write_driver_group(struct vt_json *json, const struct vt_model *model,
			       const struct vt_model_driver_group *g)
{
	vt_json_object_line(json, NULL);
	vt_json_text(json, "library", g->library);
	vt_json_text(json, "kind", vt_driver_kind_name(g->kind));
	vt_json_bool(json, "device_memory", g->on_device);
	put_device(json, g->device);
	vt_json_uint(json, "bytes", g->bytes);
	vt_json_uint(json, "blocks", g->blocks);
	vt_json_uint(json, "largest_bytes", g->largest);
	vt_json_ages(json, &g->ages);
	if (g->title)
		vt_json_uint(json, "title", (uint64_t)(g->title - model->trace_frames));
	else
		vt_json_null(json, "title");
	vt_json_end_object(json);
}

static void write_driver(struct vt_json *json, const struct vt_model *model)
{
	const struct vt_model_recorder *r = &model->recorder;

	vt_json_object(json, "driver");
	vt_json_text(json, "seen_by", r->driver);
	vt_json_uint(json, "allocations", r->driver_allocations);
	vt_json_uint(json, "frees", r->driver_frees);
	vt_json_array(json, "groups");
	for (size_t i = 0; i < model->driver_groups.n; i++)
		write_driver_group(json, model, &model->driver_groups.data[i]);
	vt_json_end_array(json);
	vt_json_array(json, "blocks");
	for (size_t i = 0; i < model->driver_blocks.n; i++)
		write_driver_block(json, model, &model->driver_blocks.data[i]);
	vt_json_end_array(json);
	vt_json_end_object(json);
}

static void write_oom(struct vt_json *json, const struct vt_model *model,
		      const struct vt_model_oom *oom)
{
	vt_json_object_line(json, NULL);
	vt_json_uint(json, "number", oom->number);
	vt_json_text(json, "kind", oom->of_pytorch ? "pytorch" : "driver");
	/*
	 * A program may request any size, even -1; diff and most JSON readers take at most 63 bits.
	 */
	vt_json_uint(json, "requested_bytes",
		     oom->requested < INT64_MAX ? oom->requested : INT64_MAX);
	vt_json_milli(json, "age_s", seconds(oom->age_ns));
	put_thread(json, oom->tid, oom->thread);
	put_device(json, oom->device);
	if (oom->total_bytes) {
		vt_json_uint(json, "free_bytes", oom->free_bytes);
		vt_json_uint(json, "total_bytes", oom->total_bytes);
	} else {
		vt_json_null(json, "free_bytes");
		vt_json_null(json, "total_bytes");
	}
	vt_json_int(json, "error", oom->error);
	vt_json_milli(json, "waited_ms", (double)oom->waited_ns / (double)VT_NS_PER_MS);
	put_backtrace(json, model, oom->trace);
	vt_json_end_object(json);
}

static void put_frames(struct vt_json *json, const struct vt_model_recorder *r)
{
	vt_json_array_line(json, "frames");
	if (r->python)
		vt_json_text(json, NULL, "python");
	if (r->native)
		vt_json_text(json, NULL, "native");
	vt_json_end_array(json);
}

void vt_json_recorder(struct vt_json *json, const struct vt_model *model)
{
	const struct vt_model_recorder *r = &model->recorder;

	if (!r->state) {
		vt_json_null(json, "recorder");
		return;
	}
	vt_json_object(json, "recorder");
	vt_json_text(json, "state", vt_recording_words(r->state));
	vt_json_text(json, "state_code", vt_recording_code(r->state));
	vt_json_milli(json, "on_for_s", seconds(r->on_ns));
	vt_json_text(json, "ages_from", r->since_last ? "last-record" : "report");
	put_frames(json, r);
	vt_json_uint(json, "sample_bytes", r->sample_bytes);
	vt_json_uint(json, "sample_now_bytes", r->sample_now_bytes);
	vt_json_uint(json, "memory_bytes", r->memory_bytes);
	vt_json_uint(json, "max_memory_bytes", r->max_memory_bytes);
	vt_json_uint(json, "allocations", r->allocations);
	vt_json_uint(json, "lost", r->lost);
	vt_json_uint(json, "evicted", r->evicted);
	vt_json_uint(json, "stacks_dropped", r->stacks_dropped);
	vt_json_object_line(json, "history_agreement");
	vt_json_uint(json, "compared_blocks", r->compared);
	vt_json_uint(json, "differing_blocks", r->differing);
	vt_json_end_object(json);
	write_driver(json, model);
	vt_json_array(json, "out_of_memory");
	for (size_t i = 0; i < model->ooms.n; i++)
		write_oom(json, model, &model->ooms.data[i]);
	vt_json_end_array(json);
	vt_json_launches(json, model);
	vt_json_end_object(json);
}

void vt_json_headlines(struct vt_json *json, const struct vt_model_headline *headlines, size_t n)
{
	vt_json_array(json, "headlines");
	for (size_t i = 0; i < n; i++) {
		vt_json_object_line(json, NULL);
		vt_json_text(json, "code", headlines[i].code);
		vt_json_bool(json, "alarm", headlines[i].alarm);
		vt_json_text(json, "text", headlines[i].text);
		vt_json_end_object(json);
	}
	vt_json_end_array(json);
}

const char *vt_json_untraced_key(enum vt_untraced why)
{
	static const char *const keys[VT_N_UNTRACED] = {
		[VT_UNTRACED_NOT_RECORDED] = "not_recorded", [VT_UNTRACED_CHANGED] = "changed",
		[VT_UNTRACED_UNREADABLE] = "unreadable",     [VT_UNTRACED_SAMPLED] = "sampled",
		[VT_UNTRACED_NO_STACK] = "no_stack",         [VT_UNTRACED_UNSEEN] = "unseen",
	};

	return keys[why];
}
