/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A live process: /proc has its identity and its threads; they are stopped, or read as they sleep.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "collect/stacks.h"
#include "collect/watchdog.h"

/* Kinds of process that cannot be read. */
static struct vt_error *refuse_hopeless(const struct vt_proc *proc)
{
	if (proc->kernel_thread)
		return vt_error_create(
			VT_ERR_UNSUPPORTED,
			"%d (%s) is a kernel thread: it has no memory of its own to read",
			proc->pid, proc->name);
	if (proc->state == 'Z' || proc->state == 'X')
		return vt_error_create(
			VT_ERR_GONE,
			"%d (%s) is a zombie: it has ended, but its parent %d has not reaped it yet",
			proc->pid, proc->name, proc->ppid);
	return NULL;
}

/* Turns a bare "not permitted" into the obstacle and how to remove it. */
static struct vt_error *explain_permission(struct vt_target *t, struct vt_error *err)
{
	if (!err || err->code != VT_ERR_PERMISSION)
		return err;

	char *why = vt_proc_why_not_permitted(&t->proc, &t->proc.arena);

	vt_error_destroy(err);
	return vt_error_create(VT_ERR_PERMISSION, "not permitted to inspect %d (%s): %s",
			       t->proc.pid, t->proc.name, why ? why : VT_PROC_UNKNOWN_REASON);
}

/* All of this takes milliseconds, but the lock of the process's memory map may be taken. */
#define OPEN_NS (60 * VT_NS_PER_S)

static struct vt_error *read_target(struct vt_target *t, pid_t pid)
{
	VT_TRY(vt_proc_init(&t->proc, pid));
	VT_TRY(refuse_hopeless(&t->proc));
	VT_TRY(explain_permission(t, vt_live_create(pid, &t->live)));
	t->mem = vt_live_source(t->live);
	t->cached = vt_live_cached_source(t->live);
	VT_TRY(explain_permission(t, vt_maps_init(&t->maps, pid)));
	VT_TRY(vt_modules_init(&t->modules, pid, &t->maps));
	/* All of these are of one process then, and the source keeps it apart from a later one. */
	return vt_proc_is_alive(&t->proc) ?
		       NULL :
		       vt_error_create(VT_ERR_GONE, "process %d ended", (int)pid);
}

static struct vt_error *open_process(struct vt_target *t, const struct vt_subject *subject)
{
	vt_watchdog_arm(OPEN_NS, subject->pid, "its memory map is read");

	struct vt_error *err = read_target(t, subject->pid);

	vt_watchdog_disarm();
	return err;
}

static void identify(struct vt_collect *c, const struct vt_subject *subject)
{
	(void)subject;
	vt_collect_identity(c);
	vt_collect_environ(c);
}

static void finish_process(struct vt_collect *c)
{
	if (!vt_proc_is_alive(&c->target.proc))
		vt_model_diag(c->model, VT_DIAG_MISSING, VT_STAGE_PROCESS, "gone",
			      "the process ended while it was read");
}

static void close_process(struct vt_target *t)
{
	vt_live_destroy(t->live);
}

static const char *name_of_thread(struct vt_collect *c, pid_t tid)
{
	struct vt_thread_info info = { 0 };
	VT_ERROR struct vt_error *err =
		tid > 0 ? vt_thread_info_read(&info, c->target.proc.pid, tid) : NULL;

	return err ? "" : vt_collect_copy(c, info.name, sizeof(info.name));
}

/* ---- its threads ---- */

static bool same_maps(const struct vt_maps *a, const struct vt_maps *b)
{
	if (a->entries.n != b->entries.n)
		return false;
	for (size_t i = 0; i < a->entries.n; i++) {
		const struct vt_map_entry *x = &a->entries.data[i], *y = &b->entries.data[i];

		if (x->start != y->start || x->end != y->end || x->offset != y->offset ||
		    x->inode != y->inode || x->flags != y->flags)
			return false;
	}
	return true;
}

/*
 * The map may have changed since the first look (libraries loaded, threads started): the stacks
 * need today's. On failure the old one serves.
 */
static struct vt_error *refresh_maps(struct vt_target *t)
{
	bool newer = t->newer_ns && vt_now_ns() - t->newer_ns < VT_MAPS_AGE_NS;
	struct vt_maps maps = { 0 };

	if (!newer) {
		struct vt_error *err = vt_maps_init(&maps, t->proc.pid);

		if (err) {
			vt_error_destroy(err);
			return NULL;
		}
		vt_target_offer_maps(t, &maps);
	}
	maps = t->newer;
	t->maps_ns = t->newer_ns;
	t->newer = (struct vt_maps){ 0 };
	t->newer_ns = 0;
	if (same_maps(&maps, &t->maps)) {
		vt_maps_deinit(&maps);
		return NULL;
	}
	vt_modules_deinit(&t->modules);
	vt_maps_deinit(&t->maps);
	t->maps = maps;
	t->modules = (struct vt_modules){ 0 };
	return vt_modules_init(&t->modules, t->proc.pid, &t->maps);
}

static struct vt_error *find_python(struct vt_target *t, struct vt_python *python)
{
	return vt_python_find(python, &t->modules, t->live);
}

/* Our own helper's thread may still be on its way out: it is not part of the target. */
static void drop_helper_thread(struct vt_stacks *s)
{
	size_t kept = 0;

	for (size_t i = 0; i < s->list.threads.n; i++)
		if (!s->c->helper_tid || s->list.threads.data[i].tid != s->c->helper_tid)
			s->list.threads.data[kept++] = s->list.threads.data[i];
	s->list.threads.n = kept;
}

static struct vt_kernel_stack parse_kernel_stack(char *text, struct vt_arena *arena)
{
	const char *frames[VT_MAX_KERNEL_FRAMES];
	size_t n = vt_thread_kernel_frames(text, frames, arena);
	const char **copy = n ? vt_arena_alloc(arena, n * sizeof(*copy)) : NULL;

	if (!copy)
		return (struct vt_kernel_stack){ 0 };
	memcpy(copy, frames, n * sizeof(*copy));
	return (struct vt_kernel_stack){ .frames = copy, .n = n };
}

/*
 * Before the stop: a thread that a tracer holds sleeps in the tracer's stop. Failures only omit it.
 */
static void read_kernel_stacks(struct vt_stacks *s)
{
	size_t n = s->list.threads.n;
	char **texts VT_FREE = calloc(n + 1, sizeof(*texts));

	s->kernel = calloc(n + 1, sizeof(*s->kernel));
	if (!texts || !s->kernel)
		return;
	vt_thread_kernel_stacks(s->c->target.proc.pid, s->list.threads.data, n, texts);
	for (size_t i = 0; i < n; i++) {
		if (texts[i])
			s->kernel[i] = parse_kernel_stack(texts[i], &s->c->model->arena);
		free(texts[i]);
	}
	s->n_kernel = n;
}

static struct vt_error *list_threads(struct vt_stacks *s)
{
	const struct vt_target *t = &s->c->target;

	VT_TRY(vt_thread_list_init_at(&s->list, vt_live_task_dir(t->live), t->proc.pid));
	drop_helper_thread(s);
	read_kernel_stacks(s);
	return NULL;
}

static void capture(struct vt_stacks *s)
{
	if (s->c->stop.stands)
		vt_capture_stopped(s);
	else
		vt_capture_running(s);
}

const struct vt_origin vt_origin_process = {
	.open = open_process,
	.identify = identify,
	.finish = finish_process,
	.close = close_process,
	.thread_name = name_of_thread,
	.find_python = find_python,
	.refresh_maps = refresh_maps,
	.list_threads = list_threads,
	.capture = capture,
};
