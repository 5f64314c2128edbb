/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The references of an object: those at fixed places, which its class knows, its attributes, and
 * what its shape adds to it.
 */
#include "walk/pyheap/internal.h"

#define AHEAD 6 /* objects that are brought near meanwhile */

/* What follows the body of an object of a C type: any of it may be a reference. */
static void add_items(struct vt_pyheap *heap, uint64_t object, const struct vt_pyheap_class *cls)
{
	uint64_t n = vt_pyheap_size(heap, object), word;
	uint64_t at = object + (uint64_t)cls->basicsize;
	struct vt_pyheap_cursor cursor = { 0 };

	if (at & 7 || n > VT_PYHEAP_MAX_BODY || !vt_pyheap_work(heap, n))
		return;
	for (uint64_t i = 0; i < n; i++) {
		if (!vt_pyheap_next(heap, &cursor, at + i * 8, &word))
			return;
		vt_pyheap_guess(heap, VT_EDGE_BODY, (uint64_t)cls->basicsize + i * 8, word);
	}
}

static void add_words(struct vt_pyheap *heap, uint64_t object, uint32_t cls)
{
	struct vt_pyheap_cursor cursor = { 0 };
	uint32_t first = heap->classes.data[cls].first_word, n = heap->classes.data[cls].n_words;

	if (!vt_pyheap_work(heap, n))
		return;
	for (uint32_t i = 0; i < n; i++) {
		/* There may be more classes now: the array may have moved. */
		struct vt_pyheap_word place = heap->words.data[first + i];
		uint64_t word;

		if (!vt_pyheap_next(heap, &cursor, object + place.at, &word)) {
			vt_pyheap_cut(heap);
			return;
		}
		if (place.exact)
			vt_pyheap_add(heap, (enum vt_edge_kind)place.kind, place.at, word);
		else if (word)
			vt_pyheap_guess(heap, (enum vt_edge_kind)place.kind, place.at, word);
	}
}

static void add_module(struct vt_pyheap *heap, uint64_t object)
{
	if (vt_pyheap_has(heap, VT_PY_TYPE_MODULE) &&
	    vt_pyheap_u64(heap, object, VT_PY_TYPE_FLAGS) & VT_PYHEAP_HEAP_TYPE)
		vt_pyheap_add(heap, VT_EDGE_BODY, vt_pyheap_at(heap, VT_PY_TYPE_MODULE),
			      vt_pyheap_u64(heap, object, VT_PY_TYPE_MODULE));
}

static void (*const walks[VT_PYHEAP_N_WALKS])(struct vt_pyheap *heap, uint64_t object) = {
	[VT_PYHEAP_WALK_LIST] = vt_pyheap_list,
	[VT_PYHEAP_WALK_TUPLE] = vt_pyheap_tuple,
	[VT_PYHEAP_WALK_DICT] = vt_pyheap_dict,
	[VT_PYHEAP_WALK_SET] = vt_pyheap_set,
	[VT_PYHEAP_WALK_DEQUE] = vt_pyheap_deque,
	[VT_PYHEAP_WALK_CLASS] = add_module,
	[VT_PYHEAP_WALK_TEE] = vt_pyheap_tee,
	[VT_PYHEAP_WALK_QUEUE] = vt_pyheap_queue,
	[VT_PYHEAP_WALK_FUNCTION] = vt_pyheap_function,
	[VT_PYHEAP_WALK_GENERATOR] = vt_pyheap_generator,
	[VT_PYHEAP_WALK_FRAME] = vt_pyheap_frame_object,
};

void vt_pyheap_edges(struct vt_pyheap *heap, uint32_t node)
{
	uint64_t object = heap->graph->nodes.data[node].addr, type;
	uint32_t cls;

	if (node + AHEAD < heap->graph->nodes.n)
		vt_pyheap_expect(heap, heap->graph->nodes.data[node + AHEAD].addr);
	if (heap->graph->nodes.data[node].kind == VT_NODE_FRAME) {
		vt_pyheap_frame(heap, object);
		return;
	}
	cls = vt_pyheap_class_of(heap, object);
	if (cls == VT_GRAPH_NONE || heap->classes.data[cls].leaf)
		return;

	const struct vt_pyheap_class known = heap->classes.data[cls]; /* it may move */

	if (known.heap && vt_pyheap_word(heap, object + heap->type_at, &type))
		vt_graph_edge(heap->graph, VT_EDGE_TYPE, 0, type, VT_NODE_PYTHON);
	add_words(heap, object, cls);
	vt_pyheap_attributes(heap, object, cls);
	if (known.walk == VT_PYHEAP_WALK_ITEMS)
		add_items(heap, object, &known);
	else if (walks[known.walk])
		walks[known.walk](heap, object);
}
