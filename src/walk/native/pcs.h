/* SPDX-License-Identifier: Apache-2.0 */
/* The program counters of all stacks, sorted, so that each module is visited once. */
#ifndef VT_WALK_NATIVE_PCS_H
#define VT_WALK_NATIVE_PCS_H

#include "walk/native/native.h"

/* A frame and where its instruction is. */
struct vt_native_place {
	struct vt_native_frame *frame;
	struct vt_module *module;
	uint64_t pc; /* inside the instruction: a return address minus one is inside the call */
};

/*
 * The places of all frames that are in a module, by address. The caller frees *places; NULL when
 * there are none.
 */
struct vt_error *vt_native_places(struct vt_modules *modules, struct vt_native_stack *stacks,
				  size_t n, struct vt_native_place **places, size_t *n_places);

/* The index after the last place that is in the same module as the one at first. */
size_t vt_native_places_end(const struct vt_native_place *places, size_t n, size_t first);

#endif
