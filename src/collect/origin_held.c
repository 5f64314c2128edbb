/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/origin_held.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collect/stacks.h"

/* ---- whether it is held ---- */

static bool has_ended(char state)
{
	return state == 'Z' || state == 'X';
}

/* Every thread as it is now; the end of the report compares with it. */
static struct vt_error *take_samples(struct vt_held *held, pid_t pid)
{
	struct vt_thread_list list = { 0 };
	struct vt_error *err = vt_thread_list_init(&list, pid);

	held->samples.n = 0;
	for (size_t i = 0; !err && i < list.threads.n; i++) {
		struct vt_thread_sample *sample = has_ended(list.threads.data[i].state) ?
							  NULL :
							  vt_vec_append(&held->samples);

		if (sample)
			vt_thread_sample_take(sample, pid, list.threads.data[i].tid);
		else if (!has_ended(list.threads.data[i].state))
			err = &vt_enomem;
	}
	vt_thread_list_deinit(&list);
	return err;
}

static bool is_held(const struct vt_thread_sample *sample)
{
	return sample->asleep && sample->info.state == 't';
}

/* Any thread of a debugger may be the tracer. */
static bool is_traced_by(const struct vt_proc *proc, pid_t debugger)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d", (int)debugger, (int)proc->tracer);
	return proc->tracer > 0 && (proc->tracer == debugger || !access(path, F_OK));
}

/*
 * The number of the process comes from text that the debugger printed, names from the process
 * included: it is checked.
 */
static struct vt_error *refuse_other(const struct vt_target *t)
{
	const struct vt_held *held = t->held;

	if (is_traced_by(&t->proc, held->pid))
		return NULL;
	if (t->proc.tracer > 0)
		return vt_error_create(
			VT_ERR_BUSY, "process %d is held by another debugger than this %s: %s (%d)",
			(int)t->proc.pid, held->debugger, t->proc.tracer_name, (int)t->proc.tracer);
	return vt_error_create(VT_ERR_BUSY, "process %d is not held by this %s", (int)t->proc.pid,
			       held->debugger);
}

/* A thread in uninterruptible sleep cannot be stopped: it is read as it sleeps. */
static struct vt_error *refuse_running(struct vt_target *t)
{
	const struct vt_held *held = t->held;
	size_t running = 0, n = held->samples.n;

	for (size_t i = 0; i < n; i++)
		running += !is_held(&held->samples.data[i]) &&
			   held->samples.data[i].info.state != 'D';
	if (!running)
		return NULL;
	return vt_error_create(
		VT_ERR_BUSY,
		"%zu of the %zu threads of process %d run: %s must hold them all (interrupt -a stops them)",
		running, n, (int)t->proc.pid, held->debugger);
}

static bool all_held(const struct vt_held *held)
{
	for (size_t i = 0; i < held->samples.n; i++)
		if (!is_held(&held->samples.data[i]))
			return false;
	return true;
}

/* Matches the debugger's threads. */
static void match_threads(struct vt_held *held)
{
	for (size_t i = 0; i < held->samples.n; i++) {
		const struct vt_thread_info *info = &held->samples.data[i].info;

		if (is_held(&held->samples.data[i]))
			vt_held_match(held, info->tid, info->sp, info->pc);
	}
}

static struct vt_error *open_held(struct vt_target *t, const struct vt_subject *subject)
{
	VT_TRY(vt_origin_process.open(t, subject));
	t->held = subject->held;
	VT_TRY(refuse_other(t));
	VT_TRY(take_samples(t->held, t->proc.pid));
	VT_TRY(refuse_running(t));
	match_threads(t->held);
	vt_live_set_coherent(t->live, all_held(t->held));
	return NULL;
}

static void identify(struct vt_collect *c, const struct vt_subject *subject)
{
	vt_origin_process.identify(c, subject);
	if (c->target.held)
		c->model->held_by = c->target.held->debugger;
}

/* A thread that has run since may have changed anything. */
static void finish_held(struct vt_collect *c)
{
	size_t ran = 0;

	for (size_t i = 0; i < c->target.held->samples.n; i++)
		ran += !vt_thread_sample_holds(&c->target.held->samples.data[i],
					       c->target.proc.pid);
	if (ran)
		vt_model_diag(
			c->model, VT_DIAG_MISSING, VT_STAGE_PROCESS, "released",
			"%zu threads ran during the read: %s did not hold the process; results may be wrong",
			ran, c->target.held->debugger);
	vt_origin_process.finish(c);
}

static void close_held(struct vt_target *t)
{
	vt_origin_process.close(t);
}

static const char *name_of_thread(struct vt_collect *c, pid_t tid)
{
	return vt_origin_process.thread_name(c, tid);
}

/* ---- its threads ---- */

static struct vt_error *find_python(struct vt_target *t, struct vt_python *python)
{
	return vt_origin_process.find_python(t, python);
}

/* It does not change while it is held. */
static struct vt_error *keep_maps(struct vt_target *t)
{
	(void)t;
	return NULL;
}

/*
 * Its state before it was held: its registers tell more (correct_stopped()). The kernel's stack
 * would be that of the stop.
 */
static void forget_stop(struct vt_thread_info *info)
{
	if (info->state != 't')
		return;
	info->state = info->in_syscall ? 'S' : 'R';
	info->wchan[0] = '\0';
}

static struct vt_error *list_threads(struct vt_stacks *s)
{
	VT_TRY(vt_thread_list_init(&s->list, s->c->target.proc.pid));
	for (size_t i = 0; i < s->list.threads.n; i++)
		forget_stop(&s->list.threads.data[i]);
	return NULL;
}

/* Nothing has to be copied. */
static void capture(struct vt_stacks *s)
{
	struct vt_collect *c = s->c;
	struct vt_held *held = c->target.held;
	struct vt_round *round = &s->rounds[0];
	size_t without = 0;

	s->n_rounds = 1;
	round->samples = calloc(held->samples.n + 1, sizeof(*round->samples));
	vt_begin_own_session(round, c);
	for (size_t i = 0; round->samples && i < held->samples.n; i++) {
		const struct vt_thread_sample *sample = &held->samples.data[i];
		const struct vt_held_thread *thread =
			vt_held_find(held, sample->info.sp, sample->info.pc);
		struct vt_session_thread *added = vt_vec_append(&round->session->threads);

		if (!added)
			break;
		round->samples[i] = *sample;
		forget_stop(&round->samples[i].info);
		*added = (struct vt_session_thread){ .tid = sample->info.tid,
						     .stopped = thread,
						     .sampled = !thread && sample->asleep };
		if (thread)
			added->regs = thread->regs;
		else if (sample->asleep)
			vt_registers_of_sample(sample, &added->regs);
		without += !thread;
	}
	if (round->session->threads.n < held->samples.n)
		vt_model_diag(c->model, VT_DIAG_MISSING, VT_STAGE_STACKS, "nomem",
			      "threads are missing: not enough memory here");
	if (without)
		vt_model_diag(
			c->model, VT_DIAG_NOTE, VT_STAGE_STACKS, "no-registers",
			"%s gave no registers for %zu threads: their stacks begin with the kernel's information",
			held->debugger, without);
	if (s->have_python) {
		struct vt_error *err = vt_python_capture(&round->python, c->target.mem);

		if (err)
			vt_collect_diag_error(c, VT_DIAG_MISSING, VT_STAGE_PYTHON,
					      "Python frames are missing", err);
	}
	c->model->stacks_coherent = all_held(held);
}

const struct vt_origin vt_origin_held = {
	.stands_still = true,
	.open = open_held,
	.identify = identify,
	.finish = finish_held,
	.close = close_held,
	.thread_name = name_of_thread,
	.find_python = find_python,
	.refresh_maps = keep_maps,
	.list_threads = list_threads,
	.capture = capture,
};
