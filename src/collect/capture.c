/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies registers, stacks and chains of Python frames: of all threads at one instant while they
 * are stopped, or of sleeping threads, without a stop. A thread in uninterruptible sleep cannot be
 * stopped; it is read the second way, too.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "collect/stacks.h"
#include "target/arch/native.h"

#define STACK_BYTES_PER_THREAD (256 * 1024)
#define STACK_BYTES_TOTAL (16 * 1024 * 1024)
#define REHEARSED_PAGES 4096 /* except stacks; 16 MiB */
/* Before another try with threads that ran: most that woke up are asleep again by then. */
#define BETWEEN_ROUNDS_NS (2 * VT_NS_PER_MS)

static const struct vt_snapshot_limits stack_limits = { .per_thread = STACK_BYTES_PER_THREAD,
							.total = STACK_BYTES_TOTAL };

void vt_begin_own_session(struct vt_round *round, const struct vt_collect *c)
{
	round->own = (struct vt_session){ .pid = c->target.proc.pid, .live = c->target.live };
	round->session = &round->own;
}

void vt_round_deinit(struct vt_round *round)
{
	vt_session_deinit(&round->own);
	vt_snapshot_destroy(round->snapshot);
	vt_python_deinit(&round->python);
	free(round->samples);
}

/*
 * Replaces each word that is not 0 by the one that the target has offset bytes behind that address,
 * 0 if it cannot be read: all with one call of the kernel, as the threads are stopped meanwhile.
 */
static void follow(struct vt_memsrc *src, uint64_t *words, struct vt_memvec *pieces, size_t n,
		   uint64_t offset)
{
	size_t n_pieces = 0;

	for (size_t i = 0; i < n; i++) {
		if (words[i])
			pieces[n_pieces++] = (struct vt_memvec){ words[i] + offset, &words[i],
								 sizeof(words[i]) };
	}
	if (!vt_mem_readv(src, pieces, n_pieces))
		return;
	for (size_t i = 0; i < n_pieces; i++) {
		uint64_t *word = pieces[i].buf;

		if (vt_mem_read_u64(src, pieces[i].addr, word))
			*word = 0;
	}
}

/*
 * The current context of each thread of the session, as the driver keeps it (see context_slot in
 * helper_abi.h); 0 none. NULL: out of memory.
 */
static uint64_t *current_contexts(const struct vt_collect *c, const struct vt_session *session)
{
	struct vt_memsrc *src = vt_live_source(c->target.live);
	size_t n = session->threads.n;
	uint64_t *words = calloc(n, sizeof(*words));
	struct vt_memvec *pieces VT_FREE = calloc(n, sizeof(*pieces));

	if (!words || !pieces) {
		free(words);
		return NULL;
	}
	for (size_t i = 0; i < n; i++) {
		const struct vt_session_thread *thread = &session->threads.data[i];

		if (thread->stopped)
			words[i] = thread->regs.thread_pointer;
	}
	follow(src, words, pieces, n, (uint64_t)c->context_slot);
	if (c->context_inner >= 0)
		follow(src, words, pieces, n, (uint64_t)c->context_inner);
	follow(src, words, pieces, n, 0);
	follow(src, words, pieces, n, 0);
	return words;
}

static void add_context_thread(struct vt_model *model, uint64_t context, pid_t tid)
{
	for (size_t d = 0; d < model->devices.n; d++) {
		struct vt_model_device *device = &model->devices.data[d];
		pid_t *slot;

		if (device->context != context)
			continue;
		slot = vt_vec_append(&device->context_threads);
		if (slot)
			*slot = tid;
		else
			device->context_threads_known = false;
	}
}

/* Which threads hold which device's context. Known only if every thread could be read. */
static void find_context_threads(const struct vt_stacks *s, const struct vt_session *session)
{
	struct vt_model *model = s->c->model;
	uint64_t *contexts VT_FREE = NULL;

	if (!s->c->context_slot || s->n_escaped || !session->threads.n)
		return;
	contexts = current_contexts(s->c, session);
	if (!contexts)
		return;
	for (size_t d = 0; d < model->devices.n; d++)
		model->devices.data[d].context_threads_known = true;
	for (size_t i = 0; i < session->threads.n; i++) {
		pid_t tid = session->threads.data[i].tid;

		/* Our own helper's may still be on its way out. */
		if (contexts[i] && tid != s->c->helper_tid)
			add_context_thread(model, contexts[i], tid);
	}
}

static void know_register(struct vt_regs *regs, unsigned int reg, uint64_t value)
{
	regs->r[reg] = value;
	regs->unknown &= ~VT_REG_BIT(reg);
}

void vt_registers_of_sample(const struct vt_thread_sample *sample, struct vt_regs *regs)
{
	const struct vt_thread_info *info = &sample->info;

	*regs = vt_regs_unknown(VT_NATIVE);
	regs->syscall_nr = info->in_syscall ? info->syscall_nr : -1;
	know_register(regs, VT_NATIVE->abi.sp, info->sp);
	know_register(regs, VT_NATIVE->abi.pc, info->pc);
	for (int i = 0; info->in_syscall && i < 6; i++)
		know_register(regs, VT_NATIVE->syscall_args[i], info->syscall_args[i]);
}

/* Before the copy: the threads of the session that are not stopped, while they sleep. */
static void take_samples(struct vt_stacks *s, struct vt_round *round)
{
	struct vt_session *session = round->session;

	round->samples = calloc(session->threads.n + 1, sizeof(*round->samples));
	for (size_t i = 0; round->samples && i < session->threads.n; i++) {
		struct vt_session_thread *thread = &session->threads.data[i];

		if (thread->stopped)
			continue;
		vt_thread_sample_take(&round->samples[i], s->c->target.proc.pid, thread->tid);
		thread->sampled = round->samples[i].asleep;
		if (thread->sampled)
			vt_registers_of_sample(&round->samples[i], &thread->regs);
	}
}

/* Afterwards: the data of a thread that ran during the read may not belong together. */
static void check_samples(struct vt_stacks *s, struct vt_round *round)
{
	struct vt_session *session = round->session;

	for (size_t i = 0; i < session->threads.n; i++) {
		struct vt_session_thread *thread = &session->threads.data[i];

		if (thread->sampled &&
		    !vt_thread_sample_holds(&round->samples[i], s->c->target.proc.pid))
			thread->sampled = false;
	}
}

/* Memory for the copies of the stacks; expect: bytes, more or less. */
static void prepare(struct vt_stacks *s, struct vt_round *round, size_t expect)
{
	struct vt_error *err =
		vt_snapshot_create(s->c->target.live, &stack_limits, expect, &round->snapshot);

	if (err)
		vt_collect_diag_error(s->c, VT_DIAG_MISSING, VT_STAGE_STACKS,
				      "the stacks cannot be copied", err);
}

/*
 * Before the stop, so that it is short: allocates memory for the copies, and reads Python's frames
 * once as if the target were stopped. The result does not count, only which pages were read.
 */
void vt_capture_rehearse(struct vt_stacks *s)
{
	struct vt_collect *c = s->c;
	struct vt_round *round = &s->rounds[0];
	size_t expect = 0;

	for (size_t i = 0; i < s->list.threads.n; i++)
		expect += vt_snapshot_stack_size(&c->target.maps, s->list.threads.data[i].sp,
						 &stack_limits);
	prepare(s, round, expect);
	if (!s->have_python)
		return;
	vt_error_destroy(
		vt_replay_create(vt_live_source(c->target.live), REHEARSED_PAGES, &s->replay));
	if (!s->replay)
		return;
	vt_replay_source(s->replay)->coherent = true;
	vt_error_destroy(vt_python_capture(&round->python, vt_replay_source(s->replay)));
	vt_replay_arrange(s->replay);
}

/*
 * While the target is stopped, repeats the rehearsal; if some of it runs, looks at everything as it
 * changes.
 */
static struct vt_memsrc *python_source(struct vt_stacks *s, const struct vt_round *round)
{
	struct vt_memsrc *live = vt_live_source(s->c->target.live);

	if (!s->replay || !live->coherent)
		return live;
	vt_replay_refresh(s->replay, round->snapshot ? vt_snapshot_source(round->snapshot) : NULL);
	return vt_replay_source(s->replay);
}

static void copy_stacks(struct vt_stacks *s, struct vt_round *round)
{
	struct vt_error *err = round->snapshot ? vt_snapshot_take(round->snapshot, round->session,
								  &s->c->target.maps) :
						 NULL;

	if (err) {
		vt_collect_diag_error(s->c, VT_DIAG_MISSING, VT_STAGE_STACKS,
				      "the stacks could not be copied", err);
		vt_snapshot_destroy(round->snapshot);
		round->snapshot = NULL;
	}
	if (round->snapshot && vt_snapshot_cut_threads(round->snapshot))
		vt_model_diag(
			s->c->model, VT_DIAG_NOTE, VT_STAGE_STACKS, "deep-stacks",
			"%zu threads have deep stacks: their outer frames were read after the threads ran again",
			vt_snapshot_cut_threads(round->snapshot));
}

/* Copies everything that changes when the target runs. */
static void copy(struct vt_stacks *s, struct vt_round *round)
{
	struct vt_collect *c = s->c;

	vt_live_drop_cache(c->target.live);
	copy_stacks(s, round);
	if (s->have_python) {
		struct vt_error *err = vt_python_capture(&round->python, python_source(s, round));

		if (err)
			vt_collect_diag_error(c, VT_DIAG_MISSING, VT_STAGE_PYTHON,
					      "Python frames are missing", err);
	}
}

static void count_those_that_ran(struct vt_stacks *s, const struct vt_session *session)
{
	s->n_ran = 0;
	for (size_t i = 0; i < session->threads.n; i++)
		s->n_ran += !vt_is_read(&session->threads.data[i]) &&
			    vt_stop_has_escaped(s->c, &session->threads.data[i]);
}

void vt_capture_stopped(struct vt_stacks *s)
{
	struct vt_collect *c = s->c;
	struct vt_round *round = &s->rounds[0];

	round->session = &c->stop.session;
	s->n_rounds = 1;
	s->n_escaped = c->stop.n_escaped;
	if (s->n_escaped)
		take_samples(s, round);
	copy(s, round);
	if (s->n_escaped)
		check_samples(s, round);
	find_context_threads(s, round->session);
}

void vt_capture_resumed(struct vt_stacks *s)
{
	const struct vt_round *round = &s->rounds[0];

	count_those_that_ran(s, round->session);
	s->c->model->stacks_coherent = s->n_ran == 0 && round->snapshot &&
				       !vt_snapshot_cut_threads(round->snapshot);
}

void vt_python_begin_again(struct vt_python *again, const struct vt_python *found)
{
	/* What was found stays and belongs to found; the captured data is new. */
	*again = *found;
	again->pages = NULL;
	again->arena = (struct vt_arena){ 0 };
	again->threads.data = NULL;
	again->threads.n = again->threads.capacity = 0;
	again->gils.data = NULL;
	again->gils.n = again->gils.capacity = 0;
}

static bool add_to_session(struct vt_session *session, pid_t tid)
{
	struct vt_session_thread *thread = vt_vec_append(&session->threads);

	if (thread)
		*thread = (struct vt_session_thread){ .tid = tid };
	return thread;
}

/* The first round has all threads; a later one has those that the previous round could not read. */
static bool begin_round(struct vt_stacks *s, size_t n)
{
	struct vt_round *round = &s->rounds[n];
	bool ok = true;

	vt_begin_own_session(round, s->c);
	for (size_t i = 0; n == 0 && ok && i < s->list.threads.n; i++)
		ok = add_to_session(round->session, s->list.threads.data[i].tid);
	for (size_t i = 0; n > 0 && ok && i < s->rounds[n - 1].session->threads.n; i++) {
		const struct vt_session_thread *thread = &s->rounds[n - 1].session->threads.data[i];

		if (!vt_is_read(thread))
			ok = add_to_session(round->session, thread->tid);
	}
	if (n > 0)
		vt_python_begin_again(&round->python, &s->rounds[0].python);
	if (!ok)
		vt_model_diag(s->c->model, VT_DIAG_MISSING, VT_STAGE_STACKS, "nomem",
			      "not enough memory here to read all threads");
	return ok && round->session->threads.n > 0;
}

void vt_capture_running(struct vt_stacks *s)
{
	vt_live_set_coherent(s->c->target.live, false);
	s->n_escaped = s->list.threads.n;
	for (size_t n = 0; n < VT_MAX_ROUNDS && begin_round(s, n); n++) {
		struct vt_round *round = &s->rounds[n];

		s->n_rounds = n + 1;
		if (n > 0)
			vt_sleep_ns(BETWEEN_ROUNDS_NS);
		if (!round->snapshot)
			prepare(s, round, 0);
		take_samples(s, round);
		copy(s, round);
		check_samples(s, round);
		count_those_that_ran(s, round->session);
		if (s->n_ran == 0)
			break;
	}
}
