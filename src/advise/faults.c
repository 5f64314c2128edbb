/* SPDX-License-Identifier: Apache-2.0 */
/* What the driver logged of faults of the devices. */
#include <string.h>

#include "advise/internal.h"

static void add_xid(struct vt_advise *a, struct vt_model_advice *advice,
		    const struct vt_model_xid *xid)
{
	const struct vt_xid_meaning *meaning = vt_xid_meaning(xid->code);
	time_t now = a->model->when.tv_sec;

	vt_advise_number(advice, "xid", xid->code);
	if (meaning)
		vt_advise_text(a, advice, "fault", meaning->name);
	if (now >= xid->last.tv_sec && xid->last.tv_sec)
		vt_advise_number(advice, "ago_seconds", (uint64_t)(now - xid->last.tv_sec));
	if (*xid->text)
		vt_advise_text(a, advice, "said", xid->text);
}

/*
 * A context that has met a fault is not to be had back: each call returns the error of then, until
 * the process ends.
 */
void vt_advise_context_lost(struct vt_advise *a)
{
	const struct vt_model_xid *xid;
	enum vt_context_lost lost = vt_model_context_lost(a->model, &xid);
	struct vt_model_advice *advice;

	if (lost == VT_CONTEXT_NOT_LOST)
		return;
	advice = vt_advise_add(a, xid ? xid->device : -1);
	if (lost != VT_CONTEXT_LOST)
		vt_advise_sure(advice, VT_SURE_LIKELY);
	if (xid)
		add_xid(a, advice, xid);
	if (xid && vt_xid_meaning(xid->code)->action != VT_XID_DEBUG)
		vt_advise_remedy(advice, VT_REMEDY_RESTART);
	else
		vt_advise_setting(a, advice, "CUDA_LAUNCH_BLOCKING=1");
}

static bool is_first_of_device(const struct vt_model_faults *faults, size_t at)
{
	for (size_t i = 0; i < at; i++)
		if (vt_xid_is_of_device(faults->xids.data[i].code) &&
		    !strcmp(faults->xids.data[i].pci, faults->xids.data[at].pci))
			return false;
	return true;
}

/* That of another process may have ended with it. */
static void advise_by_log(struct vt_advise *a)
{
	const struct vt_model_faults *faults = &a->model->faults;

	for (size_t i = 0; i < faults->xids.n; i++) {
		const struct vt_model_xid *xid = &faults->xids.data[i];
		struct vt_model_advice *advice;

		if (!vt_xid_is_of_device(xid->code) || !is_first_of_device(faults, i))
			continue;
		advice = vt_advise_add(a, xid->device);
		add_xid(a, advice, xid);
		if (vt_xid_meaning(xid->code)->action == VT_XID_REBOOT)
			vt_advise_remedy(advice, VT_REMEDY_REBOOT);
		if (xid->owner == VT_FAULT_OURS || xid->owner == VT_FAULT_NOBODYS)
			continue;
		vt_advise_sure(advice, VT_SURE_POSSIBLE);
		if (advice)
			advice->alarm = false;
	}
}

/* ---- what the device says of itself ---- */

/* A row or page that waits for a reset is no longer used: that is no alarm. */
static void advise_by_health(struct vt_advise *a, const struct vt_usage_health *h, int device)
{
	bool pending = h->remap_pending || h->retire_pending;
	struct vt_model_advice *advice;

	if (!vt_health_is_bad(h) && !pending)
		return;
	advice = vt_advise_add(a, device);
	if (h->known & VT_HEALTH_ECC_NOW)
		vt_advise_number(advice, "ecc_errors", h->ecc_now);
	if (h->remap_failed)
		vt_advise_text(a, advice, "rows", "remapping a row of its memory failed");
	else if (pending)
		vt_advise_text(a, advice, "rows",
			       "a part of its memory is replaced at the next reset");
	vt_advise_sure(advice, VT_SURE_CERTAIN);
	if (advice)
		advice->alarm = vt_health_is_bad(h);
}

void vt_advise_gpu_fault(struct vt_advise *a)
{
	const struct vt_model_usage *usage = &a->model->usage;
	int device;

	advise_by_log(a);
	for (size_t i = 0; i < usage->gpus.n; i++)
		if (vt_model_gpu_is_used(usage, i, &device))
			advise_by_health(a, &usage->gpus.data[i].health, device);
}

void vt_advise_throttled(struct vt_advise *a)
{
	const struct vt_model_usage *usage = &a->model->usage;
	int device;

	for (size_t i = 0; i < usage->gpus.n; i++) {
		const struct vt_usage_health *h = &usage->gpus.data[i].health;
		struct vt_model_advice *advice;

		if (!vt_health_is_throttled(h) || !vt_model_gpu_is_used(usage, i, &device))
			continue;
		advice = vt_advise_add(a, device);
		vt_advise_text(a, advice, "reason", vt_health_why_slow(h));
		if (h->known & VT_HEALTH_TEMPERATURE)
			vt_advise_number(advice, "celsius", h->celsius);
		if (h->known & VT_HEALTH_POWER)
			vt_advise_number(advice, "watt", h->milliwatt / 1000);
		if (!(~h->known & (VT_HEALTH_CLOCK | VT_HEALTH_CLOCK_LIMIT))) {
			vt_advise_number(advice, "mhz", h->sm_mhz);
			vt_advise_number(advice, "mhz_limit", h->sm_mhz_limit);
		}
	}
}
