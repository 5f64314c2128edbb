/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stacks that records refer to. Only requested stacks are read, each once, and each place in
 * them once. They are read after the records. The tables only grow while the recorder is on, so
 * they have every stack that a record refers to.
 */
#ifndef VT_WALK_RECORDER_STACKS_H
#define VT_WALK_RECORDER_STACKS_H

#include "base/arena.h"
#include "base/map.h"
#include "walk/python/places.h"
#include "walk/recorder/recorder.h"

struct vt_recorder_trace {
	uint32_t id; /* in the recorder's table of stacks */
	uint32_t n_python, n_native;
	uint16_t flags; /* enum vt_recorder_stack_flags */
	bool invalid;   /* inconsistent, or there is no such stack: it has no frames */
	/* n_python indices in python, then n_native in native; each innermost first */
	uint32_t *frames;
};

struct vt_recorder_stacks {
	VT_VEC(struct vt_recorder_trace) traces;
	VT_VEC(struct vt_python_place) python; /* unique; not valid: code gone or unreadable */
	VT_VEC(uint32_t) code_of;              /* for each in python: index in codes */
	VT_VEC(struct vt_recorder_code) codes;
	VT_VEC(uint64_t) native; /* return addresses; unique */
	struct vt_map trace_of;  /* id → index in traces */
	size_t n_invalid;        /* traces */
	size_t n_gone;           /* code objects that no longer exist */
	bool cut;                /* there were too many */
	char why[96];            /* why the first invalid one is; "" none */
	struct vt_arena arena;
	/* private: */
	struct vt_map codes_of, python_of, native_of;
	VT_VEC(uint64_t) code_ids;
	uint64_t n_words;
};

#define VT_RECORDER_NO_TRACE UINT32_MAX

/*
 * Requests a stack. *trace: its index in traces; VT_RECORDER_NO_TRACE when there are too many.
 * False when out of memory.
 */
bool vt_recorder_stacks_want(struct vt_recorder_stacks *stacks, uint32_t id, uint32_t *trace);

/*
 * Reads all requested stacks. head_addr: of the recorder's head. Fails when the target is gone or
 * memory runs out.
 */
struct vt_error *vt_recorder_stacks_read(struct vt_memsrc *src, uint64_t head_addr,
					 struct vt_recorder_stacks *stacks);

/*
 * Names the places in Python. A code object may have been freed since, and its memory reused. So it
 * counts only if it looks as recorded, both before and after its names are read. src must not be
 * cached when it is not coherent; names_src may be.
 */
struct vt_error *vt_recorder_stacks_name(struct vt_recorder_stacks *stacks, struct vt_python *py,
					 struct vt_memsrc *src, struct vt_memsrc *names_src);

void vt_recorder_stacks_deinit(struct vt_recorder_stacks *stacks);

#endif
