/* SPDX-License-Identifier: Apache-2.0 */
/* Puts every Python frame at its own evaluator frame of the native stack. */
#ifndef VT_WALK_MERGE_H
#define VT_WALK_MERGE_H

#include "base/arena.h"
#include "report/model.h"
#include "walk/native.h"
#include "walk/python.h"

/*
 * Fills stack from either or both (NULL: none). When the evaluator frames and the runs of Python frames do not match,
 * both are kept and stack->merge_uncertain is set. False when out of memory.
 */
bool vt_merge_stacks(const struct vt_native_stack *native, const struct vt_python_thread *python,
		     struct vt_model_stack *stack, struct vt_arena *arena);

#endif
