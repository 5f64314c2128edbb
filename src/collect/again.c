/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/again.h"

#include <stdlib.h>
#include <string.h>

#include "advise/advise.h"
#include "base/clock.h"
#include "base/str.h"
#include "collect/again_launches.h"
#include "collect/again_streams.h"
#include "collect/again_torch.h"
#include "target/glance.h"

#define SETTLE_NS (4 * VT_NS_PER_MS)
#define MAX_SETTLE 3
#define MAX_READS 5

struct vt_again {
	struct vt_subject subject;
	struct vt_collect_options options;
	const struct vt_collect_options *report; /* the report's */
	struct vt_model *model;                  /* the report's */
	struct vt_model *seen;                   /* of the last look; the report's, or own */
	struct vt_model own;
	struct vt_glances first, last;
	struct vt_again_torch torch;
	struct vt_again_launches launches;
	uint64_t begin_ns, last_ns;
	double look_ms;
};

/* ---- the same place? ---- */

/* The next frame of that kind from i on that is a call of its own; n_frames: none. */
static size_t next_frame(const struct vt_model_stack *stack, enum vt_frame_kind kind, size_t i)
{
	while (i < stack->n_frames && (stack->frames[i].kind != kind || stack->frames[i].inlined))
		i++;
	return i;
}

static bool same_frame(const struct vt_model_frame *a, const struct vt_model_frame *b)
{
	if (a->kind == VT_FRAME_NATIVE)
		return a->pc == b->pc;
	return a->line == b->line && vt_same_text(a->function, b->function) &&
	       vt_same_text(a->file, b->file);
}

/*
 * Without a stop, fewer registers are known, and a stack may end earlier: what one of two stacks
 * lacks at its outer end is no difference.
 */
static bool same_frames(const struct vt_model_stack *a, const struct vt_model_stack *b,
			enum vt_frame_kind kind, size_t *n)
{
	size_t i = next_frame(a, kind, 0), k = next_frame(b, kind, 0);

	for (*n = 0; i < a->n_frames && k < b->n_frames; ++*n) {
		if (!same_frame(&a->frames[i], &b->frames[k]))
			return false;
		i = next_frame(a, kind, i + 1);
		k = next_frame(b, kind, k + 1);
	}
	if (i == a->n_frames && k == b->n_frames)
		return true;
	return kind == VT_FRAME_NATIVE && (a->truncated || a->why || b->truncated || b->why);
}

/*
 * Whether the thread was at one place: SAME, MOVED or UNKNOWN. A thread that ran when it was read
 * has no native frames; its Python frames say enough to tell that it moved.
 */
static enum vt_again_moved compare(const struct vt_model_thread *a, const struct vt_model_thread *b)
{
	size_t n_python = 0, n_native = 0;

	if (a->stack.has_python != b->stack.has_python)
		return VT_AGAIN_UNKNOWN;
	if (a->stack.has_python && !same_frames(&a->stack, &b->stack, VT_FRAME_PYTHON, &n_python))
		return VT_AGAIN_MOVED;
	if (a->stack.has_native && b->stack.has_native &&
	    !same_frames(&a->stack, &b->stack, VT_FRAME_NATIVE, &n_native))
		/* What runs moves all the time within its line; this is where it does not wait. */
		return a->state == 'R' || b->state == 'R' ?
			       (n_python ? VT_AGAIN_SAME : VT_AGAIN_UNKNOWN) :
			       VT_AGAIN_MOVED;
	return n_python || n_native ? VT_AGAIN_SAME : VT_AGAIN_UNKNOWN;
}

/* What two comparisons say together. */
static enum vt_again_moved both(enum vt_again_moved a, enum vt_again_moved b)
{
	static const enum vt_again_moved order[] = { VT_AGAIN_ENDED, VT_AGAIN_NEW, VT_AGAIN_MOVED,
						     VT_AGAIN_UNKNOWN, VT_AGAIN_SAME };

	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
		if (a == order[i] || b == order[i])
			return order[i];
	return VT_AGAIN_STILL;
}

/* ---- the threads ---- */

static struct vt_model_again_thread *find(struct vt_model_again *again, pid_t tid)
{
	for (size_t i = 0; i < again->threads.n; i++)
		if (again->threads.data[i].tid == tid)
			return &again->threads.data[i];
	return NULL;
}

static struct vt_model_again_thread *add(struct vt_model *model, const struct vt_model_thread *seen,
					 enum vt_again_moved moved)
{
	struct vt_model_again_thread *t = vt_vec_append(&model->again.threads);

	if (!t)
		return NULL;
	*t = (struct vt_model_again_thread){
		.tid = seen->tid,
		.name = seen->name ? vt_arena_strdup(&model->arena, seen->name) : NULL,
		.is_main = seen->is_main,
		.idle = seen->idle,
		.deadlock = seen->deadlock,
		.moved = moved,
	};
	return t;
}

/* ---- looks ---- */

static bool is_stopped(const struct vt_model *model)
{
	char state = model->process.state;

	return state == 'T' || state == 't' || state == 'Z' || state == 'X';
}

/* Threads that slept when they were stopped have been woken up by that, and fall asleep again. */
static bool have_settled(const struct vt_glances *glances, const struct vt_model *model)
{
	for (size_t i = 0; i < model->threads.n; i++) {
		const struct vt_model_thread *t = &model->threads.data[i];
		const struct vt_glance *glance = t->state == 'S' ? vt_glance_of(glances, t->tid) :
								   NULL;

		if (glance && !glance->sample.asleep)
			return false;
	}
	return true;
}

static bool take_first(struct vt_glances *glances, const struct vt_model *model)
{
	for (int i = 0;; i++) {
		if (!vt_glances_take(glances, model->process.pid))
			return false;
		if (i == MAX_SETTLE || have_settled(glances, model))
			return true;
		vt_glances_deinit(glances);
		vt_sleep_ns(SETTLE_NS);
	}
}

struct vt_again *vt_again_begin(const struct vt_subject *subject,
				const struct vt_collect_options *options, struct vt_model *model)
{
	struct vt_again *again;
	bool ok = true;

	if (subject->core || subject->held || !model->threads.n || is_stopped(model))
		return NULL;
	again = calloc(1, sizeof(*again));
	if (!again || !take_first(&again->first, model)) {
		free(again);
		return NULL;
	}
	again->subject = *subject;
	again->report = options;
	again->options = (struct vt_collect_options){
		.touch = VT_TOUCH_NOTHING,
		.want = VT_WANT_THREADS,
		.view = options->view,
		.budget_ns = options->budget_ns,
	};
	again->model = again->seen = model;
	vt_model_init(&again->own);
	again->begin_ns = again->last_ns = again->first.when_ns;
	vt_again_torch_begin(&again->torch, subject);
	vt_again_launches_begin(&again->launches, subject, model);
	model->again.looks = 1;
	for (size_t i = 0; ok && i < model->threads.n; i++) {
		struct vt_model_again_thread *t =
			add(model, &model->threads.data[i], VT_AGAIN_STILL);

		ok = t && vt_again_add_place(t, &model->threads.data[i], &model->arena);
	}
	if (!ok)
		model->again.looks = 0;
	if (ok)
		return again;
	vt_again_end(again, 0, false);
	return NULL;
}

uint64_t vt_again_due(const struct vt_again *again, uint64_t interval_ns)
{
	return again->last_ns + interval_ns;
}

static const struct vt_glances *last_glances(const struct vt_again *again)
{
	return again->last.threads.n ? &again->last : &again->first;
}

/* Did it sleep all the time since the last look? */
static bool has_slept(const struct vt_again *again, const struct vt_glances *now, pid_t tid)
{
	const struct vt_glance *a = vt_glance_of(last_glances(again), tid);
	const struct vt_glance *b = vt_glance_of(now, tid);

	return a && b && a->start_ticks == b->start_ticks && a->sample.asleep && b->sample.asleep &&
	       a->sample.switches == b->sample.switches &&
	       vt_thread_sample_holds(&a->sample, again->model->process.pid);
}

static void count_cpu(const struct vt_again *again, const struct vt_glances *now,
		      struct vt_model_again_thread *t)
{
	const struct vt_glance *a = vt_glance_of(&again->first, t->tid);
	const struct vt_glance *b = vt_glance_of(now, t->tid);

	t->cpu_known = a && b && vt_glance_cpu(a, b, &t->cpu_ns);
	/* Of a thread that started meanwhile, all it has used was used meanwhile. */
	if (!a && b) {
		t->cpu_known = true;
		t->cpu_ns = b->cpu_ns;
	}
}

/*
 * A thread that ran when it was read has no native frames, and nothing tells what it does. Where
 * its Python frames are those of before, it does what it did before, as far as is known.
 */
static void inherit(struct vt_model *model, struct vt_model_thread *seen,
		    const struct vt_model_thread *before)
{
	struct vt_model_again_thread scratch = { 0 };

	if (seen->taken != VT_TAKEN_RUNNING || seen->stack.has_native ||
	    !vt_again_add_place(&scratch, before, &model->arena))
		return;
	/* Its strings are copies. */
	seen->state = scratch.places[0].state;
	seen->verdict = scratch.places[0].verdict;
	seen->waits = scratch.places[0].waits;
	seen->syscall = scratch.places[0].call;
}

/* One thread of the new look: is it one that was seen before? */
static bool take_thread(struct vt_again *again, const struct vt_glances *now,
			struct vt_model *looked, struct vt_model_thread *seen)
{
	struct vt_model *model = again->model;
	struct vt_model_again_thread *t = find(&model->again, seen->tid);
	const struct vt_model_thread *before = vt_model_thread(again->seen, seen->tid);
	const struct vt_glance *a = vt_glance_of(last_glances(again), seen->tid);
	const struct vt_glance *b = vt_glance_of(now, seen->tid);

	if (!t)
		t = add(model, seen, VT_AGAIN_NEW);
	if (!t)
		return false;
	if (a && b && a->start_ticks != b->start_ticks) {
		/* Another thread has the number by now. */
		t->moved = VT_AGAIN_ENDED;
		return true;
	}
	if (before) {
		enum vt_again_moved moved = compare(before, seen);

		if (moved == VT_AGAIN_SAME && has_slept(again, now, seen->tid))
			moved = VT_AGAIN_STILL;
		if (moved == VT_AGAIN_SAME)
			inherit(looked, seen, before);
		t->moved = both(t->moved, moved);
	}
	t->deadlock = t->deadlock && seen->deadlock;
	/* What slept throughout is where it was; without a stop, less is seen of it. */
	if (t->moved == VT_AGAIN_STILL && t->n_places == 1) {
		t->looks++;
		t->places[0].looks++;
		return true;
	}
	return vt_again_add_place(t, seen, &model->arena);
}

static void take_look(struct vt_again *again, const struct vt_glances *now, struct vt_model *seen)
{
	struct vt_model *model = again->model;
	bool ok = true;

	for (size_t i = 0; i < seen->threads.n; i++)
		ok = take_thread(again, now, seen, &seen->threads.data[i]) && ok;
	for (size_t i = 0; i < model->again.threads.n; i++) {
		struct vt_model_again_thread *t = &model->again.threads.data[i];

		count_cpu(again, now, t);
		if (!vt_glance_of(now, t->tid) && !vt_model_thread(seen, t->tid))
			t->moved = VT_AGAIN_ENDED;
	}
	if (!ok)
		vt_model_diag(model, VT_DIAG_NOTE, VT_STAGE_STACKS, "nomem",
			      "not enough memory here to compare all threads of a second look");
	model->again.torch_known = vt_again_torch_count(&again->torch, &model->again.torch_count);
	vt_again_launches_count(&again->launches, model);
	model->again.looks++;
	model->again.process_cpu_ns =
		now->cpu_ns > again->first.cpu_ns ? now->cpu_ns - again->first.cpu_ns : 0;
}

/* Why there is no further look; false: there may be. */
static bool is_over(struct vt_again *again)
{
	switch (vt_glances_same(&again->first, again->model->process.pid)) {
	case VT_SAME_NOT:
		again->model->again.verdict = VT_AGAIN_IS_ENDED;
		return true;
	case VT_SAME_BY_EXEC:
		again->model->again.verdict = VT_AGAIN_IS_EXEC;
		return true;
	default:
		return false;
	}
}

/*
 * The Python frames of a thread that runs are read when they stand still for long enough, which is
 * a matter of luck. The main thread is worth another try.
 */
static bool lacks_frames(const struct vt_again *again, const struct vt_model *seen)
{
	pid_t pid = again->model->process.pid;
	const struct vt_model_thread *now = vt_model_thread(seen, pid);
	const struct vt_model_thread *before = vt_model_thread(again->seen, pid);

	return now && before && now->taken == VT_TAKEN_RUNNING && !now->stack.has_python &&
	       before->stack.has_python;
}

static struct vt_error *read_threads(struct vt_again *again, struct vt_model *seen)
{
	for (int i = 1;; i++) {
		vt_model_init(seen);

		struct vt_error *err = vt_collect_report(&again->subject, &again->options, seen);

		if (err || i == MAX_READS || !lacks_frames(again, seen))
			return err;
		vt_model_deinit(seen);
	}
}

bool vt_again_look(struct vt_again *again)
{
	struct vt_glances now = { 0 };
	struct vt_model seen;

	if (is_over(again))
		return false;
	if (!vt_glances_take(&now, again->model->process.pid)) {
		is_over(again);
		return false;
	}

	VT_ERROR struct vt_error *err = read_threads(again, &seen);

	/* What was read belongs to the process that was there before and after. */
	if (is_over(again) || err || !seen.threads.n) {
		vt_glances_deinit(&now);
		vt_model_deinit(&seen);
		return false;
	}
	take_look(again, &now, &seen);
	if (again->model->again.look_ms < (double)(vt_now_ns() - now.when_ns) / VT_NS_PER_MS)
		again->model->again.look_ms = (double)(vt_now_ns() - now.when_ns) / VT_NS_PER_MS;
	vt_glances_deinit(&again->last);
	vt_model_deinit(&again->own);
	again->last = now;
	again->own = seen;
	again->seen = &again->own;
	again->last_ns = now.when_ns;
	return true;
}

/*
 * All streams that had unfinished work are idle by now. What waited for them goes on, which the
 * last look was too early for; what still waits, waits for something else. Only that it moved
 * counts: it has been woken up to ask the streams.
 */
static void look_who_went_on(struct vt_again *again)
{
	struct vt_model seen;
	VT_ERROR struct vt_error *err = read_threads(again, &seen);
	size_t n = err || is_over(again) ? 0 : seen.threads.n;

	for (size_t i = 0; i < n; i++) {
		const struct vt_model_thread *now = &seen.threads.data[i];
		const struct vt_model_thread *before = vt_model_thread(again->seen, now->tid);
		struct vt_model_again_thread *t = find(&again->model->again, now->tid);

		if (!t || !before || (t->moved != VT_AGAIN_STILL && t->moved != VT_AGAIN_SAME) ||
		    compare(before, now) != VT_AGAIN_MOVED)
			continue;
		t->moved = VT_AGAIN_MOVED;
		t->went_on = true;
	}
	vt_model_deinit(&seen);
}

/* After the last look, for it wakes up the threads. */
static void ask_streams(struct vt_again *again)
{
	struct vt_model *model = again->model;

	if (model->again.looks < 2 || is_over(again))
		return;
	vt_again_streams_ask(&again->subject, again->report, &again->first, model);
	if (!is_over(again) && vt_model_streams_have_ended(&model->streams))
		look_who_went_on(again);
}

void vt_again_end(struct vt_again *again, uint64_t interval_ns, bool interrupted)
{
	if (!again)
		return;
	again->model->again.interval_ns = interval_ns;
	again->model->again.span_ns = again->last_ns - again->begin_ns;
	again->model->again.interrupted = interrupted;
	if (!interrupted)
		ask_streams(again);
	if (!vt_again_account(again->model))
		vt_model_diag(again->model, VT_DIAG_NOTE, VT_STAGE_STACKS, "nomem",
			      "not enough memory here for what a second look shows");
	vt_advise(again->model); /* with what the looks showed; out of memory, some of it */
	vt_again_torch_end(&again->torch);
	vt_again_launches_end(&again->launches);
	vt_glances_deinit(&again->first);
	vt_glances_deinit(&again->last);
	vt_model_deinit(&again->own);
	free(again);
}
