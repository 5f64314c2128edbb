/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where every thread is. While the threads are stopped, only raw data is copied (registers, stacks,
 * chains of Python frames); unwinding, names and merging follow after they run again.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "collect/stacks.h"
#include "target/arch/native.h"
#include "walk/native/debuginfod.h"
#include "explain/merge.h"
#include "explain/verdicts.h"
#include "walk/recorder/find.h"
#include "walk/recorder/recorder.h"

#define DEBUGINFOD_NS (60 * VT_NS_PER_S) /* for all files together */

/*
 * Libraries may have been loaded since the first look (our helper's, too), unless that was a moment
 * ago: reading the map takes a millisecond.
 */
static bool is_map_old(const struct vt_collect *c)
{
	return ((c->options->want & VT_WANT_MEMORY) && c->options->touch == VT_TOUCH_INSIDE) ||
	       vt_now_ns() - c->start_ns > VT_MAPS_AGE_NS;
}

static void refresh_maps(struct vt_collect *c)
{
	struct vt_error *err = c->target.origin->refresh_maps(&c->target);

	c->torch.c10_cuda = NULL;
	if (err)
		vt_collect_diag_error(c, VT_DIAG_MISSING, VT_STAGE_STACKS,
				      "names of native frames are missing", err);
}

static void find_python(struct vt_stacks *s)
{
	struct vt_collect *c = s->c;
	struct vt_python *python = &s->rounds[0].python;
	struct vt_error *err;

	python->locals = c->options->locals;
	if (is_map_old(c))
		refresh_maps(c);
	err = c->target.origin->find_python(&c->target, python);
	s->have_python = !err;
	if (s->have_python) {
		c->model->versions.python = python->micro < 0 ?
						    vt_arena_printf(&c->model->arena, "%d.%d",
								    python->major, python->minor) :
						    vt_arena_printf(&c->model->arena, "%d.%d.%d",
								    python->major, python->minor,
								    python->micro);
		c->model->versions.python_free_threaded = python->free_threaded;
		return;
	}
	c->model->versions.python = "";
	if (!vt_error_catch(&err, VT_ERR_NOTFOUND))
		vt_collect_diag_error(c, VT_DIAG_MISSING, VT_STAGE_PYTHON,
				      "Python frames are missing", err);
}

/* Threads that started after the list was made and were stopped anyway belong to the report. */
static void add_new_threads(struct vt_stacks *s)
{
	const struct vt_session *session = &s->c->stop.session;
	struct vt_map known = { 0 };
	size_t lost = 0;
	bool ok = true;

	for (size_t i = 0; i < s->list.threads.n; i++)
		ok = vt_map_put(&known, (uint64_t)s->list.threads.data[i].tid, i) && ok;
	for (size_t i = 0; ok && i < session->threads.n; i++) {
		const struct vt_session_thread *thread = &session->threads.data[i];
		struct vt_thread_info info = { 0 };

		if (!thread->stopped || thread->tid == s->c->helper_tid ||
		    vt_map_get(&known, (uint64_t)thread->tid))
			continue;

		struct vt_error *err =
			vt_thread_info_read(&info, s->c->target.proc.pid, thread->tid);
		struct vt_thread_info *added = err ? NULL : vt_vec_append(&s->list.threads);

		if (added)
			*added = info;
		else
			lost += !err || err->code != VT_ERR_GONE;
		vt_error_destroy(err);
	}
	vt_map_deinit(&known);
	if (!ok || lost)
		vt_model_diag(s->c->model, VT_DIAG_MISSING, VT_STAGE_STACKS, "new-threads",
			      "threads that were started during the report may be missing");
}

/* A thread belongs to its last round. */
static void find_threads(struct vt_stacks *s)
{
	struct vt_map index_of = { 0 };
	bool ok = true;

	for (size_t i = 0; i < s->list.threads.n; i++)
		ok = vt_map_put(&index_of, (uint64_t)s->list.threads.data[i].tid, i) && ok;
	for (size_t r = 0; r < s->n_rounds; r++) {
		struct vt_round *round = &s->rounds[r];

		for (size_t k = 0; k < round->session->threads.n; k++) {
			struct vt_session_thread *thread = &round->session->threads.data[k];
			const uint64_t *index = vt_map_get(&index_of, (uint64_t)thread->tid);

			if (index)
				s->found[*index] = (struct vt_found_thread){
					.round = round,
					.thread = thread,
					.sample = thread->stopped || !round->samples ?
							  NULL :
							  &round->samples[k],
				};
		}
	}
	vt_map_deinit(&index_of);
	if (!ok)
		vt_model_diag(s->c->model, VT_DIAG_MISSING, VT_STAGE_STACKS, "nomem",
			      "not enough memory here to find the threads' registers");
}

/* On aarch64 EINTR is where the first argument was: then it is known only from the list. */
static void take_arguments(const struct vt_regs *regs, bool same_call, struct vt_thread_info *info)
{
	const struct vt_arch *arch = regs->arch;
	bool hidden = arch->syscall_args[0] == arch->syscall_result &&
		      (int64_t)regs->r[arch->syscall_result] == -EINTR;

	for (int i = hidden && same_call ? 1 : 0; i < 6; i++)
		info->syscall_args[i] = regs->r[arch->syscall_args[i]];
}

/* The list was made a moment before the stop: what a thread waits for must match its stack. */
static void correct_stopped(struct vt_memsrc *src, const struct vt_session_thread *thread,
			    struct vt_thread_info *info)
{
	const struct vt_arch *arch = thread->regs.arch;

	/* A stopped thread is no longer in the uninterruptible sleep that the list shows. */
	if (thread->was_group_stopped ||
	    (info->state != 'S' && info->state != 'R' && info->state != 'D'))
		return;

	int64_t nr = arch->interrupted(src, &thread->regs);

	/*
	 * It slept in a page fault, which the stop interrupted: it is still at the faulting
	 * instruction.
	 */
	if (info->state == 'S' && info->syscall_known && !info->in_syscall &&
	    info->pc == vt_regs_pc(&thread->regs))
		return;
	if (nr >= 0) {
		take_arguments(&thread->regs, info->in_syscall && info->syscall_nr == nr, info);
		info->state = 'S';
		info->syscall_known = info->in_syscall = true;
		info->syscall_nr = nr;
	} else {
		info->state = 'R';
		info->syscall_known = info->in_syscall = false;
	}
}

/* A thread that ran during the read was in its system call before; its present state is unknown. */
static void correct_sampled(const struct vt_found_thread *found, struct vt_thread_info *info)
{
	if (!found->thread->sampled) {
		info->syscall_known = info->in_syscall = false;
		return;
	}

	const struct vt_thread_info *seen = &found->sample->info;

	info->state = seen->state;
	info->syscall_known = seen->syscall_known;
	info->in_syscall = seen->in_syscall;
	info->syscall_nr = seen->syscall_nr;
	memcpy(info->syscall_args, seen->syscall_args, sizeof(info->syscall_args));
}

/*
 * False if it was in another system call than info has: then it is unknown where it slept in the
 * kernel.
 */
static bool correct_wait(struct vt_memsrc *src, const struct vt_found_thread *found,
			 struct vt_thread_info *info)
{
	bool was_in_syscall = info->in_syscall, was_stuck = info->state == 'D';
	long nr = info->syscall_nr;

	if (!found->thread)
		return true;
	if (found->thread->stopped)
		correct_stopped(src, found->thread, info);
	else if (found->sample)
		correct_sampled(found, info);
	if (info->in_syscall == was_in_syscall && (!info->in_syscall || info->syscall_nr == nr) &&
	    (!was_stuck || info->state == 'D'))
		return true;
	info->wchan[0] = '\0';
	return false;
}

static bool is_read(const struct vt_found_thread *found)
{
	return found->thread && vt_is_read(found->thread);
}

static const char *why_unread(const struct vt_found_thread *found,
			      const struct vt_thread_info *info)
{
	/* A main thread that called pthread_exit() stays as a zombie. */
	if (info->state == 'Z' || info->state == 'X')
		return "it ended";
	if (!found->thread)
		return "it ended, or vramtap had no memory for it";
	if (found->thread->why)
		return found->thread->why;
	return found->sample && found->sample->asleep ? "it ran while it was read" :
							"it was running";
}

/*
 * The part of a deep stack that was not copied is read from the target itself, which nothing holds
 * by now: if the thread has run since the sample, the outer frames may be those of another moment.
 */
static void check_deep(struct vt_stacks *s, const struct vt_found_thread *found,
		       struct vt_native_stack *stack)
{
	if (!found->thread->sampled || !found->round->snapshot ||
	    !vt_snapshot_cut_threads(found->round->snapshot) ||
	    vt_thread_sample_holds(found->sample, s->c->target.proc.pid))
		return;
	found->thread->sampled = false;
	s->n_ran++;
	vt_native_stack_deinit(stack);
	*stack = (struct vt_native_stack){ 0 };
}

static struct vt_error *unwind_round(struct vt_stacks *s, struct vt_round *round)
{
	struct vt_collect *c = s->c;
	struct vt_unwinder *unwinder = NULL;
	struct vt_memsrc *src = round->snapshot ? vt_snapshot_source(round->snapshot) :
						  c->target.cached;

	VT_TRY(vt_unwinder_create(&c->target.modules, src, &unwinder));
	for (size_t i = 0; i < s->list.threads.n; i++) {
		const struct vt_found_thread *found = &s->found[i];

		if (found->round != round || !is_read(found))
			continue;
		vt_error_destroy(vt_unwinder_walk(unwinder, found->thread->tid,
						  &found->thread->regs, &s->native[i]));
		check_deep(s, found, &s->native[i]);
	}
	vt_unwinder_destroy(unwinder);
	return NULL;
}

static void allow_debuginfod(struct vt_collect *c)
{
	const char *problem = vt_debuginfod_problem();

	if (problem)
		vt_model_diag(c->model, VT_DIAG_NOTE, VT_STAGE_STACKS, "debuginfod",
			      "debuginfod was not asked: %s", problem);
	else
		c->target.modules.debuginfod_until_ns = vt_now_ns() + DEBUGINFOD_NS;
}

static struct vt_error *start_lines(struct vt_stacks *s)
{
	const struct vt_collect_options *options = s->c->options;
	const struct vt_native_sharing sharing = {
		.memo = options->lines_memo,
		.waits = options->together ? options->together->waits : NULL,
		.arg = options->together ? options->together->arg : NULL,
	};

	return vt_native_lines_start(&s->c->target.modules, s->native, s->list.threads.n,
				     VT_NATIVE_LINES_BUDGET_NS, &sharing, &s->lines);
}

/* False: native frames are missing. */
static bool unwind_all(struct vt_stacks *s)
{
	struct vt_collect *c = s->c;
	struct vt_error *err = NULL;

	for (size_t r = 0; r < s->n_rounds && !err; r++)
		err = unwind_round(s, &s->rounds[r]);
	if (err) {
		vt_collect_diag_error(c, VT_DIAG_MISSING, VT_STAGE_STACKS,
				      "native frames are missing", err);
		return false;
	}
	for (size_t i = 0; i < s->list.threads.n; i++) {
		s->native[i].tid = s->list.threads.data[i].tid;
		if (!is_read(&s->found[i]))
			snprintf(s->native[i].why, sizeof(s->native[i].why), "%s",
				 why_unread(&s->found[i], &s->list.threads.data[i]));
	}
	if (c->options->debuginfod)
		allow_debuginfod(c);
	err = vt_native_symbolise(&c->target.modules, s->native, s->list.threads.n,
				  &c->model->arena);
	if (err)
		vt_collect_diag_error(c, VT_DIAG_MISSING, VT_STAGE_STACKS,
				      "names of native frames are missing", err);
	return true;
}

/* The names are complete, and they matter most: a note. */
static void say_without_lines(struct vt_stacks *s, struct vt_error *err)
{
	if (err)
		vt_collect_diag_error(s->c, VT_DIAG_NOTE, VT_STAGE_STACKS,
				      "source lines of native frames are missing", err);
}

/*
 * Marks the frames that the merged stack will not show. For one without a name, debug information
 * may have one, by which the stack may be merged in another way: then all are looked up.
 */
static void mark_unseen(struct vt_native_stack *native, const struct vt_python_thread *python)
{
	size_t n = native->frames.n;
	VT_FREE bool *shown = calloc(n + 1, sizeof(*shown));

	for (size_t i = 0; i < n; i++)
		if (!native->frames.data[i].function &&
		    vt_native_may_have_lines(native->frames.data[i].module))
			return;
	if (!shown || !vt_merge_shown(native, python, shown))
		return;
	for (size_t i = 0; i < n; i++)
		native->frames.data[i].unseen = !shown[i];
}

static void look_up_lines(struct vt_stacks *s)
{
	struct vt_collect *c = s->c;

	if (c->options->view == VT_VIEW_PYTHON)
		return;
	for (size_t i = 0; c->options->view != VT_VIEW_NATIVE && i < s->list.threads.n; i++)
		mark_unseen(&s->native[i], s->found[i].python);
	say_without_lines(s, start_lines(s));
}

static void finish_lines(struct vt_stacks *s)
{
	struct vt_collect *c = s->c;
	struct vt_error *err;
	size_t missing;

	if (!s->lines)
		return;
	err = vt_native_lines_finish(s->lines, &c->model->arena, &missing);
	if (err)
		vt_collect_diag_error(c, VT_DIAG_NOTE, VT_STAGE_STACKS,
				      "source lines of native frames are missing", err);
	else if (missing)
		vt_model_diag(
			c->model, VT_DIAG_NOTE, VT_STAGE_STACKS, "source-lines",
			"source lines and inlined functions are missing at %zu places: the debug information there is "
			"damaged, or takes too long to read",
			missing);
}

/*
 * CPython knows its threads by pthread_t, which on x86-64 is the thread pointer; if that is
 * unknown, by the number that the thread has in its own pid namespace.
 */
static bool match_python_round(struct vt_stacks *s, struct vt_round *round)
{
	struct vt_map by_fs = { 0 }, by_tid = { 0 };
	bool ok = true;

	for (size_t i = 0; i < s->list.threads.n; i++) {
		const struct vt_found_thread *found = &s->found[i];

		if (found->round != round)
			continue;
		if (found->thread->stopped && found->thread->regs.thread_pointer)
			ok = vt_map_put(&by_fs, found->thread->regs.thread_pointer, i) && ok;
		if (found->sample && found->sample->ns_tid)
			ok = vt_map_put(&by_tid, (uint64_t)found->sample->ns_tid, i) && ok;
		else if (s->c->target.proc.same_pid_ns)
			ok = vt_map_put(&by_tid, (uint64_t)found->thread->tid, i) && ok;
	}
	for (size_t i = 0; ok && i < round->python.threads.n; i++) {
		const struct vt_python_thread *python = &round->python.threads.data[i];
		const uint64_t *index = vt_map_get(&by_fs, python->pthread);

		if (!index && python->tid)
			index = vt_map_get(&by_tid, (uint64_t)python->tid);
		if (index)
			s->found[*index].python = python;
	}
	vt_map_deinit(&by_fs);
	vt_map_deinit(&by_tid);
	return ok;
}

/* Stacks of subinterpreters whose threads are unknown (walk/python/join.c). */
static size_t count_unplaced(const struct vt_python *python)
{
	size_t n = 0;

	for (size_t i = 0; i < python->threads.n; i++)
		n += !python->threads.data[i].pthread && python->threads.data[i].frames.n;
	return n;
}

static void match_python_threads(struct vt_stacks *s)
{
	size_t unplaced = 0;
	bool ok = true;

	for (size_t r = 0; s->have_python && r < s->n_rounds; r++) {
		ok = match_python_round(s, &s->rounds[r]) && ok;
		unplaced = count_unplaced(&s->rounds[r].python);
	}
	if (unplaced)
		vt_model_diag(
			s->c->model, VT_DIAG_MISSING, VT_STAGE_PYTHON, "subinterpreters",
			"%zu Python stacks of subinterpreters are missing: their threads are unknown",
			unplaced);
	if (!ok)
		vt_model_diag(s->c->model, VT_DIAG_MISSING, VT_STAGE_PYTHON, "nomem",
			      "Python frames are missing: not enough memory here");
}

static void say_without_locals(struct vt_stacks *s)
{
	size_t n = 0;

	for (size_t r = 0; s->have_python && r < s->n_rounds; r++)
		n += s->rounds[r].python.n_without_locals;
	if (n)
		vt_model_diag(
			s->c->model, VT_DIAG_MISSING, VT_STAGE_PYTHON, "locals",
			s->c->options->touch == VT_TOUCH_NOTHING || s->n_escaped ?
				"the local variables of %zu frames are missing: they are read only while the process is stopped" :
				"the local variables of %zu frames are missing: time ran out",
			n);
}

static void resolve_python(struct vt_stacks *s)
{
	struct vt_memsrc *src = s->c->target.cached;

	say_without_locals(s);

	for (size_t r = 0; s->have_python && r < s->n_rounds; r++) {
		struct vt_error *err = vt_python_resolve(&s->rounds[r].python, src);

		if (err)
			vt_collect_diag_error(s->c, VT_DIAG_MISSING, VT_STAGE_PYTHON,
					      "names of Python frames are missing", err);
	}
}

static void say_no_memory_for_stack(struct vt_stacks *s, pid_t tid)
{
	vt_model_diag(s->c->model, VT_DIAG_MISSING, VT_STAGE_STACKS, "nomem",
		      "no memory for the stack of thread %d", tid);
}

static const char *why_incomplete(struct vt_stacks *s, const struct vt_native_stack *native,
				  const struct vt_python_thread *python)
{
	const char *why = native->why[0]           ? native->why :
			  python && python->why[0] ? python->why :
						     NULL;

	return why ? vt_arena_strdup(&s->c->model->arena, why) : NULL;
}

static void keep_python_frames(struct vt_model_stack *stack, const struct vt_python_thread *python,
			       struct vt_arena *arena)
{
	size_t kept = 0;

	for (size_t i = 0; i < stack->n_frames; i++)
		if (stack->frames[i].kind == VT_FRAME_PYTHON)
			stack->frames[kept++] = stack->frames[i];
	stack->n_frames = kept;
	stack->has_native = stack->merge_uncertain = false;
	/* Here, missing native frames are not missing. */
	stack->truncated = python && python->truncated;
	stack->why = python && python->why[0] ? vt_arena_strdup(arena, python->why) : NULL;
}

/*
 * What a thread waits for shows in all of its frames, so unwanted ones are removed last. Native
 * frames alone are not the rest of the merged ones: those lack the interpreter's own.
 */
static void apply_view(struct vt_stacks *s, size_t i, struct vt_model_thread *thread)
{
	struct vt_model *model = s->c->model;

	if (model->view == VT_VIEW_PYTHON)
		keep_python_frames(&thread->stack, s->found[i].python, &model->arena);
	if (model->view == VT_VIEW_NATIVE &&
	    !vt_merge_stacks(&s->native[i], NULL, &thread->stack, &model->arena))
		say_no_memory_for_stack(s, thread->tid);
}

/*
 * 1 holds it, 0 not, -1 unknown. In different rounds different threads may have had it: the last
 * one decides, and a thread of an earlier round must have had it then, too.
 */
static int gil_of(const struct vt_stacks *s, const struct vt_found_thread *found)
{
	const struct vt_python *last = &s->rounds[s->n_rounds ? s->n_rounds - 1 : 0].python;

	if (!found->python)
		return -1;

	int held = vt_python_holds_gil(&found->round->python, found->python);

	if (held != 1 || &found->round->python == last)
		return held;
	for (size_t i = 0; i < last->threads.n; i++)
		if (last->threads.data[i].tstate == found->python->tstate)
			return vt_python_holds_gil(last, &last->threads.data[i]);
	return -1;
}

static enum vt_taken how_taken(const struct vt_found_thread *found)
{
	if (!is_read(found))
		return VT_TAKEN_RUNNING;
	return found->thread->stopped ? VT_TAKEN_STOPPED : VT_TAKEN_ASLEEP;
}

static void add_thread(struct vt_stacks *s, size_t i)
{
	struct vt_collect *c = s->c;
	struct vt_thread_info *info = &s->list.threads.data[i];
	const struct vt_found_thread *found = &s->found[i];
	const struct vt_python_thread *python = found->python;
	struct vt_model_thread *thread = vt_vec_append(&c->model->threads);

	if (!thread) {
		vt_model_diag(c->model, VT_DIAG_MISSING, VT_STAGE_STACKS, "nomem",
			      "threads are missing: not enough memory here");
		return;
	}
	bool same_wait = correct_wait(s->c->target.mem, found, info);

	*thread = (struct vt_model_thread){
		.tid = info->tid,
		.name = vt_arena_strdup(&c->model->arena, info->name),
		.state = info->state,
		.cpu = info->cpu,
		.is_main = info->tid == c->target.proc.pid,
		.has_python = python != NULL,
		.taken = how_taken(found),
		.wchan = info->wchan[0] ? vt_arena_strdup(&c->model->arena, info->wchan) : NULL,
		.gil = gil_of(s, found),
	};
	if (same_wait && i < s->n_kernel) {
		thread->kernel = s->kernel[i].frames;
		thread->n_kernel = s->kernel[i].n;
	}
	if (!vt_merge_stacks(&s->native[i], python, &thread->stack, &c->model->arena))
		say_no_memory_for_stack(s, info->tid);
	if (!thread->stack.why)
		thread->stack.why = why_incomplete(s, &s->native[i], python);
	vt_wait_describe(&s->wait, thread, info);
	apply_view(s, i, thread);
}

/* A note for each reason. When nothing could be stopped at all, that has been said. */
static void say_what_was_not_stopped(struct vt_stacks *s)
{
	const struct vt_session *session = &s->c->stop.session;
	const char *said[8];
	size_t n_said = 0;

	for (size_t i = 0; i < session->threads.n && n_said < 8; i++) {
		const char *why = session->threads.data[i].why;
		size_t n = 0, k = 0;

		if (!why || !vt_stop_has_escaped(s->c, &session->threads.data[i]))
			continue;
		while (k < n_said && strcmp(said[k], why) != 0)
			k++;
		if (k < n_said)
			continue;
		said[n_said++] = why;
		for (size_t j = i; j < session->threads.n; j++)
			n += session->threads.data[j].why &&
			     !strcmp(session->threads.data[j].why, why) &&
			     vt_stop_has_escaped(s->c, &session->threads.data[j]);
		vt_model_diag(s->c->model, VT_DIAG_NOTE, VT_STAGE_STACKS, "not-stopped",
			      "%zu of %zu threads could not be stopped and %s: %s%s", n,
			      s->c->model->threads.n,
			      n == 1 ? "was read as it is" : "were read as they are",
			      n == 1 ? "" : "for each, ", why);
	}
}

/* Of threads that ran, it is told elsewhere that they have no native frames. */
static bool is_cut(const struct vt_stacks *s, const struct vt_model_stack *stack)
{
	return stack->n_frames > 0 && stack->why && *stack->why &&
	       (stack->has_native || s->c->model->view == VT_VIEW_PYTHON || !s->n_ran);
}

static void say_what_is_missing(struct vt_stacks *s)
{
	struct vt_collect *c = s->c;
	size_t bare = 0, cut = 0;

	for (size_t i = 0; i < c->model->threads.n; i++) {
		const struct vt_model_thread *thread = &c->model->threads.data[i];

		cut += is_cut(s, &thread->stack);

		/*
		 * A main thread that called pthread_exit() stays as a zombie: it has no stack to
		 * miss.
		 */
		bare += thread->stack.n_frames == 0 && thread->state != 'Z' &&
			thread->state != 'X' && c->model->view != VT_VIEW_PYTHON;
	}
	if (s->n_ran)
		vt_model_diag(
			c->model, VT_DIAG_MISSING, VT_STAGE_STACKS, "ran",
			"%zu of %zu threads were not stopped and ran: they have no native frames",
			s->n_ran, c->model->threads.n);
	else if (s->n_escaped && c->options->touch != VT_TOUCH_NOTHING)
		say_what_was_not_stopped(s);
	if (bare)
		vt_model_diag(c->model, VT_DIAG_MISSING, VT_STAGE_STACKS, "no-frames",
			      "%zu of %zu threads have no stack", bare, c->model->threads.n);
	if (cut)
		vt_model_diag(
			c->model, VT_DIAG_MISSING, VT_STAGE_STACKS, "cut-stacks",
			"callers may be missing in the stacks of %zu of %zu threads: each says where and why",
			cut, c->model->threads.n);
}

/* All of this needs 64-bit words, and so does reading the thread's registers. */
static bool refuse_32bit(struct vt_collect *c)
{
	if (!c->target.proc.is_32bit)
		return false;
	vt_model_diag(c->model, VT_DIAG_MISSING, VT_STAGE_STACKS, "32-bit",
		      "it is a 32-bit process: its stacks cannot be read");
	return true;
}

static void stacks_deinit(struct vt_stacks *s)
{
	vt_native_lines_destroy(s->lines);
	for (size_t i = 0; s->native && i < s->list.threads.n; i++)
		vt_native_stack_deinit(&s->native[i]);
	free(s->native);
	free(s->found);
	free(s->kernel);
	vt_wait_deinit(&s->wait);
	vt_map_deinit(&s->by_inner);
	for (size_t r = VT_MAX_ROUNDS; r-- > 0;)
		vt_round_deinit(&s->rounds[r]);
	vt_replay_destroy(s->replay);
	vt_thread_list_deinit(&s->list);
}

/* The GIL of the interpreter that a thread is in; 0 unknown. Interpreters may share one. */
static uint64_t gil_address(const struct vt_found_thread *found)
{
	const struct vt_python *python = found->round ? &found->round->python : NULL;

	return found->python && found->python->gil < python->gils.n ?
		       python->gils.data[found->python->gil].addr :
		       0;
}

/* The thread that holds the GIL that a thread waits for. */
static const struct vt_model_thread *find_gil_holder(const struct vt_stacks *s,
						     const struct vt_found_thread *found)
{
	const struct vt_model *model = s->c->model;
	uint64_t gil = gil_address(found);

	for (size_t i = 0; gil && i < model->threads.n; i++)
		if (model->threads.data[i].gil == 1 && gil_address(&s->found[i]) == gil)
			return &model->threads.data[i];
	return NULL;
}

/* For threads that wait for the GIL: their stacks do not show its holder. */
static void name_gil_holders(struct vt_stacks *s)
{
	struct vt_model *model = s->c->model;

	/*
	 * Threads were added in the order of the list; if one is missing for lack of memory,
	 * nothing matches.
	 */
	for (size_t i = 0; model->threads.n == s->list.threads.n && i < model->threads.n; i++) {
		struct vt_model_thread *thread = &model->threads.data[i];
		const struct vt_python_thread *python = s->found[i].python;
		const struct vt_model_thread *holder = NULL;

		if (python && thread->gil == 0 && thread->verdict.code == VT_VERDICT_GIL)
			holder = find_gil_holder(s, &s->found[i]);
		if (!holder)
			continue;
		thread->verdict.holder = thread->waits_for = holder->tid;
		thread->verdict.holder_name = holder->name;
	}
}

/* A core may lack the thread: then the GIL is not free, although no thread seems to hold it. */
static void look_for_gil_holders(struct vt_stacks *s)
{
	struct vt_model *model = s->c->model;

	for (size_t g = 0; s->c->target.core && g < s->rounds[0].python.gils.n; g++) {
		const struct vt_python_gil *gil = &s->rounds[0].python.gils.data[g];
		bool found = !gil->holder;

		for (size_t i = 0; i < model->threads.n && !found; i++)
			found = model->threads.data[i].gil == 1 &&
				gil_address(&s->found[i]) == gil->addr;
		if (found)
			continue;
		char tid[32] = "";

		if (gil->holder_tid)
			snprintf(tid, sizeof(tid), " (by thread %d)", (int)gil->holder_tid);
		model->gil_holder_missing = true;
		vt_model_diag(
			model, VT_DIAG_MISSING, VT_STAGE_PYTHON, "gil-holder-missing",
			"the GIL is held%s, but by no thread whose Python frames are in the core",
			tid);
	}
}

static void add_threads(struct vt_stacks *s)
{
	size_t n = s->list.threads.n ? s->list.threads.n : 1;

	s->native = calloc(n, sizeof(*s->native));
	s->found = calloc(n, sizeof(*s->found));
	if (!s->native || !s->found) {
		vt_model_diag(s->c->model, VT_DIAG_MISSING, VT_STAGE_STACKS, "nomem",
			      "the stacks are missing: not enough memory here");
		return;
	}
	find_threads(s);

	bool unwound = unwind_all(s);

	resolve_python(s);
	match_python_threads(s);
	if (unwound)
		look_up_lines(s);
	vt_collect_tasks(s);
	finish_lines(s);
	for (size_t i = 0; i < s->list.threads.n; i++)
		add_thread(s, i);
	name_gil_holders(s);
	look_for_gil_holders(s);
	vt_find_deadlocks(s);
}

/*
 * False if it ended, or another thread has its number by now. A main thread that called
 * pthread_exit() stays, as a zombie.
 */
static bool still_there(const struct vt_stacks *s, const struct vt_thread_info *thread)
{
	struct vt_thread_info now = { 0 };
	VT_ERROR struct vt_error *err =
		vt_thread_info_read(&now, s->c->target.proc.pid, thread->tid);

	if (err)
		return err->code != VT_ERR_GONE;
	return now.start_ticks == thread->start_ticks &&
	       (thread->tid == s->c->target.proc.pid || (now.state != 'Z' && now.state != 'X'));
}

/* Threads that ended after the list was made and before the stop are not part of the result. */
static void drop_ended_threads(struct vt_stacks *s)
{
	struct vt_map read = { 0 };
	size_t kept = 0, kept_kernel = 0;
	bool ok = true;

	for (size_t r = 0; r < s->n_rounds; r++) {
		for (size_t i = 0; i < s->rounds[r].session->threads.n; i++) {
			const struct vt_session_thread *thread =
				&s->rounds[r].session->threads.data[i];

			if (vt_is_read(thread))
				ok = vt_map_put(&read, (uint64_t)thread->tid, r) && ok;
		}
	}
	for (size_t i = 0; ok && i < s->list.threads.n; i++) {
		const struct vt_thread_info *thread = &s->list.threads.data[i];

		if (!vt_map_get(&read, (uint64_t)thread->tid) && !still_there(s, thread))
			continue;
		if (i < s->n_kernel)
			s->kernel[kept_kernel++] = s->kernel[i];
		s->list.threads.data[kept++] = *thread;
	}
	if (ok) {
		s->list.threads.n = kept;
		s->n_kernel = kept_kernel;
	}
	vt_map_deinit(&read);
}

/* ---- at the stop ---- */

static void destroy(struct vt_collect *c)
{
	stacks_deinit(c->stacks);
	free(c->stacks);
	c->stacks = NULL;
}

static bool prepare(struct vt_collect *c)
{
	struct vt_stacks *s;
	struct vt_error *err;

	if (refuse_32bit(c))
		return false;
	s = calloc(1, sizeof(*s));
	if (!s) {
		vt_collect_diag_error(c, VT_DIAG_MISSING, VT_STAGE_STACKS, "the stacks are missing",
				      &vt_enomem);
		return false;
	}
	c->stacks = s;
	*s = (struct vt_stacks){
		.c = c,
		.start_ns = vt_now_ns(),
		.wait = { .pid = c->target.proc.pid,
			  .src = c->target.cached,
			  .arena = &c->model->arena },
	};
	find_python(s);
	s->recorder = vt_recorder_find(&c->target.maps, c->target.mem);
	err = c->target.origin->list_threads(s);
	if (!err)
		return true;
	vt_collect_diag_error(c, VT_DIAG_MISSING, VT_STAGE_STACKS, "the threads cannot be listed",
			      err);
	destroy(c);
	return false;
}

static void rehearse(struct vt_collect *c)
{
	if (c->stacks)
		vt_capture_rehearse(c->stacks);
}

/*
 * Last, so that a thread that was not stopped is one that is kept still, after its stack was read.
 */
static void copy_kept(struct vt_stacks *s)
{
	struct vt_wait_kept *kept = &s->wait.kept;

	if (!s->recorder)
		return;
	kept->known = vt_recorder_kept(s->c->target.mem, s->recorder, kept->tids, &kept->n);
	kept->ours = s->c->target.live && s->c->target.proc.same_pid_ns;
}

static void copy(struct vt_collect *c)
{
	if (!c->stacks)
		return;
	c->target.origin->capture(c->stacks);
	copy_kept(c->stacks);
}

static void resumed(struct vt_collect *c)
{
	if (c->stacks)
		vt_capture_resumed(c->stacks);
}

static void finish(struct vt_collect *c)
{
	struct vt_stacks *s = c->stacks;

	if (!s)
		return;
	if (c->target.live) { /* nothing comes or goes in a core */
		drop_ended_threads(s);
		add_new_threads(s);
	}
	add_threads(s);
	say_what_is_missing(s);
	c->model->timing.stacks_ms = (double)(vt_now_ns() - s->start_ns) / VT_NS_PER_MS;
	destroy(c);
}

const struct vt_participant vt_stop_threads = {
	.want = VT_WANT_THREADS,
	.prepare = prepare,
	.rehearse = rehearse,
	.copy = copy,
	.resumed = resumed,
	.finish = finish,
};
