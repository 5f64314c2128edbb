/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this room need of each other, and nobody else. */
#ifndef VT_WALK_TENSORS_INTERNAL_H
#define VT_WALK_TENSORS_INTERNAL_H

#include "walk/tensors/tensors.h"

/* ---- kind.c ---- */

/* Whether the object at addr is of a class of this kind. */
bool vt_tensors_is(struct vt_tensors *tensors, uint64_t addr, enum vt_node_kind kind);
/* Whether a pointer to a tensor points to none: to 0, or to c10::UndefinedTensorImpl. */
bool vt_tensors_is_none(struct vt_tensors *tensors, uint64_t addr);
/* The class of the object at addr; NULL none. It moves when another class is looked up. */
const struct vt_rtti_class *vt_tensors_class_at(struct vt_tensors *tensors, uint64_t addr);
/*
 * How many bytes the object at addr has at most, by glibc's header of its chunk; where there is
 * none that makes sense, what objects of autograd have at least.
 */
uint64_t vt_tensors_object_size(struct vt_tensors *tensors, uint64_t addr);

/* ---- saved.c ---- */

/* Whether the five flags of a SavedVariable at addr, which lie at this offset, make sense. */
bool vt_tensors_is_saved(struct vt_tensors *tensors, uint64_t addr, uint32_t flags);
/* Whether that is an object with the pack hooks of a SavedVariable, and what these returned. */
bool vt_tensors_are_hooks(struct vt_tensors *tensors, uint64_t hooks);
/* Adds what all SavedVariables in [addr + first, addr + size) hold, and those of vectors in it. */
void vt_tensors_saved_edges(struct vt_tensors *tensors, uint64_t addr, uint64_t first,
			    uint64_t size);
/* The same for a Python function of autograd. */
void vt_tensors_function_edges(struct vt_tensors *tensors, uint64_t object);

#endif
