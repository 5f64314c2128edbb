/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where asyncio keeps its tasks:
 *
 *   3.11       the module's _all_tasks, a WeakSet
 *   3.12 on    _scheduled_tasks, a WeakSet, and _eager_tasks, a set
 *   3.14 on    tasks of C are in lists through the tasks themselves, one a thread, and one of the
 *              interpreter with those whose thread has ended. The sets have others' tasks only. The
 *              module says where the lists are (Modules/_asynciomodule.c, .AsyncioDebug).
 */
#include <string.h>

#include "base/clock.h"
#include "walk/asyncio/internal.h"
#include "walk/native/symfile.h"

#define MAX_PLACES (UINT64_C(1) << 20) /* of a set */
#define MAX_OFFSET (UINT64_C(1) << 20) /* of a field: an interpreter's state has some 400 KiB */

/* The words of the section, as 3.14 has them. */
enum {
	DEBUG_TASK_SIZE,
	DEBUG_TASK_NODE = 6,
	DEBUG_INTERPRETER_TASKS = 8,
	DEBUG_THREAD_TASKS = 12,
	N_DEBUG,
};

static bool is_over(struct vt_asyncio_reader *r)
{
	if (r->out->tasks.n < VT_ASYNCIO_MAX_TASKS && !r->nomem &&
	    !vt_deadline_passed(r->deadline_ns))
		return false;
	r->out->cut = true;
	return true;
}

static void add(void *arg, uint64_t task)
{
	struct vt_asyncio_reader *r = arg;

	if (!is_over(r))
		vt_asyncio_add(r, task);
}

/* PyWeakReference: the object comes first; None when it is gone. */
static void add_referent(void *arg, uint64_t reference)
{
	struct vt_asyncio_reader *r = arg;
	const struct vt_pyheap_class *cls = vt_asyncio_class(r, reference);

	if (cls && cls->shape == VT_PYHEAP_WEAKREF)
		add(r, vt_asyncio_word(r, reference, 0));
}

static void add_set(struct vt_asyncio_reader *r, uint64_t set,
		    void (*visit)(void *arg, uint64_t item))
{
	if (set && vt_pyheap_each(&r->heap, set, MAX_PLACES, visit, r) > MAX_PLACES)
		r->out->cut = true;
}

/* Whether the module has one of the sets: else it is none that is known. */
static bool add_sets(struct vt_asyncio_reader *r, uint64_t module)
{
	static const char *const weak[] = { "_all_tasks", "_scheduled_tasks" };
	bool found = false;

	for (size_t i = 0; i < sizeof(weak) / sizeof(weak[0]); i++) {
		uint64_t set = vt_pyheap_attribute(&r->heap, module, weak[i]);
		uint64_t data = set ? vt_pyheap_attribute(&r->heap, set, "data") : 0;

		add_set(r, data, add_referent);
		found |= data != 0;
	}
	add_set(r, vt_pyheap_attribute(&r->heap, module, "_eager_tasks"), add);
	return found;
}

/* ---- 3.14 on ---- */

static bool read_debug(struct vt_asyncio_reader *r, struct vt_module *module, uint64_t *words)
{
	VT_ERROR struct vt_error *err = vt_module_open(r->modules, module);
	struct vt_symfile file = { .fd = -1 };
	const Elf64_Shdr *section = NULL;
	uint64_t at = 0;

	if (err || !module->image)
		return false;
	file.data = module->image;
	file.size = module->image_size;
	if (vt_symfile_init(&file))
		section = vt_symfile_named(&file, ".AsyncioDebug");
	if (section && section->sh_size >= N_DEBUG * sizeof(*words))
		at = section->sh_addr + module->bias;
	vt_symfile_deinit(&file);
	return at && vt_pages_read(&r->pages, at, words, N_DEBUG * sizeof(*words));
}

static bool find_debug(struct vt_asyncio_reader *r, uint64_t *words)
{
	struct vt_module *module;
	bool found = false;

	for (size_t i = 0; !found && (module = vt_modules_by_name(r->modules, "_asyncio.", &i));)
		found = read_debug(r, module, words);
	return found && words[DEBUG_TASK_SIZE] < MAX_OFFSET &&
	       words[DEBUG_TASK_NODE] < words[DEBUG_TASK_SIZE] &&
	       words[DEBUG_INTERPRETER_TASKS] < MAX_OFFSET &&
	       words[DEBUG_THREAD_TASKS] < MAX_OFFSET;
}

/* struct llist_node: next, previous. The head is one of its ring. */
static void add_ring(struct vt_asyncio_reader *r, uint64_t head, uint64_t node_at)
{
	uint64_t node = vt_pages_u64(&r->pages, head);

	for (size_t n = 0; node && node != head && !is_over(r); n++) {
		if (node & 7 || n > VT_ASYNCIO_MAX_TASKS) {
			r->out->cut = true;
			return;
		}
		vt_asyncio_add(r, node - node_at);
		node = vt_pages_u64(&r->pages, node);
	}
	if (!node) /* it changed, or cannot be read */
		r->out->cut = true;
}

static bool add_rings(struct vt_asyncio_reader *r)
{
	uint64_t words[N_DEBUG];

	if (!find_debug(r, words))
		return false;
	for (size_t i = 0; i < r->py->threads.n; i++)
		if (r->py->threads.data[i].interpreter == r->heap.interpreter)
			add_ring(r, r->py->threads.data[i].tstate + words[DEBUG_THREAD_TASKS],
				 words[DEBUG_TASK_NODE]);
	add_ring(r, r->heap.interpreter + words[DEBUG_INTERPRETER_TASKS], words[DEBUG_TASK_NODE]);
	return true;
}

void vt_asyncio_list(struct vt_asyncio_reader *r)
{
	uint64_t module = vt_pyheap_module(&r->heap, "asyncio.tasks");
	bool found;

	if (!module)
		return;
	r->out->used = true;
	found = add_sets(r, module);
	if (r->py->minor >= 14)
		found = add_rings(r) && found;
	if (!found)
		r->out->why = "where this CPython keeps them is not known";
}
