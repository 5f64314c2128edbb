/* SPDX-License-Identifier: Apache-2.0 */
/* Totals of the blocks in use, by one thing that is known of their owners. */
#ifndef VT_MODEL_OWNERS_BY_H
#define VT_MODEL_OWNERS_BY_H

#include "base/arena.h"
#include "model/model.h"

enum vt_owners_by {
	VT_BY_CATEGORY,
	VT_BY_MODULE,   /* "model.layers[*].mlp": what differs only in numbers is one */
	VT_BY_VARIABLE, /* where the name begins */
	VT_BY_TYPE,     /* class of what holds it */
	VT_N_BY
};

struct vt_owners_group {
	const char *name; /* hostile; "" those that have none */
	uint64_t bytes, blocks, certain_bytes;
	uint32_t members; /* how many names it stands for */
	uint32_t largest; /* of all owners: see vt_model_owner_at() */
};

struct vt_owners_groups {
	VT_VEC(struct vt_owners_group) groups; /* the largest first */
	struct vt_arena names;
};

/*
 * Together the groups are all blocks in use. max: if there are more groups of modules than that,
 * those with a common beginning are one; 0 no limit. False: out of memory, and there is nothing.
 */
bool vt_owners_groups_init(struct vt_owners_groups *groups, const struct vt_model *model,
			   enum vt_owners_by by, size_t max);
void vt_owners_groups_deinit(struct vt_owners_groups *groups);

/* "layers[3].mlp" becomes "layers[*].mlp". */
void vt_fold_indices(char *name);

/* "category": as the option has it, and JSON. */
const char *vt_owners_by_name(enum vt_owners_by by);

#endif
