/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stacks of a profile without labels: for formats that have none. They are in the order of a
 * flame graph, what weighs most first, so that a viewer that shows them in the order of the file
 * shows one.
 */
#ifndef VT_REPORT_PROFILE_STACKS_H
#define VT_REPORT_PROFILE_STACKS_H

#include "report/profile/profile.h"

struct vt_profile_stack {
	uint32_t group, node;
	uint32_t place;  /* of the node in the flame graph */
	uint64_t weight; /* bytes, or threads */
};

struct vt_profile_stacks {
	VT_VEC(struct vt_profile_stack) list; /* by group, then in order */
	uint32_t *way;                        /* scratch: frames of the last stack */
	size_t room;
};

/*
 * folded: without groups that repeat others, without what is beside, and with one group only if the
 * groups are not different things. False: out of memory.
 */
bool vt_profile_stacks_init(struct vt_profile_stacks *stacks, const struct vt_profile *profile,
			    bool folded);
void vt_profile_stacks_deinit(struct vt_profile_stacks *stacks);

/* The frames of a stack, the outermost first; valid until the next call. NULL: out of memory. */
const uint32_t *vt_profile_way(struct vt_profile_stacks *stacks, const struct vt_profile *profile,
			       uint32_t node, size_t *n);

#endif
