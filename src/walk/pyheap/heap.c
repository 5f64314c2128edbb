/* SPDX-License-Identifier: Apache-2.0 */
#include "walk/pyheap/internal.h"

/*
 * What the walk cannot do without. Of the rest, what a release lacks is not looked for.
 */
static const enum vt_py_field needed[] = {
	VT_PY_OBJECT_TYPE,    VT_PY_OBJECT_SIZE,    VT_PY_TYPE_NAME,     VT_PY_TYPE_FLAGS,
	VT_PY_TYPE_BASE,      VT_PY_TYPE_BASICSIZE, VT_PY_TYPE_ITEMSIZE, VT_PY_TYPE_WEAKLIST,
	VT_PY_TYPE_TRAVERSE,  VT_PY_TYPE_MEMBERS,   VT_PY_TYPE_DICT,     VT_PY_TYPE_DICTOFFSET,
	VT_PY_TYPE_MRO,       VT_PY_TUPLE_ITEMS,    VT_PY_LIST_ITEMS,    VT_PY_DICT_KEYS,
	VT_PY_DICT_VALUES,    VT_PY_KEYS_NENTRIES,  VT_PY_KEYS_INDICES,  VT_PY_INTERP_MODULES,
	VT_PY_INTERP_SYSDICT,
};

/*
 * tp_traverse of all classes that class statements made is the same function (subtype_traverse() in
 * Objects/typeobject.c), and no other class has it. One such class is there always: the import
 * system's own ModuleSpec.
 */
static uint64_t find_class_traverse(struct vt_pyheap *heap)
{
	uint64_t at, modules = vt_pyheap_u64(heap, heap->interpreter, VT_PY_INTERP_MODULES);
	uint64_t module = vt_pyheap_lookup(heap, modules, "_frozen_importlib", 4096, &at);
	uint64_t dict = module ? vt_pyheap_get(heap, module + heap->head) : 0;
	uint64_t spec = dict ? vt_pyheap_lookup(heap, dict, "ModuleSpec", 4096, &at) : 0;

	return spec ? vt_pyheap_u64(heap, spec, VT_PY_TYPE_TRAVERSE) : 0;
}

/* The main interpreter has the id 0. The list has the newest first. */
static uint64_t find_interpreter(struct vt_pyheap *heap)
{
	uint64_t interpreter = vt_pyheap_u64(heap, heap->py->runtime, VT_PY_RUNTIME_INTERPRETERS);

	for (int i = 0; interpreter && i < 1024; i++) {
		uint64_t next = vt_pyheap_u64(heap, interpreter, VT_PY_INTERP_NEXT);

		if (!next || !vt_pyheap_u64(heap, interpreter, VT_PY_INTERP_ID))
			return interpreter;
		interpreter = next;
	}
	return 0;
}

void vt_pyheap_forget(struct vt_pyheap *heap)
{
	vt_map_deinit(&heap->by_addr);
	heap->classes.n = 0;
	heap->words.n = 0;
	heap->module_key = 0;
	heap->class_traverse = 0;
	for (size_t i = 0; i < VT_PYHEAP_RECENT; i++) {
		heap->recent[i].type = 0;
		heap->recent[i].cls = VT_GRAPH_NONE;
		heap->recent[i].leaf = false;
	}
	memset(heap->near, 0, sizeof(heap->near));
	vt_arena_deinit(&heap->arena);
	heap->interpreter = find_interpreter(heap);
	heap->class_traverse = find_class_traverse(heap);
}

struct vt_error *vt_pyheap_init(struct vt_pyheap *heap, struct vt_python *py,
				struct vt_pages *pages, struct vt_graph *graph)
{
	*heap = (struct vt_pyheap){ .py = py, .pages = pages, .graph = graph };
	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
		if (!vt_pyheap_has(heap, needed[i]))
			return vt_error_create(VT_ERR_UNSUPPORTED,
					       "the heap of this CPython %d.%d is not laid out as "
					       "that of its release is",
					       py->major, py->minor);
	}
	heap->head = vt_pyheap_at(heap, VT_PY_OBJECT_SIZE);
	heap->type_at = vt_pyheap_at(heap, VT_PY_OBJECT_TYPE);
	vt_pyheap_forget(heap);
	return NULL;
}

void vt_pyheap_deinit(struct vt_pyheap *heap)
{
	vt_map_deinit(&heap->by_addr);
	vt_vec_deinit(&heap->classes);
	vt_vec_deinit(&heap->words);
	vt_arena_deinit(&heap->arena);
	*heap = (struct vt_pyheap){ 0 };
}
