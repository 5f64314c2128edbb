/* SPDX-License-Identifier: Apache-2.0 */
/*
 * asyncio's tasks. Some thousand tasks take longer to read than threads may be stopped, so they are
 * read while the process runs: an event loop that is stuck, or idle, does not run either, which the
 * kernel's count of its thread's turns on a processor proves.
 */
#include <string.h>

#include "base/clock.h"
#include "collect/stacks.h"
#include "explain/merge.h"
#include "walk/asyncio/asyncio.h"

#define BUDGET_NS (500 * VT_NS_PER_MS)
#define MAX_TRIES 3
#define MAX_LOOPS 16 /* threads that are watched; more event loops are not taken for still */

struct reading {
	struct vt_stacks *s;
	struct vt_python *py;
	struct vt_asyncio asyncio;
	struct vt_thread_sample loops[MAX_LOOPS];
	size_t n_loops;
	bool others; /* a loop's thread is not among them */
};

/* Any event loop, uvloop's too, is started by a function of asyncio. */
static bool runs_loop(const struct vt_python_thread *thread)
{
	for (size_t i = 0; i < thread->frames.n; i++) {
		const char *file = thread->frames.data[i].file;

		if (file && strstr(file, "/asyncio/"))
			return true;
	}
	return false;
}

/* In our pid namespace; 0 unknown. */
static pid_t tid_of(const struct vt_stacks *s, const struct vt_python_thread *thread)
{
	for (size_t i = 0; s->found && i < s->list.threads.n; i++)
		if (s->found[i].python == thread)
			return s->list.threads.data[i].tid;
	return 0;
}

static void watch_loops(struct reading *r)
{
	r->n_loops = 0;
	r->others = false;
	for (size_t i = 0; i < r->py->threads.n; i++) {
		const struct vt_python_thread *thread = &r->py->threads.data[i];
		pid_t tid = runs_loop(thread) ? tid_of(r->s, thread) : 0;

		if (!runs_loop(thread))
			continue;
		if (r->n_loops < MAX_LOOPS && tid)
			vt_thread_sample_take(&r->loops[r->n_loops++], r->s->c->target.proc.pid,
					      tid);
		else
			r->others = true;
	}
}

/* Nothing moves in a core, and while a debugger holds the process. */
static bool is_still(const struct reading *r)
{
	const struct vt_collect *c = r->s->c;

	if (!c->target.live || c->model->held_by)
		return true;
	for (size_t i = 0; i < r->n_loops; i++)
		if (!vt_thread_sample_holds(&r->loops[i], c->target.proc.pid))
			return false;
	return !r->others;
}

static struct vt_error *read_tasks(struct reading *r)
{
	struct vt_collect *c = r->s->c;
	uint64_t deadline = vt_now_ns() + BUDGET_NS;

	for (int try = 1;; try++) {
		watch_loops(r);
		VT_TRY(vt_asyncio_read(&r->asyncio, r->py, &c->target.modules, c->target.mem,
				       deadline));
		c->model->tasks.exact = is_still(r);
		if (c->model->tasks.exact || try == MAX_TRIES || vt_deadline_passed(deadline))
			return NULL;
		vt_asyncio_deinit(&r->asyncio);
	}
}

/* ---- into the model ---- */

static bool add_stack(struct vt_model *model, const struct vt_asyncio_task *from,
		      struct vt_model_task *task)
{
	struct vt_python_thread frames = { .frames = { .data = from->frames.data,
						       .n = from->frames.n } };

	frames.truncated = from->truncated;
	return vt_merge_stacks(NULL, &frames, &task->stack, &model->arena);
}

/* Lists of the tasks that each waits for, from those of the tasks that wait for each. */
static bool add_waits(const struct vt_asyncio *asyncio, struct vt_model *model)
{
	struct vt_model_task *tasks = model->tasks.tasks.data;
	size_t n = asyncio->tasks.n, edges = 0;
	VT_FREE size_t *n_waits = calloc(n + 1, sizeof(*n_waits));
	size_t *list;

	if (!n_waits)
		return false;
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < asyncio->tasks.data[i].waiters.n; k++, edges++)
			n_waits[asyncio->tasks.data[i].waiters.data[k]]++;
	list = vt_arena_alloc(&model->arena, (edges + 1) * sizeof(*list));
	if (!list)
		return false;
	for (size_t i = 0; i < n; i++) {
		tasks[i].waits_for = list;
		list += n_waits[i];
	}
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < asyncio->tasks.data[i].waiters.n; k++) {
			struct vt_model_task *t = &tasks[asyncio->tasks.data[i].waiters.data[k]];

			((size_t *)t->waits_for)[t->n_waits_for++] = i;
		}
	}
	return true;
}

static bool add_task(struct reading *r, size_t i)
{
	static const enum vt_task_state states[] = {
		[VT_ASYNCIO_WAITING] = VT_TASK_WAITING,
		[VT_ASYNCIO_READY] = VT_TASK_READY,
		[VT_ASYNCIO_RUNNING] = VT_TASK_RUNNING,
	};
	struct vt_model *model = r->s->c->model;
	const struct vt_asyncio_task *from = &r->asyncio.tasks.data[i];
	struct vt_model_task *task = vt_vec_append(&model->tasks.tasks);

	if (!task)
		return false;
	*task = (struct vt_model_task){
		.name = vt_arena_strdup(&model->arena, from->name),
		.state = states[from->state],
		.tid = from->thread < r->py->threads.n ?
			       tid_of(r->s, &r->py->threads.data[from->thread]) :
			       0,
		.awaits = from->awaits ? vt_arena_strdup(&model->arena, from->awaits) : NULL,
	};
	return task->name && add_stack(model, from, task);
}

static bool add_tasks(struct reading *r)
{
	for (size_t i = 0; i < r->asyncio.tasks.n; i++) {
		/* Of a loop that is not asyncio's own (uvloop) the thread is not known. */
		if (r->asyncio.tasks.data[i].thread == VT_ASYNCIO_NONE && r->s->c->target.live &&
		    !r->s->c->model->held_by)
			r->s->c->model->tasks.exact = false;
		if (!add_task(r, i))
			return false;
	}
	return add_waits(&r->asyncio, r->s->c->model);
}

static void say_why(struct vt_model *model, const char *why)
{
	vt_model_diag(model, VT_DIAG_NOTE, VT_STAGE_PYTHON, "asyncio",
		      "asyncio's tasks are not shown: %s", why);
}

static void fill(struct reading *r)
{
	struct vt_model *model = r->s->c->model;
	struct vt_model_tasks *tasks = &model->tasks;

	tasks->used = r->asyncio.used;
	tasks->cut = r->asyncio.cut;
	tasks->why = r->asyncio.why;
	if (tasks->why)
		say_why(model, tasks->why);
	else if (!add_tasks(r))
		tasks->cut = true;
	if (tasks->cut)
		vt_model_diag(model, VT_DIAG_NOTE, VT_STAGE_PYTHON, "asyncio-cut",
			      "asyncio has more tasks, which are not shown");
}

void vt_collect_tasks(struct vt_stacks *s)
{
	struct reading r = { .s = s };
	struct vt_model *model = s->c->model;
	struct vt_error *err;
	size_t at = 0;
	bool found;

	if (!s->have_python || !s->n_rounds || model->view == VT_VIEW_NATIVE)
		return;
	r.py = &s->rounds[s->n_rounds - 1].python;
	/* Where the module is part of the executable, only the frames tell that it is used. */
	found = vt_modules_by_name(&s->c->target.modules, "_asyncio.", &at) != NULL;
	for (size_t i = 0; i < r.py->threads.n && !found; i++)
		found = runs_loop(&r.py->threads.data[i]);
	if (!found)
		return;
	err = read_tasks(&r);
	if (err) {
		model->tasks.used = true;
		model->tasks.why = vt_arena_strdup(&model->arena, err->message);
		say_why(model, err->message);
		vt_error_destroy(err);
	} else {
		fill(&r);
	}
	vt_asyncio_deinit(&r.asyncio);
}
