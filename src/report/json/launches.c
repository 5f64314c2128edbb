/* SPDX-License-Identifier: Apache-2.0 */
#include "report/json/launches.h"

#include "base/clock.h"
#include "model/stream_waits.h"

/* Of a stream: the first of those that may run, and the last ones. */
#define FIRST 64
#define LAST 16

static const char *const kinds[] = {
#define X(name, text) text,
	VT_LAUNCHED_KINDS(X)
#undef X
};

static const char *const fates[] = {
#define X(name, text) text,
	VT_LAUNCH_FATES(X)
#undef X
};

static void write_kernel(struct vt_json *json, const struct vt_model_launch *l)
{
	vt_json_uints(json, "grid", l->grid, 3);
	vt_json_uints(json, "block", l->block, 3);
	vt_json_uint(json, "shared_bytes", l->shared_bytes);
}

static void write_value(struct vt_json *json, const struct vt_model_launch *l)
{
	vt_json_hex(json, "value", l->value);
	vt_json_uint(json, "bits", l->bits);
	if (l->kind != VT_LAUNCHED_WAIT_VALUE)
		return;
	vt_json_text(json, "compare", vt_value_compare_name(l->compare));
	if (!l->there_known) {
		vt_json_null(json, "value_now");
		vt_json_null(json, "is_there");
		return;
	}
	vt_json_hex(json, "value_now", l->there);
	vt_json_bool(json, "is_there", vt_wait_ends_with(l, l->there));
}

static void write_launch(struct vt_json *json, const char *key, const struct vt_model *model,
			 const struct vt_model_launch *l)
{
	vt_json_object_line(json, key);
	vt_json_uint(json, "number", l->number);
	vt_json_text(json, "kind", kinds[l->kind]);
	vt_json_text(json, "fate", fates[l->fate]);
	vt_json_milli(json, "age_s", (double)l->age_ns / VT_NS_PER_S);
	vt_json_name(json, "name", l->name ? l->name : "");
	vt_json_hex(json, "what", l->what);
	if (l->kind == VT_LAUNCHED_KERNEL)
		write_kernel(json, l);
	if (l->kind == VT_LAUNCHED_WAIT_VALUE || l->kind == VT_LAUNCHED_WRITE_VALUE)
		write_value(json, l);
	vt_json_int(json, "tid", l->tid);
	vt_json_name(json, "thread", l->thread);
	if (l->trace < model->traces.n)
		vt_json_uint(json, "backtrace", l->trace);
	else
		vt_json_null(json, "backtrace");
	vt_json_end_object(json);
}

static void write_deadlock(struct vt_json *json, const struct vt_model *model,
			   const struct vt_model_launch_stream *s)
{
	if (!s->stuck) {
		vt_json_null(json, "deadlock");
		return;
	}
	vt_json_object(json, "deadlock");
	write_launch(json, "wait", model, s->stuck);
	vt_json_uint(json, "waits_for", s->waits_for);
	write_launch(json, "ends_with", model, s->ends_it);
	vt_json_end_object(json);
}

static void write_stream(struct vt_json *json, const struct vt_model *model,
			 const struct vt_model_launch_stream *s)
{
	size_t omitted = s->n > FIRST + LAST ? s->n - FIRST - LAST : 0;

	vt_json_object(json, NULL);
	if (s->device >= 0)
		vt_json_int(json, "device", s->device);
	else
		vt_json_null(json, "device");
	vt_json_hex(json, "stream", s->handle);
	if (s->tid)
		vt_json_int(json, "of_thread", s->tid);
	else
		vt_json_null(json, "of_thread");
	vt_json_uint(json, "launches", s->total);
	vt_json_uint(json, "ended_to", s->ended);
	vt_json_uint(json, "may_run", s->may_run);
	vt_json_uint(json, "not_kept", s->not_kept);
	vt_json_uint(json, "omitted", omitted);
	write_deadlock(json, model, s);
	vt_json_array(json, "last");
	for (size_t i = 0; i < s->n; i++)
		if (i < FIRST || i >= FIRST + omitted)
			write_launch(json, NULL, model, &s->launches[i]);
	vt_json_end_array(json);
	vt_json_end_object(json);
}

void vt_json_launches(struct vt_json *json, const struct vt_model *model)
{
	const struct vt_model_launches *launches = &model->launches;

	if (!launches->known) {
		vt_json_null(json, "launches");
		return;
	}
	vt_json_object(json, "launches");
	vt_json_uint(json, "total", launches->total);
	vt_json_uint(json, "lost", launches->lost);
	vt_json_uint(json, "words", launches->n_words);
	vt_json_array(json, "streams");
	for (size_t i = 0; i < launches->streams.n; i++)
		write_stream(json, model, &launches->streams.data[i]);
	vt_json_end_array(json);
	vt_json_end_object(json);
}
