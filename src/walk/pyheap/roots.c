/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the interpreter itself holds: modules, sys, threads, and some registries. Its struct is not
 * searched as a whole: it has lists of free objects, which still point to what they had.
 */
#include "walk/pyheap/internal.h"

#define MAX_WORK (UINT64_C(1) << 26) /* words of one exploration: 3 million objects have 20 */
#define MAX_THREAD_STATE 4096u       /* bytes; some 300 */
#define MAX_EXIT_FUNCTIONS 10000
#define MAX_SYS 1024 /* entries of sys's dict */

static void add_modules(struct vt_pyheap *heap)
{
	uint64_t modules = vt_pyheap_u64(heap, heap->interpreter, VT_PY_INTERP_MODULES), at = 0;
	uint64_t main = modules ? vt_pyheap_lookup(heap, modules, "__main__", 4096, &at) : 0;
	struct vt_pyheap_table table;

	if (main)
		vt_pyheap_add(heap, VT_EDGE_MAIN, at, main);
	if (!modules || !vt_pyheap_table_of(heap, modules, &table))
		return;
	for (uint64_t i = 0; i < table.n && vt_pyheap_pay(heap, i, table.n); i++) {
		uint64_t module = vt_pyheap_table_value(heap, &table, i);

		if (module && module != main)
			vt_pyheap_add(heap, VT_EDGE_MODULE, i, module);
	}
	vt_pyheap_add(heap, VT_EDGE_INTERPRETER, vt_pyheap_at(heap, VT_PY_INTERP_MODULES), modules);
}

/* What the last exception that nobody handled left behind. */
static void add_sys(struct vt_pyheap *heap)
{
	static const char *const last[] = { "last_value", "last_exc", "last_traceback",
					    "last_type" };
	uint64_t sys = vt_pyheap_u64(heap, heap->interpreter, VT_PY_INTERP_SYSDICT), at;

	if (!sys)
		return;
	heap->sysdict = sys;
	for (size_t i = 0; i < sizeof(last) / sizeof(last[0]); i++) {
		uint64_t value = vt_pyheap_lookup(heap, sys, last[i], MAX_SYS, &at);

		heap->last[i] = value ? at : UINT64_MAX;
		if (value)
			vt_pyheap_add(heap, VT_EDGE_LAST, at, value);
	}
	vt_pyheap_add(heap, VT_EDGE_SYS, 0, sys);
}

static void add_frame(struct vt_pyheap *heap, uint64_t tid, uint64_t frame)
{
	if (!vt_pyheap_has(heap, VT_PY_FRAME_FUNCTION)) /* up to 3.10 it is an object */
		vt_pyheap_add(heap, VT_EDGE_THREAD, tid, frame);
	else if (frame && !(frame & 7))
		vt_graph_edge(heap->graph, VT_EDGE_THREAD, tid, frame, VT_NODE_FRAME);
}

/* Each word of a thread's state that is an object. */
static void add_state(struct vt_pyheap *heap, uint64_t tid, uint64_t tstate)
{
	struct vt_pyheap_cursor cursor = { 0 };
	uint32_t size = vt_pyheap_at(heap, VT_PY_TSTATE_SIZE);
	/* Up to 3.10 the frame that it runs is an object, and is not owned. */
	uint32_t frame = vt_pyheap_at(heap, VT_PY_TSTATE_FRAME);
	uint64_t word;

	for (uint32_t at = 0; size <= MAX_THREAD_STATE && at + 8 <= size; at += 8) {
		if (at != frame && vt_pyheap_next(heap, &cursor, tstate + at, &word))
			vt_pyheap_guess(heap, VT_EDGE_THREAD_STATE, tid, word);
	}
}

static void add_threads(struct vt_pyheap *heap)
{
	for (size_t i = 0; i < heap->py->threads.n; i++) {
		const struct vt_python_thread *thread = &heap->py->threads.data[i];

		for (size_t f = 0; f < thread->frames.n; f++)
			add_frame(heap, (uint64_t)thread->tid, thread->frames.data[f].frame);
	}
	for (size_t i = 0; i < heap->py->threads.n; i++)
		add_state(heap, (uint64_t)heap->py->threads.data[i].tid,
			  heap->py->threads.data[i].tstate);
}

/* 3.10 to 3.13: pointers to what a struct of three has: a function, its arguments. */
static void add_exit_functions(struct vt_pyheap *heap)
{
	uint64_t array = vt_pyheap_u64(heap, heap->interpreter, VT_PY_INTERP_ATEXIT);
	int32_t n = vt_pyheap_i32(heap, heap->interpreter, VT_PY_INTERP_ATEXIT_N);

	for (int32_t i = 0; array && i < n && i < MAX_EXIT_FUNCTIONS; i++) {
		uint64_t item = vt_pyheap_get(heap, array + (uint64_t)i * 8);

		for (uint64_t word = 0; item && word < 3; word++)
			vt_pyheap_guess(heap, VT_EDGE_INTERPRETER,
					vt_pyheap_at(heap, VT_PY_INTERP_ATEXIT),
					vt_pyheap_get(heap, item + word * 8));
	}
}

static void add_interpreter(struct vt_pyheap *heap)
{
	static const enum vt_py_field held[] = {
		VT_PY_INTERP_BUILTINS,          VT_PY_INTERP_IMPORTLIB,
		VT_PY_INTERP_IMPORT_FUNC,       VT_PY_INTERP_DICT,
		VT_PY_INTERP_CODEC_PATH,        VT_PY_INTERP_CODEC_CACHE,
		VT_PY_INTERP_CODEC_ERRORS,      VT_PY_INTERP_BEFORE_FORK,
		VT_PY_INTERP_AFTER_FORK_PARENT, VT_PY_INTERP_AFTER_FORK_CHILD,
		VT_PY_INTERP_ATEXIT_LIST,
	};
	static const enum vt_py_field of_collector[] = { VT_PY_GC_GARBAGE, VT_PY_GC_CALLBACKS };
	uint64_t gc = vt_pyheap_has(heap, VT_PY_RUNTIME_GC) ?
			      heap->py->runtime + vt_pyheap_at(heap, VT_PY_RUNTIME_GC) :
			      heap->interpreter + vt_pyheap_at(heap, VT_PY_INTERP_GC);

	for (size_t i = 0; i < sizeof(held) / sizeof(held[0]); i++)
		vt_pyheap_guess(heap, VT_EDGE_INTERPRETER, vt_pyheap_at(heap, held[i]),
				vt_pyheap_u64(heap, heap->interpreter, held[i]));
	for (size_t i = 0; i < sizeof(of_collector) / sizeof(of_collector[0]); i++)
		vt_pyheap_guess(heap, VT_EDGE_INTERPRETER, vt_pyheap_at(heap, of_collector[i]),
				vt_pyheap_u64(heap, gc, of_collector[i]));
	add_exit_functions(heap);
}

void vt_pyheap_roots(struct vt_pyheap *heap)
{
	heap->work_left = MAX_WORK;
	heap->sysdict = 0;
	if (!heap->interpreter)
		return;
	add_modules(heap);
	add_threads(heap);
	add_sys(heap);
	add_interpreter(heap);
}
