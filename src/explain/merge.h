/* SPDX-License-Identifier: Apache-2.0 */
/* Puts each Python frame at its evaluator frame in the native stack. */
#ifndef VT_EXPLAIN_MERGE_H
#define VT_EXPLAIN_MERGE_H

#include "base/arena.h"
#include "model/model.h"
#include "walk/native/native.h"
#include "walk/python/python.h"

/*
 * Fills stack from native, python or both (NULL: none). When the evaluator frames do not match the
 * runs of Python frames, it keeps both and sets stack->merge_uncertain. False when out of memory.
 */
bool vt_merge_stacks(const struct vt_native_stack *native, const struct vt_python_thread *python,
		     struct vt_model_stack *stack, struct vt_arena *arena);

/*
 * The same without filling anything: whether each native frame will be shown (shown[]). The names
 * of native frames decide, so the answer is that of the names which are known by now. False when
 * out of memory.
 */
bool vt_merge_shown(const struct vt_native_stack *native, const struct vt_python_thread *python,
		    bool *shown);

/* The role of a native frame next to Python frames. */
enum vt_merge_role {
	VT_MERGE_OTHER,
	VT_MERGE_EVALUATOR,   /* runs Python frames */
	VT_MERGE_INTERPRETER, /* interpreter code that adds nothing to the Python frames */
	VT_MERGE_STARTUP,     /* the startup code of a program or a thread */
};

/* interpreter: the module of the evaluators, NULL when there is none. */
enum vt_merge_role vt_merge_role(const struct vt_native_frame *frame,
				 const struct vt_module *interpreter);

/* ---- merge_recorded.c: recorded stacks; many of them share places ---- */

/* Each place once, as frames of the model. */
struct vt_recorded_places {
	struct vt_model_frame *frames;
	size_t n;
	size_t n_python; /* Python place i is frames[i] */
	/*
	 * Native place i is frames[first[i]] to frames[first[i + 1] - 1]: the functions inlined
	 * there, then the function itself.
	 */
	const uint32_t *first;
	const uint8_t *roles; /* of native places: enum vt_merge_role */
};

/*
 * python: all Python places as the frames of one thread. native: all native places as the frames of
 * one stack. Both have names. Everything is allocated in arena. False when out of memory.
 */
bool vt_recorded_places_init(struct vt_recorded_places *places,
			     const struct vt_python_thread *python,
			     const struct vt_native_stack *native, struct vt_arena *arena);

/*
 * Merges one stack: n_python Python places and n_native native ones, both innermost first. Sets
 * trace->frames, .n_frames and .merge_uncertain. The recording does not tell which Python frames
 * began an evaluator call. Native frames inside the innermost evaluator are inside the innermost
 * Python frame. When the number of evaluators and of Python frames differ, the outer native frames
 * that say anything follow the Python frames.
 */
bool vt_merge_recorded(const struct vt_recorded_places *places, const uint32_t *python,
		       size_t n_python, const uint32_t *native, size_t n_native,
		       struct vt_model_trace *trace, struct vt_arena *arena);

#endif
