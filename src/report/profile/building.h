/* SPDX-License-Identifier: Apache-2.0 */
/* Private to what makes a profile of a model's memory: what its files share. */
#ifndef VT_REPORT_PROFILE_BUILDING_H
#define VT_REPORT_PROFILE_BUILDING_H

#include "report/profile/profile.h"

struct vt_building_device {
	int device;
	uint32_t group;
	uint32_t label; /* text: "cuda:0" */
};

struct vt_building {
	struct vt_profile *profile;
	const struct vt_model *model;
	uint32_t *code; /* frames of the profile, by frame of recorded backtraces; 0 not yet made */
	uint32_t *nodes; /* by recorded backtrace; VT_PROFILE_ROOT not yet made */
	bool has_torch;  /* PyTorch has memory in use: what other libraries have is beside it */
	VT_VEC(struct vt_building_device) devices;
};

/* profile.failed: out of memory. */
void vt_building_init(struct vt_building *b, struct vt_profile *profile,
		      const struct vt_model *model);
void vt_building_deinit(struct vt_building *b);

/* -1: not known, which is a group of its own. Valid until the next call. */
const struct vt_building_device *vt_building_device(struct vt_building *b, int device);

/* The stack of a recorded backtrace. */
uint32_t vt_building_trace(struct vt_building *b, uint32_t trace);

/*
 * owner_path.c: the way to an owner, as a stack below caller: what the memory is for, the modules
 * or the variable that it is of, and its name. The labels of it.
 */
uint32_t vt_owner_path(struct vt_profile *profile, uint32_t caller,
		       const struct vt_model_owner *owner, bool is_array);
void vt_owner_labels(struct vt_profile *profile, const struct vt_model_owner *owner,
		     uint32_t labels[VT_N_LABELS]);

/* others.c: what other libraries have in use on devices. */
void vt_building_others(struct vt_building *b);

/* comments.c: what is in the profile, and what of the devices' used memory is not. */
void vt_building_comments(struct vt_building *b);

#endif
