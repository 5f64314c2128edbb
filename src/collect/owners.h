/* SPDX-License-Identifier: Apache-2.0 */
/* Private to collect/owners*.c. */
#ifndef VT_COLLECT_OWNERS_H
#define VT_COLLECT_OWNERS_H

#include "collect/collect.h"
#include "owners/owners.h"

struct vt_owners_stack;

struct vt_owners_blocks {
	VT_VEC(struct vt_owners_block) list;
};

/* collect/owners_blocks.c: PyTorch's blocks in use, by address. False: out of memory. */
bool vt_owners_blocks_list(struct vt_owners_blocks *blocks, const struct vt_model *model);
void vt_owners_blocks_sort(struct vt_owners_blocks *blocks);

/* collect/owners_arrays.c: whether CuPy is there. */
bool vt_collect_has_arrays(struct vt_collect *c);
/*
 * Adds the memory of its arrays to the blocks, which are PyTorch's so far, and to the model. False:
 * out of memory.
 */
bool vt_collect_owners_arrays(struct vt_collect *c, struct vt_owners_blocks *blocks,
			      struct vt_owners *owners, const struct vt_owners_input *input);
/* collect/owners_jax.c: those of the arrays that JAX told. VT_ERR_NOMEM. */
struct vt_error *vt_collect_owners_jax(struct vt_collect *c, struct vt_owners *owners,
				       const struct vt_owners_input *input);

/* An owner that was not found. */
void vt_collect_no_owner(struct vt_model_owner *owner, uint32_t block, enum vt_category category);

/* collect/owners_native.c: names what only C++ holds, where it is known how. */
void vt_collect_owners_native(struct vt_collect *c, struct vt_owners *owners);

/*
 * The stacks as they are at the stop, or were; without one, of the threads that sleep. stacks has
 * room for all threads of the stop. Returns how many.
 */
size_t vt_collect_owners_stacks(struct vt_collect *c, struct vt_owners_stack *stacks);

/* collect/owners_unseen.c: searches all memory for who holds the rest: some seconds. */
void vt_collect_owners_unseen(struct vt_collect *c);

/*
 * collect/owners_asked.c: makes owners of what the interpreter told (c->asked_owners). False: out
 * of memory.
 */
bool vt_collect_owners_from_asked(struct vt_collect *c);

#endif
