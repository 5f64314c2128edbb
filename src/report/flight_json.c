/* SPDX-License-Identifier: Apache-2.0 */
/* Process groups as JSON of ours. */
#include <string.h>

#include "report/flight.h"

/* ---- out ---- */

static void put_known(struct vt_json *json, const char *key, int64_t value)
{
	if (value < 0)
		vt_json_null(json, key);
	else
		vt_json_int(json, key, value);
}

static void put_operation(struct vt_json *json, const struct vt_model_operation *op)
{
	vt_json_object_line(json, "oldest_pending");
	vt_json_text(json, "name", op->name);
	vt_json_int(json, "number", op->number);
	vt_json_bool(json, "point_to_point", op->of_two);
	if (op->started < 0)
		vt_json_null(json, "started");
	else
		vt_json_bool(json, "started", op->started);
	vt_json_text(json, "input", op->input);
	vt_json_uint(json, "age_ms", op->age_ms);
	if (op->timeout_ms)
		vt_json_uint(json, "timeout_ms", op->timeout_ms);
	else
		vt_json_null(json, "timeout_ms");
	vt_json_end_object(json);
}

static void put_group(struct vt_json *json, const struct vt_model_process_group *g)
{
	vt_json_object(json, NULL);
	vt_json_text(json, "backend", g->backend);
	vt_json_text(json, "group", g->name);
	vt_json_name(json, "description", g->description);
	vt_json_text(json, "ranks", g->ranks);
	put_known(json, "last_enqueued", g->last_enqueued);
	put_known(json, "last_started", g->last_started);
	put_known(json, "last_completed", g->last_completed);
	vt_json_text(json, "operation", g->operation);
	vt_json_uint(json, "pending", g->n_pending);
	if (g->n_pending)
		put_operation(json, &g->oldest);
	else
		vt_json_null(json, "oldest_pending");
	vt_json_end_object(json);
}

void vt_flight_put(struct vt_json *json, const struct vt_model_collectives *collectives)
{
	if (!collectives->told_ms) {
		vt_json_null(json, "collectives");
		return;
	}
	vt_json_object(json, "collectives");
	vt_json_uint(json, "told_at_ms", collectives->told_ms);
	vt_json_array(json, "groups");
	for (size_t i = 0; i < collectives->groups.n; i++)
		put_group(json, &collectives->groups.data[i]);
	vt_json_end_array(json);
	vt_json_end_object(json);
}

/* ---- in ---- */

static int64_t load_known(struct vt_json_in *in, json_t *from, const char *key)
{
	uint64_t value;

	return vt_json_in_uint(in, from, key, &value) && value <= INT64_MAX ? (int64_t)value : -1;
}

static const char *load_name(struct vt_json_in *in, json_t *from, const char *key)
{
	const char *text = vt_json_in_text(in, from, key);

	return text ? text : "";
}

static void load_operation(struct vt_json_in *in, json_t *from, struct vt_model_operation *op)
{
	bool started = false;

	op->name = vt_json_in_need_text(in, from, "name");
	op->number = load_known(in, from, "number");
	op->of_two = vt_json_in_need_bool(in, from, "point_to_point");
	op->started = vt_json_in_bool(in, from, "started", &started) ? started : -1;
	op->input = vt_json_in_text(in, from, "input");
	op->age_ms = vt_json_in_need_uint(in, from, "age_ms");
	vt_json_in_uint(in, from, "timeout_ms", &op->timeout_ms);
}

static const char *load_backend(struct vt_json_in *in, json_t *from)
{
	const char *text = json_string_value(json_object_get(from, "backend"));

	for (size_t i = 0; text && i < VT_FLIGHT_RECORDERS; i++)
		if (!strcmp(text, vt_flight_recorders[i].backend))
			return vt_flight_recorders[i].backend;
	vt_json_in_wrong(in, "backend", "is none that is known");
	return "";
}

static void load_group(struct vt_json_in *in, json_t *from, struct vt_model_process_group *g)
{
	json_t *oldest = vt_json_in_object(in, from, "oldest_pending");

	*g = (struct vt_model_process_group){
		.backend = load_backend(in, from),
		.name = vt_json_in_need_text(in, from, "group"),
		.description = load_name(in, from, "description"),
		.ranks = vt_json_in_text(in, from, "ranks"),
		.last_enqueued = load_known(in, from, "last_enqueued"),
		.last_started = load_known(in, from, "last_started"),
		.last_completed = load_known(in, from, "last_completed"),
		.operation = vt_json_in_text(in, from, "operation"),
		.n_pending = vt_json_in_need_uint(in, from, "pending"),
	};
	if (g->n_pending && !oldest)
		vt_json_in_wrong(in, "oldest_pending", "is missing");
	else if (g->n_pending)
		load_operation(in, oldest, &g->oldest);
}

void vt_flight_load(struct vt_json_in *in, json_t *from, struct vt_model_collectives *collectives)
{
	json_t *told = vt_json_in_object(in, from, "collectives");
	json_t *groups = vt_json_in_array(in, told, "groups");

	if (!told)
		return;
	collectives->told_ms = vt_json_in_need_uint(in, told, "told_at_ms");
	for (size_t i = 0; i < json_array_size(groups) && !in->nomem; i++) {
		struct vt_model_process_group *g = vt_vec_append(&collectives->groups);

		if (g)
			load_group(in, vt_json_in_element(in, groups, i, "groups"), g);
		in->nomem |= !g;
	}
}
