/* SPDX-License-Identifier: Apache-2.0 */
#include "model/faults_json.h"

#include <limits.h>

#include "model/model.h"

#define MAX_XIDS 4096
#define MAX_ORDINAL 1023

/* ---- out ---- */

static void put_xid(struct vt_json *json, const struct vt_model_xid *xid)
{
	const struct vt_xid_meaning *meaning = vt_xid_meaning(xid->code);

	vt_json_object_line(json, NULL);
	vt_json_uint(json, "code", xid->code);
	vt_json_text(json, "meaning", meaning ? meaning->name : NULL);
	vt_json_text(json, "blame", vt_xid_blame_name(meaning ? meaning->blame : VT_BLAME_UNKNOWN));
	vt_json_text(json, "action", meaning ? vt_xid_action_name(meaning->action) : NULL);
	vt_json_text(json, "owner", vt_fault_owner_name(xid->owner));
	vt_json_known(json, "pid", xid->pid ? xid->pid : -1);
	vt_json_name(json, "name", xid->name);
	vt_json_name(json, "pci", xid->pci);
	vt_json_known(json, "device", xid->device);
	vt_json_uint(json, "times", xid->n);
	vt_json_time(json, "first", &xid->first);
	vt_json_time(json, "last", &xid->last);
	vt_json_name(json, "text", xid->text);
	vt_json_end_object(json);
}

static void put_log(struct vt_json *json, const struct vt_model_faults *faults)
{
	vt_json_text(json, "state", vt_faults_state_name(faults->state));
	vt_json_name(json, "why", faults->why);
	vt_json_milli(json, "ms", faults->ms);
	vt_json_array(json, "xids");
	for (size_t i = 0; i < faults->xids.n; i++)
		put_xid(json, &faults->xids.data[i]);
	vt_json_end_array(json);
}

void vt_faults_put(struct vt_json *json, const char *key, const struct vt_model *model)
{
	const struct vt_model_xid *xid;

	vt_json_object(json, key);
	put_log(json, &model->faults);
	vt_json_text(json, "context_lost",
		     vt_context_lost_name(vt_model_context_lost(model, &xid)));
	vt_json_end_object(json);
}

void vt_faults_put_log(struct vt_json *json, const char *key, const struct vt_model_faults *faults)
{
	vt_json_object(json, key);
	put_log(json, faults);
	vt_json_end_object(json);
}

/* ---- in ---- */

static const char *text(struct vt_json_in *in, const struct vt_json_value *from, const char *key)
{
	const char *value = vt_json_in_text(in, from, key);

	return value ? value : "";
}

static void load_xid(struct vt_json_in *in, const struct vt_json_value *from,
		     struct vt_model_faults *faults)
{
	struct vt_model_xid *xid = vt_vec_append(&faults->xids);
	int code = 0, pid = 0;

	if (!xid) {
		in->nomem = true;
		return;
	}
	*xid = (struct vt_model_xid){
		.name = text(in, from, "name"),
		.pci = text(in, from, "pci"),
		.text = text(in, from, "text"),
		.device = -1,
		.n = vt_json_in_need_uint(in, from, "times"),
	};
	if (!vt_json_in_int(in, from, "code", 1, INT_MAX, &code))
		vt_json_in_wrong(in, "code", "is missing");
	xid->code = (uint32_t)code;
	xid->owner = vt_json_in_word(in, from, "owner", vt_fault_owner_name, VT_N_FAULT_OWNERS);
	vt_json_in_int(in, from, "pid", 1, INT_MAX, &pid);
	xid->pid = pid;
	vt_json_in_int(in, from, "device", 0, MAX_ORDINAL, &xid->device);
	vt_json_in_time(in, from, "first", &xid->first);
	vt_json_in_time(in, from, "last", &xid->last);
}

void vt_faults_load(struct vt_json_in *in, const struct vt_json_value *from,
		    struct vt_model_faults *faults)
{
	const struct vt_json_value *xids = vt_json_in_array(in, from, "xids");

	if (!from)
		return;
	faults->state =
		vt_json_in_word(in, from, "state", vt_faults_state_name, VT_N_FAULTS_STATES);
	faults->why = text(in, from, "why");
	vt_json_in_real(in, from, "ms", &faults->ms);
	if (vt_json_count(xids) > MAX_XIDS) {
		vt_json_in_wrong(in, "xids", "are too many");
		return;
	}
	for (size_t i = 0; i < vt_json_count(xids); i++)
		load_xid(in, vt_json_in_element(in, xids, i, "xids"), faults);
}
