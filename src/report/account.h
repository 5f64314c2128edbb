/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of vt_model_account(); each fills its own fields of the model. False when out of
 * memory.
 */
#ifndef VT_REPORT_ACCOUNT_H
#define VT_REPORT_ACCOUNT_H

#include "report/model.h"

/* The sums of model.pinned, and the diagnostics for what could not be read of it. */
void vt_account_pinned(struct vt_model *model);

/* stack.hash, thread.group and .next_in_group, thread_groups. */
bool vt_group_threads(struct vt_model *model);

/* What is marked so of traces, sites, untraced; needs the allocators' sums. */
bool vt_find_sites(struct vt_model *model);

/* headlines; needs everything else. */
bool vt_make_headlines(struct vt_model *model);

#endif
