/* SPDX-License-Identifier: Apache-2.0 */
/* Puts every Python frame at its own evaluator frame of the native stack. */
#ifndef VT_EXPLAIN_MERGE_H
#define VT_EXPLAIN_MERGE_H

#include "base/arena.h"
#include "model/model.h"
#include "walk/native/native.h"
#include "walk/python/python.h"

/*
 * Fills stack from either or both (NULL: none). When the evaluator frames and the runs of Python frames do not match,
 * both are kept and stack->merge_uncertain is set. False when out of memory.
 */
bool vt_merge_stacks(const struct vt_native_stack *native, const struct vt_python_thread *python,
		     struct vt_model_stack *stack, struct vt_arena *arena);

/* What a native frame is beside Python frames. */
enum vt_merge_role {
	VT_MERGE_OTHER,
	VT_MERGE_EVALUATOR,   /* runs Python frames */
	VT_MERGE_INTERPRETER, /* of the interpreter, and says nothing more than they do */
	VT_MERGE_STARTUP,     /* how a program or a thread begins */
};

/* interpreter: the module of the evaluators, NULL when there is none. */
enum vt_merge_role vt_merge_role(const struct vt_native_frame *frame, const struct vt_module *interpreter);

/* ---- merge_recorded.c: stacks that somebody recorded, of which many have the same places ---- */

/* Every place once, as frames of the model. */
struct vt_recorded_places {
	struct vt_model_frame *frames;
	size_t n;
	size_t n_python;       /* Python place i is frames[i] */
	const uint32_t *first; /* native place i: frames[first[i]] to frames[first[i + 1] - 1], what was inlined and itself */
	const uint8_t *roles;  /* of native places: enum vt_merge_role */
};

/*
 * python: all Python places as the frames of one thread. native: all native places as the frames of one stack. Both with names.
 * False when out of memory. All is in arena.
 */
bool vt_recorded_places_init(struct vt_recorded_places *places, const struct vt_python_thread *python,
			     const struct vt_native_stack *native, struct vt_arena *arena);

/*
 * One stack: n_python Python places and n_native native ones, each innermost first; trace->frames, .n_frames and
 * .merge_uncertain are set. Nobody recorded which Python frames began a call of the evaluator. What is inside of the innermost
 * evaluator is inside of the innermost Python frame; where evaluators are not as many as Python frames, native frames further
 * out, if they say anything, follow after the Python ones.
 */
bool vt_merge_recorded(const struct vt_recorded_places *places, const uint32_t *python, size_t n_python, const uint32_t *native,
		       size_t n_native, struct vt_model_trace *trace, struct vt_arena *arena);

#endif
