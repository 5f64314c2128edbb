/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames: up to 3.10 objects; from 3.11 on structs in a thread's memory, in a generator, or, when
 * the function has ended and somebody still has it, in a frame object.
 */
#include "walk/pyheap/internal.h"

#define MAX_STACK 4096
#define NO_TAGS 1 /* a reference with this tag is one that is not counted (3.14) */

/* 3.11 on: the interpreter's frame is no object. */
static bool is_struct(const struct vt_pyheap *heap)
{
	return vt_pyheap_has(heap, VT_PY_FRAME_FUNCTION);
}

static uint64_t untagged(const struct vt_pyheap *heap, uint64_t word)
{
	uint64_t tags = vt_pyheap_at(heap, VT_PY_CODE_TAGS);

	/* All of them set is a small number (Include/internal/pycore_stackref.h of 3.14). */
	return tags > 1 && (word & tags) == tags ? 0 : word & ~tags;
}

uint64_t vt_pyheap_frame_code(struct vt_pyheap *heap, uint64_t frame)
{
	return untagged(heap, vt_pyheap_u64(heap, frame, VT_PY_FRAME_CODE));
}

/* ---- variables and evaluation stacks ---- */

static void add_slots(struct vt_pyheap *heap, enum vt_edge_kind kind, uint64_t addr, uint64_t n)
{
	struct vt_pyheap_cursor cursor = { 0 };
	uint64_t word;

	if (addr & 7 || !vt_pyheap_work(heap, n)) {
		vt_pyheap_cut(heap);
		return;
	}
	for (uint64_t i = 0; i < n; i++) {
		enum vt_edge_kind as = kind;

		if (!vt_pyheap_next(heap, &cursor, addr + i * 8, &word))
			return; /* a stack may end with its memory */
		if (kind == VT_EDGE_STACK && word & NO_TAGS)
			as = VT_EDGE_STACK_OLD;
		if (kind == VT_EDGE_STACK_OLD)
			vt_pyheap_guess(heap, as, i, untagged(heap, word));
		else
			vt_pyheap_add(heap, as, i, untagged(heap, word));
	}
}

/* How many items the evaluation stack at addr has; -1 when the evaluator has it in a register. */
static int64_t stack_items(struct vt_pyheap *heap, uint64_t frame, uint64_t addr)
{
	uint64_t top;
	int32_t n;

	if (vt_pyheap_has(heap, VT_PY_FRAME_STACK_TOP)) {
		top = vt_pyheap_u64(heap, frame, VT_PY_FRAME_STACK_TOP);
		if (!top && vt_pyheap_has(heap, VT_PY_FRAME_EXECUTING) &&
		    !vt_pyheap_u8(heap, frame, VT_PY_FRAME_EXECUTING))
			return 0;
		return top >= addr && top - addr <= MAX_STACK * 8 ? (int64_t)(top - addr) / 8 : -1;
	}
	if (vt_pyheap_has(heap, VT_PY_FRAME_STACK_DEPTH)) {
		n = vt_pyheap_i32(heap, frame, VT_PY_FRAME_STACK_DEPTH);
	} else {
		uint64_t first = frame + vt_pyheap_at(heap, VT_PY_FRAME_LOCALS);

		n = vt_pyheap_i32(heap, frame, VT_PY_FRAME_STACK_END);
		n = n < 0 ? -1 : n - (int32_t)((addr - first) / 8);
	}
	return n >= 0 && n <= MAX_STACK ? n : -1;
}

static void add_stack(struct vt_pyheap *heap, uint64_t frame, uint64_t code, uint64_t addr)
{
	int64_t n = stack_items(heap, frame, addr);
	int32_t most = vt_pyheap_i32(heap, code, VT_PY_CODE_STACKSIZE);

	if (n >= 0)
		add_slots(heap, VT_EDGE_STACK, addr, (uint64_t)n);
	else if (most > 0)
		add_slots(heap, VT_EDGE_STACK_OLD, addr,
			  most < MAX_STACK ? (uint64_t)most : MAX_STACK);
}

uint64_t vt_pyheap_stack_top(struct vt_pyheap *heap, uint64_t frame)
{
	uint64_t n = vt_pyheap_variables(heap, vt_pyheap_frame_code(heap, frame));
	uint64_t addr = frame + vt_pyheap_at(heap, VT_PY_FRAME_LOCALS) + n * 8;
	int64_t items = stack_items(heap, frame, addr);

	return items > 0 ? untagged(heap, vt_pyheap_get(heap, addr + (uint64_t)(items - 1) * 8)) :
			   0;
}

/*
 * The mapping of names of a frame that is no function's. Of a module it is its dict, which is
 * mostly called by the module's name.
 */
static void add_names(struct vt_pyheap *heap, uint64_t frame)
{
	uint64_t names = vt_pyheap_u64(heap, frame, VT_PY_FRAME_NAMES);
	bool module = names == vt_pyheap_u64(heap, frame, VT_PY_FRAME_GLOBALS);

	vt_pyheap_add(heap, module ? VT_EDGE_GLOBALS : VT_EDGE_DICT, 0, names);
}

void vt_pyheap_frame(struct vt_pyheap *heap, uint64_t frame)
{
	uint64_t code = vt_pyheap_frame_code(heap, frame);
	uint64_t locals = frame + vt_pyheap_at(heap, VT_PY_FRAME_LOCALS);
	uint64_t n = vt_pyheap_variables(heap, code);

	if (!is_struct(heap) || !vt_py_is(heap->py, &heap->pages->src, code, VT_PYTHON_CODE))
		return;
	add_slots(heap, VT_EDGE_LOCAL, locals, n);
	add_stack(heap, frame, code, locals + n * 8);
	add_names(heap, frame);
	vt_pyheap_add(heap, VT_EDGE_CODE, vt_pyheap_at(heap, VT_PY_FRAME_FUNCTION),
		      untagged(heap, vt_pyheap_u64(heap, frame, VT_PY_FRAME_FUNCTION)));
	vt_pyheap_add(heap, VT_EDGE_BODY, vt_pyheap_at(heap, VT_PY_FRAME_OBJECT),
		      vt_pyheap_u64(heap, frame, VT_PY_FRAME_OBJECT));
}

/* ---- frame objects ---- */

static void add_owned(struct vt_pyheap *heap, uint64_t object)
{
	uint64_t frame = vt_pyheap_u64(heap, object, VT_PY_FRAMEOBJ_FRAME);

	/* Others belong to a thread or to a generator. */
	if (frame && !(frame & 7) &&
	    vt_pyheap_u8(heap, frame, VT_PY_FRAME_OWNER) ==
		    vt_pyheap_at(heap, VT_PY_OWNER_FRAME_OBJECT))
		vt_graph_edge(heap->graph, VT_EDGE_FRAME, 0, frame, VT_NODE_FRAME);
}

void vt_pyheap_frame_object(struct vt_pyheap *heap, uint64_t object)
{
	uint64_t code, stack, n;

	if (is_struct(heap)) {
		add_owned(heap, object);
		return;
	}
	code = vt_pyheap_frame_code(heap, object);
	n = vt_pyheap_variables(heap, code);
	stack = vt_pyheap_u64(heap, object, VT_PY_FRAME_STACK);
	add_slots(heap, VT_EDGE_LOCAL, object + vt_pyheap_at(heap, VT_PY_FRAME_LOCALS), n);
	if (stack && !(stack & 7))
		add_stack(heap, object, code, stack);
	add_names(heap, object);
	vt_pyheap_add(heap, VT_EDGE_BACK, 0, vt_pyheap_u64(heap, object, VT_PY_FRAME_PREVIOUS));
	vt_pyheap_add(heap, VT_EDGE_GLOBALS, 0, vt_pyheap_u64(heap, object, VT_PY_FRAME_GLOBALS));
	vt_pyheap_add(heap, VT_EDGE_CODE, 0, vt_pyheap_u64(heap, object, VT_PY_FRAME_BUILTINS));
	/* f_trace follows f_stacktop, or has its place (3.10: before f_stackdepth) */
	vt_pyheap_add(heap, VT_EDGE_BODY, vt_pyheap_at(heap, VT_PY_FRAMEOBJ_TRACE),
		      vt_pyheap_u64(heap, object, VT_PY_FRAMEOBJ_TRACE));
}

void vt_pyheap_generator(struct vt_pyheap *heap, uint64_t object)
{
	int8_t state;

	if (!is_struct(heap)) {
		vt_pyheap_add(heap, VT_EDGE_SUSPENDED, 0,
			      vt_pyheap_u64(heap, object, VT_PY_GEN_FRAME));
		return;
	}
	state = (int8_t)vt_pyheap_u8(heap, object, VT_PY_GEN_STATE);
	if (vt_pyheap_has(heap, VT_PY_GEN_FRAME) &&
	    state < (int8_t)vt_pyheap_at(heap, VT_PY_FRAME_CLEARED))
		vt_graph_edge(heap->graph, VT_EDGE_SUSPENDED, 0,
			      object + vt_pyheap_at(heap, VT_PY_GEN_FRAME), VT_NODE_FRAME);
}
