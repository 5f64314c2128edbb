/* SPDX-License-Identifier: Apache-2.0 */
#include "model/faults.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "model/cuda_error.h"
#include "model/model.h"

const char *vt_faults_state_name(unsigned int state)
{
	static const char *const names[] = {
		[VT_FAULTS_NOT] = "not-read",
		[VT_FAULTS_READ] = "read",
		[VT_FAULTS_CUT] = "cut",
		[VT_FAULTS_REFUSED] = "refused",
	};

	return state < VT_N_FAULTS_STATES ? names[state] : names[VT_FAULTS_NOT];
}

const char *vt_fault_owner_name(unsigned int owner)
{
	static const char *const names[] = {
		[VT_FAULT_UNKNOWN] = "unknown",
		[VT_FAULT_OURS] = "ours",
		[VT_FAULT_OTHERS] = "others",
		[VT_FAULT_NOBODYS] = "nobodys",
	};

	return owner < VT_N_FAULT_OWNERS ? names[owner] : names[VT_FAULT_UNKNOWN];
}

const char *vt_context_lost_name(unsigned int lost)
{
	return lost == VT_CONTEXT_LOST        ? "certain" :
	       lost == VT_CONTEXT_LIKELY_LOST ? "likely" :
						NULL;
}

void vt_model_faults_deinit(struct vt_model_faults *faults)
{
	vt_vec_deinit(&faults->xids);
}

static bool loses_context(const struct vt_model_xid *xid)
{
	const struct vt_xid_meaning *meaning = vt_xid_meaning(xid->code);

	return meaning && meaning->loses_context;
}

/* What follows an error is worth less than the error. */
static bool is_better(const struct vt_model_xid *xid, const struct vt_model_xid *than)
{
	if (!than)
		return true;
	return vt_xid_meaning(than->code)->blame == VT_BLAME_AFTERMATH &&
	       vt_xid_meaning(xid->code)->blame != VT_BLAME_AFTERMATH;
}

/* NULL: there is none of this owner. */
static const struct vt_model_xid *find(const struct vt_model *model, enum vt_fault_owner owner)
{
	const struct vt_model_xid *found = NULL;

	for (size_t i = 0; i < model->faults.xids.n; i++) {
		const struct vt_model_xid *xid = &model->faults.xids.data[i];

		if (xid->owner == owner && loses_context(xid) && is_better(xid, found))
			found = xid;
	}
	return found;
}

/* A saved report need not say with which error. */
static bool driver_says_so(const struct vt_model *model)
{
	return vt_model_streams_fault(model) ||
	       (model->ledger.known && model->ledger.by_attributes &&
		(!model->ledger.fault || vt_cuda_error_stays(model->ledger.fault)));
}

enum vt_context_lost vt_model_context_lost(const struct vt_model *model,
					   const struct vt_model_xid **xid)
{
	*xid = find(model, VT_FAULT_OURS);
	if (*xid)
		return VT_CONTEXT_LOST;
	/* cuMemGetAddressRange() fails with the context's error (helper/ranges_what.c). */
	if (!driver_says_so(model))
		return VT_CONTEXT_NOT_LOST;
	*xid = find(model, VT_FAULT_UNKNOWN);
	if (*xid && strcmp((*xid)->name, model->process.name ? model->process.name : "") != 0)
		*xid = NULL;
	return VT_CONTEXT_LIKELY_LOST;
}

bool vt_model_has_lost_context(const struct vt_model *model)
{
	const struct vt_model_xid *xid;

	return vt_model_context_lost(model, &xid) != VT_CONTEXT_NOT_LOST;
}

/* The domain has more zeros with NVML. */
static const char *without_zeros(const char *pci)
{
	return pci + strspn(pci, "0");
}

bool vt_xid_is_on(const struct vt_model_xid *xid, const char *pci)
{
	const char *own = without_zeros(xid->pci), *other = without_zeros(pci);
	size_t n = strcspn(own, ".");

	return *own && n == strcspn(other, ".") && !strncasecmp(own, other, n);
}

bool vt_xid_is_of_device(uint32_t code)
{
	const struct vt_xid_meaning *meaning = vt_xid_meaning(code);

	return meaning && (meaning->action == VT_XID_RESET || meaning->action == VT_XID_REBOOT);
}
