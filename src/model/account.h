/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of vt_model_account(). Each fills its own fields of the model, and returns false when
 * out of memory.
 */
#ifndef VT_MODEL_ACCOUNT_H
#define VT_MODEL_ACCOUNT_H

#include "model/model.h"

/* The totals of model.pinned, and the diagnostics for what could not be read of it. */
void vt_account_pinned(struct vt_model *model);

/* The fields marked "account" of libpools. */
void vt_account_libpools(struct vt_model *model);

/* The fields marked "account" of ledger. Needs the allocators' totals and libpools. */
bool vt_account_ledger(struct vt_model *model);

/* The fields marked "account" of host. Needs pinned, libpools and the ledger. */
bool vt_account_host(struct vt_model *model);

/* stack.hash, thread.group and .next_in_group, thread_groups. */
bool vt_group_threads(struct vt_model *model);

/* The fields marked "account" of traces and sites, and untraced. Needs the allocators' totals. */
bool vt_find_sites(struct vt_model *model);

/* The rest of what the recorder knows: driver_groups, recorder. */
bool vt_account_recorder(struct vt_model *model);

/* The ages of no block; vt_add_age() and vt_add_ages() widen the range. */
#define VT_NO_AGES ((struct vt_model_ages){ .oldest_ns = VT_NO_AGE, .newest_ns = VT_NO_AGE })
void vt_add_age(struct vt_model_ages *ages, uint64_t age_ns);
void vt_add_ages(struct vt_model_ages *ages, const struct vt_model_ages *more);

/* The fields marked "account" of caught. Needs the allocators' totals. */
void vt_account_oom(struct vt_model *model);
/* Where a request was made; NULL unknown. */
const struct vt_model_frame *vt_oom_place(const struct vt_model *model,
					  const struct vt_model_oom *oom);
/* Whether a frame is on the stack only because the request failed. */
bool vt_oom_is_ours(const struct vt_model_frame *f);

/* The headlines. Needs everything else. */
bool vt_make_headlines(struct vt_model *model);

#endif
