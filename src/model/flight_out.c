/* SPDX-License-Identifier: Apache-2.0 */
/* Process groups as they are written. */
#include <stdlib.h>
#include <string.h>

#include "model/flight.h"

bool vt_flight_next_ranks(const char **ranks, int *first, int *last)
{
	const char *text = *ranks;
	char *end;
	long from, to;

	if (!text || *text < '0' || *text > '9')
		return false;
	from = to = strtol(text, &end, 10);
	if (*end == '-' && end[1] >= '0' && end[1] <= '9')
		to = strtol(end + 1, &end, 10);
	if (from > to || to >= VT_FLIGHT_MAX_RANKS || (*end && *end != ','))
		return false;
	*ranks = *end ? end + 1 : end;
	*first = (int)from;
	*last = (int)to;
	return true;
}

const char *vt_flight_group_name(const struct vt_model_process_group *group)
{
	/* PyTorch's own words for one without a description. */
	return *group->description && strcmp(group->description, "undefined") != 0 ?
		       group->description :
		       group->name;
}

static void put_operation(struct vt_json *json, const struct vt_model_operation *op)
{
	vt_json_object_line(json, "oldest_pending");
	vt_json_text(json, "name", op->name);
	vt_json_known(json, "number", op->number);
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
	vt_json_known(json, "last_enqueued", g->last_enqueued);
	vt_json_known(json, "last_started", g->last_started);
	vt_json_known(json, "last_completed", g->last_completed);
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
	if (!collectives->told_ms && !collectives->why) {
		vt_json_null(json, "collectives");
		return;
	}
	vt_json_object(json, "collectives");
	vt_json_known(json, "told_at_ms",
		      collectives->told_ms ? (int64_t)collectives->told_ms : -1);
	vt_json_text(json, "why_none", collectives->why);
	vt_json_array(json, "groups");
	for (size_t i = 0; i < collectives->groups.n; i++)
		put_group(json, &collectives->groups.data[i]);
	vt_json_end_array(json);
	vt_json_end_object(json);
}
