/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of members, and chains of causes. */
#include "job/json/parts.h"

void vt_job_put_set(struct vt_json *json, const char *key, const struct vt_member_set *set)
{
	vt_json_array_line(json, key);
	for (size_t i = 0, end; i < set->n; i = end) {
		for (end = i + 1; end < set->n && set->members[end] == set->members[end - 1] + 1;)
			end++;
		vt_json_array_line(json, NULL);
		vt_json_uint(json, NULL, set->members[i]);
		vt_json_uint(json, NULL, set->members[end - 1]);
		vt_json_end_array(json);
	}
	vt_json_end_array(json);
}

static void put_remedy(struct vt_json *json, const struct vt_job *job,
		       const struct vt_job_chain *chain)
{
	vt_json_object(json, "remedy");
	vt_json_text(json, "code", vt_cure_name(chain->cure));
	vt_json_name(json, "host", vt_chain_host(job, chain));
	vt_json_array(json, "steps");
	for (size_t i = 0; i < chain->n_steps; i++) {
		vt_json_object_line(json, NULL);
		vt_json_name(json, "command", chain->steps[i].command);
		vt_json_text(json, "text", chain->steps[i].words);
		vt_json_end_object(json);
	}
	vt_json_end_array(json);
	vt_json_end_object(json);
}

static void put_links(struct vt_json *json, const struct vt_job_chain *chain)
{
	vt_json_array(json, "links");
	for (size_t i = 0; i < chain->n_links; i++) {
		vt_json_object_line(json, NULL);
		vt_json_text(json, "text", chain->links[i].text);
		vt_job_put_set(json, "members", &chain->links[i].members);
		vt_json_end_object(json);
	}
	vt_json_end_array(json);
}

void vt_job_put_chains(struct vt_json *json, const struct vt_job *job)
{
	vt_json_array(json, "causes");
	for (size_t i = 0; i < job->chains.n; i++) {
		const struct vt_job_chain *chain = &job->chains.data[i];

		vt_json_object(json, NULL);
		vt_json_text(json, "code", vt_finding_name(chain->code));
		vt_json_bool(json, "certain", !chain->doubt);
		vt_json_text(json, "doubt", vt_doubt_name(chain->doubt));
		vt_json_bool(json, "circle", chain->circle);
		vt_json_uint(json, "ranks_waiting", chain->hanging);
		put_links(json, chain);
		put_remedy(json, job, chain);
		vt_json_end_object(json);
	}
	vt_json_end_array(json);
}
