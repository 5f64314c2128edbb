/* SPDX-License-Identifier: Apache-2.0 */
/* Faults of the devices of a job: what follows from "usage". */
#include "job/json/parts.h"

static void put_xid(struct vt_json *json, const struct vt_job_fault *fault)
{
	const struct vt_xid_meaning *meaning = vt_xid_meaning(fault->xid->code);

	vt_json_uint(json, "xid", fault->xid->code);
	vt_json_text(json, "action", meaning ? vt_xid_action_name(meaning->action) : NULL);
	vt_json_text(json, "owner", vt_fault_owner_name(fault->xid->owner));
	vt_json_uint(json, "times", fault->times);
	vt_json_time(json, "last", &fault->xid->last);
	vt_json_name(json, "said", fault->xid->text);
}

void vt_job_put_faults(struct vt_json *json, const struct vt_job *job)
{
	vt_json_array(json, "faults");
	for (size_t i = 0; i < job->faults.n; i++) {
		const struct vt_job_fault *fault = &job->faults.data[i];

		vt_json_object_line(json, NULL);
		vt_json_text(json, "kind", vt_job_fault_name(fault->kind));
		vt_json_bool(json, "alarm", fault->alarm);
		vt_json_name(json, "host", fault->host);
		vt_json_text(json, "text", fault->text);
		vt_job_put_set(json, "members", &fault->members);
		if (fault->xid)
			put_xid(json, fault);
		vt_json_end_object(json);
	}
	vt_json_end_array(json);
}
