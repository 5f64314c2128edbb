/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who waits for a task. What waits has left a callback at what it waits for:
 *
 *   await task          a built-in method of the task that waits
 *   gather(), wait(),   a Python function, whose cells have the future that is waited for; that has
 *   shield()            a callback itself
 *   TaskGroup           a method of the group, whose _parent_task waits, in __aexit__()
 *   wait_for() of 3.11  a functools.partial, whose argument is the future that is waited for
 *
 * (Lib/asyncio/tasks.py and taskgroups.py of 3.11 to 3.14.)
 */
#include <string.h>

#include "base/clock.h"
#include "walk/asyncio/internal.h"

#define MAX_CALLBACKS 1000          /* of one future */
#define MAX_CELLS 16                /* of one function */
#define MAX_DEPTH 4                 /* shield() in gather() in wait() */
#define MAX_STEPS UINT64_C(4000000) /* of all tasks; 20,000 take some 100,000 */

struct search {
	struct vt_asyncio_reader *r;
	size_t task; /* that is waited for */
	int depth;
};

static void follow(struct search *s, uint64_t callback);

static bool pay(struct search *s, uint64_t steps)
{
	struct vt_asyncio_reader *r = s->r;
	bool enough = r->steps_left >= steps;

	r->steps_left = enough ? r->steps_left - steps : 0;
	if (r->steps_left % 256 == 0 && vt_deadline_passed(r->deadline_ns))
		r->steps_left = 0;
	if (!enough)
		r->out->cut = true;
	return enough && !r->nomem;
}

static void add_waiter(struct search *s, uint64_t task)
{
	const uint64_t *index = vt_map_get(&s->r->index, task);
	struct vt_asyncio_task *awaited = &s->r->out->tasks.data[s->task];
	size_t *added;

	if (!index || *index - 1 == s->task || !pay(s, awaited->waiters.n))
		return;
	for (size_t i = 0; i < awaited->waiters.n; i++)
		if (awaited->waiters.data[i] == *index - 1)
			return;
	added = vt_vec_append(&awaited->waiters);
	if (added)
		*added = *index - 1;
	else
		s->r->nomem = true;
}

/* An item of fut_callbacks: a tuple of a callback and its context. */
static void follow_pair(void *arg, uint64_t pair)
{
	struct search *s = arg;
	const struct vt_pyheap_class *cls = vt_asyncio_class(s->r, pair);

	if (cls && cls->shape == VT_PYHEAP_TUPLE)
		follow(s,
		       vt_pages_u64(&s->r->pages, pair + s->r->py->layout->at[VT_PY_TUPLE_ITEMS]));
}

static void follow_future(struct search *s, uint64_t future)
{
	uint64_t more = vt_asyncio_word(s->r, future, VT_ASYNCIO_CALLBACKS);
	const struct vt_pyheap_class *cls = vt_asyncio_class(s->r, more);
	bool is_list = cls && cls->shape == VT_PYHEAP_LIST; /* cls ends with the next class */

	follow(s, vt_asyncio_word(s->r, future, VT_ASYNCIO_CALLBACK));
	if (is_list &&
	    vt_pyheap_each(&s->r->heap, more, MAX_CALLBACKS, follow_pair, s) > MAX_CALLBACKS)
		s->r->out->cut = true;
}

static void follow_argument(void *arg, uint64_t object)
{
	struct search *s = arg;

	if (vt_asyncio_kind_of(s->r, object) == VT_ASYNCIO_FUTURE)
		follow_future(s, object);
}

/* A variable that a callback closes over: the future that stands for the group. */
static void follow_cell(void *arg, uint64_t cell)
{
	struct search *s = arg;
	const struct vt_python_layout *layout = s->r->py->layout;
	const struct vt_pyheap_class *cls = vt_asyncio_class(s->r, cell);

	if (cls && cls->shape == VT_PYHEAP_CELL)
		follow_argument(s, vt_pages_u64(&s->r->pages, cell + layout->at[VT_PY_CELL_VALUE]));
}

/* A method of a group of tasks, or of the task that waits. */
static void follow_self(struct search *s, uint64_t self)
{
	uint64_t parent;

	if (vt_asyncio_kind_of(s->r, self) == VT_ASYNCIO_TASK) {
		add_waiter(s, self);
		return;
	}
	parent = vt_pyheap_attribute(&s->r->heap, self, "_parent_task");
	/* The one that made the group may be still at work in it: it waits when it awaits. */
	if (vt_asyncio_kind_of(s->r, parent) == VT_ASYNCIO_TASK &&
	    vt_pyheap_attribute(&s->r->heap, self, "_on_completed_fut") ==
		    vt_asyncio_awaited(s->r, parent))
		add_waiter(s, parent);
}

static void follow(struct search *s, uint64_t callback)
{
	const struct vt_pyheap_class *cls = vt_asyncio_class(s->r, callback);

	if (!cls || s->depth >= MAX_DEPTH || !pay(s, 1))
		return;
	s->depth++;
	/* PyMethodObject and PyCFunctionObject: the object is the second word. */
	if (cls->shape == VT_PYHEAP_METHOD)
		follow_self(s, vt_asyncio_word(s->r, callback, 8));
	else if (cls->shape == VT_PYHEAP_FUNCTION)
		vt_pyheap_each(&s->r->heap,
			       vt_pages_u64(&s->r->pages,
					    callback + s->r->py->layout->at[VT_PY_FUNC_CLOSURE]),
			       MAX_CELLS, follow_cell, s);
	else if (!strcmp(cls->name, "partial")) /* struct partialobject: the function, a tuple */
		vt_pyheap_each(&s->r->heap, vt_asyncio_word(s->r, callback, 8), MAX_CELLS,
			       follow_argument, s);
	s->depth--;
}

void vt_asyncio_find_waiters(struct vt_asyncio_reader *r)
{
	r->steps_left = MAX_STEPS;
	for (size_t i = 0; i < r->out->tasks.n && !r->nomem; i++) {
		struct search s = { .r = r, .task = i };

		follow_future(&s, r->out->tasks.data[i].addr);
	}
}
