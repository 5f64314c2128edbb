/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of vt_model_account(); each fills its own fields of the model. False when out of
 * memory.
 */
#ifndef VT_MODEL_ACCOUNT_H
#define VT_MODEL_ACCOUNT_H

#include "model/model.h"

/* The sums of model.pinned, and the diagnostics for what could not be read of it. */
void vt_account_pinned(struct vt_model *model);

/* stack.hash, thread.group and .next_in_group, thread_groups. */
bool vt_group_threads(struct vt_model *model);

/* What is marked so of traces, sites, untraced; needs the allocators' sums. */
bool vt_find_sites(struct vt_model *model);

/* What else the recorder knows: driver_groups; recorder. */
bool vt_account_recorder(struct vt_model *model);

/* Ages of nothing; and of one more. */
#define VT_NO_AGES ((struct vt_model_ages){ .oldest_ns = VT_NO_AGE, .newest_ns = VT_NO_AGE })
void vt_add_age(struct vt_model_ages *ages, uint64_t age_ns);
void vt_add_ages(struct vt_model_ages *ages, const struct vt_model_ages *more);

/* What is marked so of caught; needs the allocators' sums. */
void vt_account_oom(struct vt_model *model);
/* Where a request was made, NULL unknown; whether a frame is only there because it failed. */
const struct vt_model_frame *vt_oom_place(const struct vt_model *model, const struct vt_model_oom *oom);
bool vt_oom_is_ours(const struct vt_model_frame *f);

/* headlines; needs everything else. */
bool vt_make_headlines(struct vt_model *model);

#endif
