/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where every thread is. While the threads are stopped only raw data is copied (registers, stacks, chains of Python
 * frames); unwinding, names and merging come after they run again.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "cmd/collect.h"
#include "target/session.h"
#include "target/snapshot.h"
#include "walk/merge.h"
#include "walk/native.h"
#include "walk/python.h"
#include "walk/wait.h"

#define STOP_DEADLINE_NS (100 * VT_NS_PER_MS)
#define STACK_BYTES_PER_THREAD (256 * 1024)
#define STACK_BYTES_TOTAL (16 * 1024 * 1024)

struct stacks {
	struct vt_collect *c;
	struct vt_thread_list list; /* as /proc showed them before they were stopped */
	struct vt_session session;
	size_t n_escaped; /* threads that could not be stopped */
	struct vt_snapshot *snapshot;
	struct vt_python python;
	bool have_python;
	struct vt_native_stack *native; /* one for each thread of list */
	struct vt_map thread_by_tid;    /* tid → index in list */
	struct vt_map session_by_tid;   /* tid → index in session.threads */
	struct vt_map thread_by_fs;     /* fs_base (pthread_t) → index in list */
	struct vt_map python_by_thread; /* index in list → index in python.threads */
};

static void find_python(struct stacks *s)
{
	struct vt_collect *c = s->c;
	struct vt_error *err = vt_python_init(&s->python, &c->modules, vt_live_cached_source(c->live));

	s->have_python = !err;
	if (s->have_python) {
		c->model->versions.python =
			s->python.micro < 0 ?
				vt_arena_printf(&c->model->arena, "%d.%d", s->python.major, s->python.minor) :
				vt_arena_printf(&c->model->arena, "%d.%d.%d", s->python.major, s->python.minor, s->python.micro);
		c->model->versions.python_free_threaded = s->python.free_threaded;
		return;
	}
	c->model->versions.python = "";
	if (!vt_error_catch(&err, VT_ERR_NOTFOUND))
		vt_collect_diag_error(c, VT_DIAG_MISSING, "python", "Python frames are missing", err);
}

/* The registers of a thread that cannot be stopped, as far as /proc shows them for a blocked one. */
static void registers_from_proc(const struct vt_thread_info *info, struct vt_regs *regs)
{
	*regs = (struct vt_regs){ .orig_rax = info->in_syscall ? info->syscall_nr : -1 };
	regs->unknown = ~(UINT32_C(1) << VT_REG_RSP | UINT32_C(1) << VT_REG_RIP);
	regs->r[VT_REG_RSP] = info->sp;
	regs->r[VT_REG_RIP] = info->pc;
}

/* The current context of a thread, as the driver keeps it (see context_slot in helper_abi.h); 0 none. */
static uint64_t current_context(const struct stacks *s, uint64_t thread_pointer)
{
	struct vt_memsrc *src = vt_live_cached_source(s->c->live);
	uint64_t word = 0;

	if (vt_mem_read_u64(src, thread_pointer + (uint64_t)s->c->context_slot, &word) ||
	    (s->c->context_inner >= 0 && vt_mem_read_u64(src, word + (uint64_t)s->c->context_inner, &word)) ||
	    vt_mem_read_u64(src, word, &word) || vt_mem_read_u64(src, word, &word))
		return 0;
	return word;
}

/* Which threads hold which device's context. Only said when every thread could be asked. */
static void find_context_threads(const struct stacks *s)
{
	struct vt_model *model = s->c->model;

	if (s->c->context_slot <= 0 || s->n_escaped || !s->session.threads.n)
		return;
	for (size_t d = 0; d < model->devices.n; d++)
		model->devices.data[d].context_threads_known = true;
	for (size_t i = 0; i < s->session.threads.n; i++) {
		/* Our own helper's may still be on its way out. */
		if (s->session.threads.data[i].tid == s->c->helper_tid)
			continue;

		const struct vt_session_thread *thread = &s->session.threads.data[i];
		uint64_t context = thread->stopped ? current_context(s, thread->regs.fs_base) : 0;

		for (size_t d = 0; context && d < model->devices.n; d++) {
			pid_t *tid = model->devices.data[d].context == context ?
					     vt_vec_append(&model->devices.data[d].context_threads) : NULL;

			if (tid)
				*tid = thread->tid;
			else if (model->devices.data[d].context == context)
				model->devices.data[d].context_threads_known = false; /* out of memory */
		}
	}
}

/* While stopped: copy what changes when the target runs. */
static void capture(struct stacks *s)
{
	struct vt_collect *c = s->c;
	struct vt_snapshot_limits limits = { .per_thread = STACK_BYTES_PER_THREAD, .total = STACK_BYTES_TOTAL };
	struct vt_error *err = NULL;

	vt_live_drop_cache(c->live);
	if (s->have_python) {
		err = vt_python_capture(&s->python, vt_live_source(c->live));
		if (err)
			vt_collect_diag_error(c, VT_DIAG_MISSING, "python", "Python frames are missing", err);
	}
	err = vt_snapshot_create(&s->session, &c->maps, c->live, &limits, &s->snapshot);
	if (err)
		vt_collect_diag_error(c, VT_DIAG_MISSING, "stacks", "the stacks could not be copied", err);
	else if (vt_snapshot_cut_threads(s->snapshot))
		vt_model_diag(c->model, VT_DIAG_NOTE, "stacks", "deep-stacks",
			      "%zu threads have deep stacks: their outer frames were read after the threads ran again",
			      vt_snapshot_cut_threads(s->snapshot));
	find_context_threads(s);
	if (!c->stacks_only)
		vt_collect_outside_read(c);
}

static bool same_maps(const struct vt_maps *a, const struct vt_maps *b)
{
	if (a->entries.n != b->entries.n)
		return false;
	for (size_t i = 0; i < a->entries.n; i++) {
		const struct vt_map_entry *x = &a->entries.data[i], *y = &b->entries.data[i];

		if (x->start != y->start || x->end != y->end || x->offset != y->offset || x->inode != y->inode ||
		    x->flags != y->flags)
			return false;
	}
	return true;
}

/*
 * The map may have changed since the first look (libraries loaded, threads started): the stacks want today's. On failure the
 * old one serves.
 */
static void refresh_maps(struct vt_collect *c)
{
	struct vt_maps maps = { 0 };
	struct vt_error *err = vt_maps_init(&maps, c->proc.pid);

	if (err) {
		vt_error_destroy(err);
		return;
	}
	if (same_maps(&maps, &c->maps)) {
		vt_maps_deinit(&maps);
		return;
	}
	vt_modules_deinit(&c->modules);
	vt_maps_deinit(&c->maps);
	c->maps = maps;
	c->modules = (struct vt_modules){ 0 };
	c->torch.c10_cuda = NULL;
	err = vt_modules_init(&c->modules, c->proc.pid, &c->maps);
	if (err)
		vt_collect_diag_error(c, VT_DIAG_MISSING, "stacks", "names of native frames are missing", err);
}

/* A thread that we should have and could not stop; one that ended meanwhile (as the helper's own does) is no loss. */
static bool escaped(const struct stacks *s, const struct vt_session_thread *thread)
{
	struct vt_thread_info info = { 0 };

	if (thread->stopped || thread->tid == s->c->helper_tid)
		return false;

	VT_ERROR struct vt_error *err = vt_thread_info_read(&info, s->c->proc.pid, thread->tid);

	return !err && info.state != 'X' && info.state != 'Z';
}

static size_t count_escaped(const struct stacks *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->session.threads.n; i++)
		n += escaped(s, &s->session.threads.data[i]);
	return n;
}

/* Threads that were started after the list was made and were stopped all the same belong to the report. */
static void add_new_threads(struct stacks *s)
{
	struct vt_map known = { 0 };
	size_t lost = 0;
	bool ok = true;

	for (size_t i = 0; i < s->list.threads.n; i++)
		ok = vt_map_put(&known, (uint64_t)s->list.threads.data[i].tid, i) && ok;
	for (size_t i = 0; ok && i < s->session.threads.n; i++) {
		const struct vt_session_thread *thread = &s->session.threads.data[i];
		struct vt_thread_info info = { 0 };

		if (!thread->stopped || thread->tid == s->c->helper_tid || vt_map_get(&known, (uint64_t)thread->tid))
			continue;

		struct vt_error *err = vt_thread_info_read(&info, s->c->proc.pid, thread->tid);
		struct vt_thread_info *added = err ? NULL : vt_vec_append(&s->list.threads);

		if (added)
			*added = info;
		else
			lost += !err || err->code != VT_ERR_GONE;
		vt_error_destroy(err);
	}
	vt_map_deinit(&known);
	if (!ok || lost)
		vt_model_diag(s->c->model, VT_DIAG_MISSING, "stacks", "new-threads",
			      "threads that were started during the report may be missing");
}

static void index_session(struct stacks *s)
{
	for (size_t i = 0; i < s->session.threads.n; i++)
		if (!vt_map_put(&s->session_by_tid, (uint64_t)s->session.threads.data[i].tid, i))
			vt_model_diag(s->c->model, VT_DIAG_MISSING, "stacks", "nomem",
				      "not enough memory here to find the threads' registers");
}

static void stop_and_capture(struct stacks *s)
{
	struct vt_collect *c = s->c;
	struct vt_error *err = vt_session_stop_all(&s->session, c->proc.pid, c->live, STOP_DEADLINE_NS);

	if (err) {
		vt_collect_diag_error(c, VT_DIAG_MISSING, "stacks",
				      "the threads could not be stopped, their stacks are read while they run", err);
		capture(s);
		return;
	}

	s->n_escaped = count_escaped(s);
	vt_live_set_coherent(c->live, s->n_escaped == 0);
	capture(s);
	vt_session_resume(&s->session);
	vt_live_set_coherent(c->live, false);
	c->model->stacks_coherent = s->n_escaped == 0 && s->snapshot && !vt_snapshot_cut_threads(s->snapshot);
	c->model->timing.stopped_ms = (double)(s->session.stop_end_ns - s->session.stop_begin_ns) / VT_NS_PER_MS;
	add_new_threads(s);
	index_session(s);
}

static const struct vt_session_thread *session_thread(const struct stacks *s, pid_t tid)
{
	const uint64_t *index = vt_map_get(&s->session_by_tid, (uint64_t)tid);

	return index ? &s->session.threads.data[*index] : NULL;
}

/*
 * The list was made a moment before the stop: what a thread waits for must be what it waited for when its stack was taken.
 * A wait that the stop interrupted shows one of the kernel's restart codes (include/linux/errno.h), or EINTR.
 */
static void correct_wait(const struct stacks *s, struct vt_thread_info *info)
{
	enum { ERESTARTSYS = 512, ERESTARTNOINTR = 513, ERESTARTNOHAND = 514, ERESTART_RESTARTBLOCK = 516 };
	static const int arguments[6] = { VT_REG_RDI, VT_REG_RSI, VT_REG_RDX, VT_REG_R10, VT_REG_R8, VT_REG_R9 };
	const struct vt_session_thread *thread = session_thread(s, info->tid);

	if (!thread || !thread->stopped || thread->was_group_stopped || (info->state != 'S' && info->state != 'R'))
		return;

	int64_t result = (int64_t)thread->regs.r[VT_REG_RAX];
	bool waited = thread->regs.orig_rax >= 0 &&
		      (result == -ERESTARTSYS || result == -ERESTARTNOINTR || result == -ERESTARTNOHAND ||
		       result == -ERESTART_RESTARTBLOCK || result == -EINTR);

	if (waited) {
		info->state = 'S';
		info->syscall_known = info->in_syscall = true;
		info->syscall_nr = thread->regs.orig_rax;
		for (int i = 0; i < 6; i++)
			info->syscall_args[i] = thread->regs.r[arguments[i]];
	} else {
		info->state = 'R';
		info->syscall_known = info->in_syscall = false;
		info->wchan[0] = '\0';
	}
}

static void unwind_one(struct stacks *s, struct vt_unwinder *unwinder, const struct vt_thread_info *info,
		       struct vt_native_stack *stack)
{
	const struct vt_session_thread *thread = session_thread(s, info->tid);
	struct vt_regs regs;

	stack->tid = info->tid;
	if (thread && thread->stopped) {
		regs = thread->regs;
	} else if (info->syscall_known && info->pc) {
		registers_from_proc(info, &regs);
	} else {
		snprintf(stack->why, sizeof(stack->why), "%s",
			 thread && thread->why ? thread->why : "it was running and could not be stopped");
		return;
	}
	vt_error_destroy(vt_unwinder_walk(unwinder, info->tid, &regs, stack));
}

static void unwind_all(struct stacks *s)
{
	struct vt_collect *c = s->c;
	struct vt_unwinder *unwinder = NULL;
	struct vt_memsrc *src = s->snapshot ? vt_snapshot_source(s->snapshot) : vt_live_cached_source(c->live);
	struct vt_error *err = vt_unwinder_create(&c->modules, src, c->proc.pid, &unwinder);

	if (err) {
		vt_collect_diag_error(c, VT_DIAG_MISSING, "stacks", "native frames are missing", err);
		return;
	}
	for (size_t i = 0; i < s->list.threads.n; i++)
		unwind_one(s, unwinder, &s->list.threads.data[i], &s->native[i]);
	vt_unwinder_destroy(unwinder);
	err = vt_native_symbolise(&c->modules, s->native, s->list.threads.n, &c->model->arena);
	if (err)
		vt_collect_diag_error(c, VT_DIAG_MISSING, "stacks", "names of native frames are missing", err);
}

/* CPython knows its threads by pthread_t, which on x86-64 glibc is the thread's fs base; by tid where that fails. */
static void match_python_threads(struct stacks *s)
{
	bool ok = true;

	for (size_t i = 0; i < s->list.threads.n; i++) {
		const struct vt_session_thread *thread = session_thread(s, s->list.threads.data[i].tid);

		ok = vt_map_put(&s->thread_by_tid, (uint64_t)s->list.threads.data[i].tid, i) && ok;
		if (thread && thread->stopped && thread->regs.fs_base)
			ok = vt_map_put(&s->thread_by_fs, thread->regs.fs_base, i) && ok;
	}
	for (size_t i = 0; ok && s->have_python && i < s->python.threads.n; i++) {
		const struct vt_python_thread *python = &s->python.threads.data[i];
		const uint64_t *index = vt_map_get(&s->thread_by_fs, python->pthread);

		if (!index && python->tid)
			index = vt_map_get(&s->thread_by_tid, (uint64_t)python->tid);
		if (index)
			ok = vt_map_put(&s->python_by_thread, *index, i);
	}
	if (!ok)
		vt_model_diag(s->c->model, VT_DIAG_MISSING, "python", "nomem",
			      "Python frames are missing: not enough memory here");
}

static void say_no_memory_for_stack(struct stacks *s, pid_t tid)
{
	vt_model_diag(s->c->model, VT_DIAG_MISSING, "stacks", "nomem", "no memory for the stack of thread %d", tid);
}

static const char *why_incomplete(struct stacks *s, const struct vt_native_stack *native,
				  const struct vt_python_thread *python)
{
	const char *why = native->why[0] ? native->why : python && python->why[0] ? python->why : NULL;

	return why ? vt_arena_strdup(&s->c->model->arena, why) : NULL;
}

static void keep_python_frames(struct vt_model_stack *stack)
{
	size_t kept = 0;

	for (size_t i = 0; i < stack->n_frames; i++)
		if (stack->frames[i].kind == VT_FRAME_PYTHON)
			stack->frames[kept++] = stack->frames[i];
	stack->n_frames = kept;
	stack->has_native = stack->merge_uncertain = false;
}

/*
 * What a thread waits for is seen in all of its frames, so those that are not wanted go last. Native frames alone are not
 * what is left of the merged ones: there the interpreter's own are left out.
 */
static void apply_view(struct stacks *s, size_t i, struct vt_model_thread *thread)
{
	struct vt_model *model = s->c->model;

	if (model->view == VT_VIEW_PYTHON)
		keep_python_frames(&thread->stack);
	if (model->view == VT_VIEW_NATIVE && !vt_merge_stacks(&s->native[i], NULL, &thread->stack, &model->arena))
		say_no_memory_for_stack(s, thread->tid);
}

static void add_thread(struct stacks *s, size_t i)
{
	struct vt_collect *c = s->c;
	struct vt_thread_info *info = &s->list.threads.data[i];
	const uint64_t *index = vt_map_get(&s->python_by_thread, i);
	const struct vt_python_thread *python = index ? &s->python.threads.data[*index] : NULL;
	struct vt_model_thread *thread = vt_vec_append(&c->model->threads);

	if (!thread) {
		vt_model_diag(c->model, VT_DIAG_MISSING, "stacks", "nomem", "threads are missing: not enough memory here");
		return;
	}
	correct_wait(s, info);
	*thread = (struct vt_model_thread){
		.tid = info->tid,
		.name = vt_arena_strdup(&c->model->arena, info->name),
		.state = info->state,
		.cpu = info->cpu,
		.is_main = info->tid == c->proc.pid,
		.has_python = python != NULL,
		.gil = !python || !s->python.gil_known ? -1 : python->holds_gil,
	};
	if (!vt_merge_stacks(&s->native[i], python, &thread->stack, &c->model->arena))
		say_no_memory_for_stack(s, info->tid);
	if (!thread->stack.why)
		thread->stack.why = why_incomplete(s, &s->native[i], python);
	vt_wait_describe(thread, info, c->proc.pid, vt_live_cached_source(c->live), &c->model->arena);
	apply_view(s, i, thread);
}

/* Our own helper's thread may still be on its way out: it is no part of the target. */
static void drop_helper_thread(struct stacks *s)
{
	size_t kept = 0;

	for (size_t i = 0; i < s->list.threads.n; i++)
		if (!s->c->helper_tid || s->list.threads.data[i].tid != s->c->helper_tid)
			s->list.threads.data[kept++] = s->list.threads.data[i];
	s->list.threads.n = kept;
}

static void say_what_is_missing(struct stacks *s)
{
	struct vt_collect *c = s->c;
	size_t bare = 0;

	for (size_t i = 0; i < c->model->threads.n; i++) {
		const struct vt_model_thread *thread = &c->model->threads.data[i];

		/* A main thread that called pthread_exit() stays as a zombie: it has no stack to miss. */
		bare += thread->stack.n_frames == 0 && thread->state != 'Z' && thread->state != 'X' &&
			c->model->view != VT_VIEW_PYTHON;
	}
	if (s->n_escaped)
		vt_model_diag(c->model, VT_DIAG_MISSING, "stacks", "not-stopped",
			      "%zu of %zu threads did not stop: the stacks are not of one instant", s->n_escaped,
			      s->session.threads.n);
	if (bare)
		vt_model_diag(c->model, VT_DIAG_MISSING, "stacks", "no-frames", "%zu of %zu threads have no stack", bare,
			      c->model->threads.n);
}

/* libdw would want the other word size, and so would everything that reads the thread's registers. */
static bool refuse_32bit(struct stacks *s)
{
	struct vt_collect *c = s->c;

	if (!c->proc.is_32bit)
		return false;
	vt_model_diag(c->model, VT_DIAG_MISSING, "stacks", "32-bit", "it is a 32-bit process: its stacks cannot be read");
	return true;
}

static void stacks_deinit(struct stacks *s)
{
	vt_session_deinit(&s->session);
	for (size_t i = 0; s->native && i < s->list.threads.n; i++)
		vt_native_stack_deinit(&s->native[i]);
	free(s->native);
	vt_snapshot_destroy(s->snapshot);
	vt_python_deinit(&s->python);
	vt_map_deinit(&s->thread_by_tid);
	vt_map_deinit(&s->session_by_tid);
	vt_map_deinit(&s->thread_by_fs);
	vt_map_deinit(&s->python_by_thread);
	vt_thread_list_deinit(&s->list);
}

void vt_collect_stopped(struct vt_collect *c)
{
	struct stacks s = { .c = c };
	uint64_t start = vt_now_ns();

	if (refuse_32bit(&s))
		return;
	refresh_maps(c);
	find_python(&s);

	struct vt_error *err = vt_thread_list_init(&s.list, c->proc.pid);

	if (err) {
		vt_collect_diag_error(c, VT_DIAG_MISSING, "stacks", "the threads cannot be listed", err);
		stacks_deinit(&s);
		return;
	}
	drop_helper_thread(&s);
	stop_and_capture(&s);
	s.native = calloc(s.list.threads.n ? s.list.threads.n : 1, sizeof(*s.native));
	if (s.native) {
		unwind_all(&s);
		if (s.have_python) {
			err = vt_python_resolve(&s.python, vt_live_cached_source(c->live));
			if (err)
				vt_collect_diag_error(c, VT_DIAG_MISSING, "python", "names of Python frames are missing", err);
		}
		match_python_threads(&s);
		for (size_t i = 0; i < s.list.threads.n; i++)
			add_thread(&s, i);
	} else {
		vt_model_diag(c->model, VT_DIAG_MISSING, "stacks", "nomem",
			      "the stacks are missing: not enough memory here");
	}
	say_what_is_missing(&s);
	stacks_deinit(&s);
	c->model->timing.stacks_ms = (double)(vt_now_ns() - start) / VT_NS_PER_MS;
}
