/* SPDX-License-Identifier: Apache-2.0 */
/* Process groups out of JSON of ours. */
#include <string.h>

#include "model/flight.h"

static int64_t load_known(struct vt_json_in *in, const struct vt_json_value *from, const char *key)
{
	uint64_t value;

	return vt_json_in_uint(in, from, key, &value) && value <= INT64_MAX ? (int64_t)value : -1;
}

static const char *load_name(struct vt_json_in *in, const struct vt_json_value *from,
			     const char *key)
{
	const char *text = vt_json_in_text(in, from, key);

	return text ? text : "";
}

static void load_operation(struct vt_json_in *in, const struct vt_json_value *from,
			   struct vt_model_operation *op)
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

static const char *load_backend(struct vt_json_in *in, const struct vt_json_value *from)
{
	const char *text = vt_json_string(vt_json_get(from, "backend"));

	for (size_t i = 0; text && i < VT_FLIGHT_RECORDERS; i++)
		if (!strcmp(text, vt_flight_recorders[i].backend))
			return vt_flight_recorders[i].backend;
	vt_json_in_wrong(in, "backend", "is none that is known");
	return "";
}

static void load_group(struct vt_json_in *in, const struct vt_json_value *from,
		       struct vt_model_process_group *g)
{
	const struct vt_json_value *oldest = vt_json_in_object(in, from, "oldest_pending");

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

void vt_flight_load(struct vt_json_in *in, const struct vt_json_value *from,
		    struct vt_model_collectives *collectives)
{
	const struct vt_json_value *told = vt_json_in_object(in, from, "collectives");
	const struct vt_json_value *groups = vt_json_in_array(in, told, "groups");

	if (!told)
		return;
	vt_json_in_uint(in, told, "told_at_ms", &collectives->told_ms);
	if (collectives->told_ms > INT64_MAX)
		vt_json_in_wrong(in, "told_at_ms", "is no time");
	collectives->why = vt_json_in_text(in, told, "why_none");
	for (size_t i = 0; i < vt_json_count(groups) && !in->nomem; i++) {
		struct vt_model_process_group *g = vt_vec_append(&collectives->groups);

		if (g)
			load_group(in, vt_json_in_element(in, groups, i, "groups"), g);
		in->nomem |= !g;
	}
}
