/* SPDX-License-Identifier: Apache-2.0 */
/* asyncio's tasks: those with equal stacks together, the ones that others wait for named. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/format.h"
#include "report/text/text.h"

#define MAX_GROUPS 12 /* in the short view; further ones get a line together */
#define MAX_LINES 8   /* of one stack, in the short view */
#define MAX_NAMES 4   /* of tasks, in a list */

struct tasks {
	struct vt_line *line;
	const struct vt_model *model;
	bool all;
	bool *seen;              /* tasks that a group has */
	size_t *waiters, *first; /* of each task: how many wait for it, and one of them */
};

static const struct vt_model_task *task_at(const struct tasks *v, size_t i)
{
	return &v->model->tasks.tasks.data[i];
}

static bool is_same_wait(const struct vt_model_task *a, const struct vt_model_task *b)
{
	if (a->n_waits_for != b->n_waits_for)
		return false;
	for (size_t i = 0; i < a->n_waits_for; i++)
		if (a->waits_for[i] != b->waits_for[i])
			return false;
	return true;
}

/* Those that wait for other tasks stay by themselves, unless it is for the same ones. */
static bool is_same(const struct vt_model_task *a, const struct vt_model_task *b)
{
	return a->state == b->state && a->tid == b->tid && a->stack.hash == b->stack.hash &&
	       a->stack.n_frames == b->stack.n_frames && is_same_wait(a, b);
}

static void add_name(struct vt_str *text, const struct vt_model_task *task)
{
	vt_str_addf(text, "%.60s", *task->name ? task->name : "(a task without a name)");
}

/* "Task-2, Task-3 and 17 more" */
static void add_names(struct vt_str *text, const struct tasks *v, const size_t *list, size_t n)
{
	char number[VT_NUM_MAX];

	for (size_t i = 0; i < n && i < MAX_NAMES; i++) {
		vt_str_add(text, i ? ", " : "");
		add_name(text, task_at(v, list[i]));
	}
	if (n > MAX_NAMES)
		vt_str_addf(text, " and %s more", vt_format_count(number, n - MAX_NAMES));
}

static void add_state(struct vt_str *text, const struct tasks *v, const struct vt_model_task *task)
{
	if (task->state == VT_TASK_RUNNING)
		vt_str_add(text, "runs now");
	else if (task->state == VT_TASK_READY)
		vt_str_add(text, "ready, the event loop has not run it yet");
	else if (task->n_waits_for) {
		vt_str_add(text, "waits for ");
		add_names(text, v, task->waits_for, task->n_waits_for);
	} else {
		vt_str_addf(text, "waits for a %.40s", task->awaits ? task->awaits : "Future");
	}
}

static void count_waiters(const struct tasks *v)
{
	for (size_t i = 0; i < v->model->tasks.tasks.n; i++) {
		const struct vt_model_task *task = task_at(v, i);

		for (size_t k = 0; k < task->n_waits_for; k++) {
			v->waiters[task->waits_for[k]]++;
			v->first[task->waits_for[k]] = i;
		}
	}
}

static void print_head(const struct tasks *v, size_t first, const size_t *members, size_t n)
{
	const struct vt_model_task *task = task_at(v, first);
	struct vt_str text = { 0 };
	char number[VT_NUM_MAX];

	vt_line_pad(v->line, 2);
	vt_line_add(v->line, VT_PLAIN, task->n_waits_for ? "○ " : "● ");
	if (n > 1) {
		vt_str_addf(&text, "%s tasks: ", vt_format_count(number, n));
		add_names(&text, v, members, n);
	} else {
		add_name(&text, task);
	}
	vt_str_add(&text, " · ");
	add_state(&text, v, task);
	if (n == 1 && v->waiters[first] == 1) {
		vt_str_add(&text, " · awaited by ");
		add_name(&text, task_at(v, v->first[first]));
	}
	vt_line_wrap(v->line, VT_PLAIN, vt_str_get(&text), 8, 3);
	if (text.failed)
		v->line->buf.failed = true;
	vt_str_deinit(&text);
}

/* The tasks like this one; the group's number is the caller's. */
static size_t collect(const struct tasks *v, size_t first, size_t *members)
{
	size_t n = 0, end = v->all ? first + 1 : v->model->tasks.tasks.n;

	for (size_t i = first; i < end; i++) {
		if (v->seen[i] || !is_same(task_at(v, i), task_at(v, first)))
			continue;
		v->seen[i] = true;
		members[n++] = i;
	}
	return n;
}

static void print_title(const struct tasks *v)
{
	const struct vt_model_tasks *tasks = &v->model->tasks;
	char number[VT_NUM_MAX];
	pid_t tid = tasks->tasks.n ? tasks->tasks.data[0].tid : 0;
	bool one = true;

	for (size_t i = 0; i < tasks->tasks.n; i++)
		one &= tasks->tasks.data[i].tid == tid;
	vt_line_blank(v->line);
	vt_line_add(v->line, VT_BOLD, "Tasks of asyncio");
	vt_line_addf(v->line, VT_PLAIN, "   %s%s", vt_format_count(number, tasks->tasks.n),
		     tasks->cut ? " and more" : "");
	if (one && tid)
		vt_line_addf(v->line, VT_PLAIN, ", event loop in thread %d", (int)tid);
	if (!tasks->exact && tasks->tasks.n)
		vt_line_add(v->line, VT_WARN, "; perhaps not of one moment");
	vt_text_end_title(v->line, NULL);
}

void vt_text_tasks(struct vt_line *line, const struct vt_model *model, enum vt_threads_shown shown)
{
	size_t n = model->tasks.tasks.n, groups = 0, rest = 0;
	VT_FREE bool *seen = calloc(n + 1, sizeof(*seen));
	VT_FREE size_t *members = calloc(n + 1, sizeof(*members));
	VT_FREE size_t *waiters = calloc(n + 1, sizeof(*waiters));
	VT_FREE size_t *firsts = calloc(n + 1, sizeof(*firsts));
	struct tasks v = {
		.line = line,
		.model = model,
		.all = shown != VT_THREADS_GROUPS,
		.seen = seen,
		.waiters = waiters,
		.first = firsts,
	};
	char number[VT_NUM_MAX];

	if (!model->tasks.used || model->tasks.why || shown == VT_THREADS_MAIN ||
	    model->view == VT_VIEW_NATIVE)
		return;
	if (!n && !model->tasks.cut)
		return;
	if (!seen || !members || !waiters || !firsts) {
		line->buf.failed = true;
		return;
	}
	count_waiters(&v);
	print_title(&v);
	for (size_t i = 0; i < n; i++) {
		size_t of_group;

		if (seen[i])
			continue;
		if (!v.all && groups++ >= MAX_GROUPS) {
			rest++;
			continue;
		}
		of_group = collect(&v, i, members);
		print_head(&v, i, members, of_group);
		vt_text_stack(line, model, &task_at(&v, i)->stack, v.all, MAX_LINES);
	}
	if (rest) {
		vt_line_pad(line, 4);
		vt_line_addf(line, VT_DIM, "… %s more tasks", vt_format_count(number, rest));
		vt_line_end(line);
	}
}
