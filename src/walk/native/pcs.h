/* SPDX-License-Identifier: Apache-2.0 */
/* The program counters of all stacks, sorted, so that each module is visited once. */
#ifndef VT_WALK_NATIVE_PCS_H
#define VT_WALK_NATIVE_PCS_H

#include "walk/native/native.h"

/* A frame and where its instruction is. */
struct vt_native_pc {
	struct vt_native_frame *frame;
	struct vt_module *module;
	uint64_t pc; /* inside the instruction: a return address minus one is inside the call */
};

/*
 * The program counters of all frames in a module, by address. The caller frees *pcs; NULL when
 * there are none.
 */
struct vt_error *vt_native_pcs(struct vt_modules *modules, struct vt_native_stack *stacks, size_t n,
			       struct vt_native_pc **pcs, size_t *n_pcs);

/* The index after the last one that is in the same module as the one at first. */
size_t vt_native_pcs_end(const struct vt_native_pc *pcs, size_t n, size_t first);

#endif
