/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the driver in the process is in use. In a forked child it is its parent's, copied: it
 * says that it is in use, but has no threads ("cuda-EvtHandlr"). cuda-gdb 13.0 that attaches to
 * such a process waits for the driver, and neither answers nor lets it go (driver 580, H100: a
 * worker of a DataLoader would be held for good). Attached to one that has only loaded the library,
 * it does not end, either.
 */
#include "collect/collect.h"

static bool has_context(const struct vt_model *model)
{
	for (size_t i = 0; i < model->devices.n; i++)
		if (model->devices.data[i].context_active)
			return true;
	return false;
}

const char *vt_collect_why_no_driver(const struct vt_collect *c, bool has_threads)
{
	if (c->driver == VT_DRIVER_UNUSED || c->torch_inherited ||
	    (!has_threads && !has_context(c->model)))
		return "the CUDA driver in the process is loaded but not in use, or was copied by fork(): the debugger would hold the process for good";
	return NULL;
}
