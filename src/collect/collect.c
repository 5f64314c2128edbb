/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of a report: open the process, ask inside it, copy what changes at the moment when it
 * is stopped, and derive the rest from the copies.
 */
#include "collect/collect.h"

#include "advise/advise.h"
#include "base/clock.h"
#include "base/progress.h"
#include "collect/outside.h"
#include "inject/inject.h"

/* How long a second vramtap waits for the first one to finish. */
#define LOCK_WAIT_NS (10 * VT_NS_PER_S)

/*
 * The participants of the stop. Stacks change fastest and are copied first. Blocks are rehearsed
 * last, so that most of what was read is still true at the stop.
 */
static const struct vt_participant *const participants[] = {
	&vt_stop_owners,
	&vt_stop_recorder,
	&vt_stop_threads,
	&vt_stop_blocks,
};

#define N_PARTICIPANTS (sizeof(participants) / sizeof(participants[0]))

static bool wants_memory(const struct vt_collect *c)
{
	return c->options->want & VT_WANT_MEMORY;
}

/* Without a stop: the helper inside, and its answers. */
static void begin_memory(struct vt_collect *c)
{
	vt_collect_find_torch(c);
	vt_collect_owners_begin(c);
	if (c->target.live) {
		if (c->options->touch == VT_TOUCH_INSIDE)
			vt_progress("getting inside the process");
		vt_collect_inside(c);
	}
	if (vt_collect_blocks_told(c))
		vt_collect_recorded_after(c);
	vt_collect_say_backend(c);
	c->list_again = vt_collect_owners_move(c) && vt_outside_may_list_again(c);
	if (c->list_again) /* the rest belongs to the list that will count */
		return;
	if (c->model->n_blocks)
		vt_collect_recorded_join(c);
	vt_collect_history_read(c);
}

static void finish_memory(struct vt_collect *c)
{
	vt_collect_limits(c);
	vt_collect_streams(c, 1);
	vt_helper_destroy(c->helper);
	c->helper = NULL;
	vt_collect_recorded_join(c);
	vt_collect_history_read(c);
	vt_collect_moment_is_read(c);
	vt_collect_flight_finish(c);
	vt_collect_pinned(c);
	vt_collect_libpools(c);
	vt_collect_shared(c);
	vt_collect_traces_finish(c);
	vt_collect_owners_finish(c);
	vt_collect_usage_finish(c);
	vt_collect_faults(c);
	vt_collect_say_not_asked(c);
}

static void collect_report(struct vt_collect *c)
{
	if (wants_memory(c)) {
		vt_collect_usage_begin(c);
		begin_memory(c);
	}
	vt_progress(c->options->want & VT_WANT_THREADS ? "reading the stacks" :
							 "reading the memory");
	vt_collect_moment_begins(c);
	vt_stop_copy(c, participants, N_PARTICIPANTS);
	if (vt_collect_outside_is_read(c)) {
		vt_collect_usage_after(c);
		vt_collect_moment_is_read(c);
	}
	vt_stop_finish(c, participants, N_PARTICIPANTS);
	if (wants_memory(c))
		finish_memory(c);
}

/* Its identity, which is known even if nothing else is. */
static struct vt_error *open_target(struct vt_collect *c, const struct vt_subject *subject)
{
	struct vt_error *err = vt_target_open(&c->target, subject);

	if (c->target.proc.pid)
		c->target.origin->identify(c, subject);
	return err;
}

static struct vt_error *collect_target(struct vt_collect *c, const struct vt_subject *subject)
{
	VT_TRY(open_target(c, subject));
	/* Without ptrace, we and other tracers do not collide. */
	if (c->target.live && !c->target.held && c->options->touch != VT_TOUCH_NOTHING)
		VT_TRY(vt_target_lock(&c->target,
				      wants_memory(c) ? LOCK_WAIT_NS : c->options->budget_ns));
	collect_report(c);
	vt_collect_around(c);
	vt_collect_kernels(c, subject);
	c->target.origin->finish(c);
	return NULL;
}

static void collect_deinit(struct vt_collect *c)
{
	vt_helper_destroy(c->helper);
	vt_stop_deinit(&c->stop);
	vt_collect_history_deinit(c);
	vt_collect_recorded_deinit(c);
	vt_collect_traces_deinit(c);
	vt_collect_owners_deinit(c);
	vt_collect_usage_deinit(c);
	vt_collect_streams_deinit(c);
	vt_collect_python_deinit(c);
	vt_target_close(&c->target);
}

struct vt_error *vt_collect_report(const struct vt_subject *subject,
				   const struct vt_collect_options *options, struct vt_model *model)
{
	struct vt_collect c = {
		.options = options,
		.model = model,
		.start_ns = vt_now_ns(),
	};

	model->tool_version = PACKAGE_VERSION;
	model->view = options->view;
	model->no_stop = options->touch == VT_TOUCH_NOTHING;
	clock_gettime(CLOCK_REALTIME, &model->when);
	vt_collect_where(model, subject->origin != &vt_origin_core);
	vt_progress("reading the process");

	struct vt_error *err = collect_target(&c, subject);

	collect_deinit(&c);
	if (err)
		return err;
	model->timing.total_ms = (double)(vt_now_ns() - c.start_ns) / VT_NS_PER_MS;
	vt_model_account(model); /* out of memory it is partial, and says so */
	if (!vt_advise(model))
		vt_model_diag(model, VT_DIAG_NOTE, VT_STAGE_OTHER, "no-memory",
			      "not enough memory here to say what to do");
	return NULL;
}

struct vt_error *vt_collect_layout(const struct vt_subject *subject, struct vt_model *model,
				   struct vt_layout_seen *seen)
{
	static const struct vt_collect_options options = { .touch = VT_TOUCH_NOTHING };
	struct vt_collect c = { .options = &options, .model = model };
	struct vt_error *err = open_target(&c, subject);

	if (!err) {
		vt_collect_find_torch(&c);
		vt_collect_layout_seen(&c, seen);
	}
	collect_deinit(&c);
	return err;
}

struct vt_error *vt_collect_streams_later(const struct vt_subject *subject,
					  const struct vt_collect_options *options,
					  struct vt_model *model)
{
	struct vt_collect c = { .options = options, .model = model };
	struct vt_error *err = open_target(&c, subject);

	if (!err)
		err = vt_target_lock(&c.target, options->budget_ns);
	if (!err) {
		vt_collect_find_torch(&c);
		err = vt_collect_inside_streams(&c);
	}
	collect_deinit(&c);
	return err;
}

struct vt_error *vt_collect_look(const struct vt_subject *subject,
				 const struct vt_collect_options *options, struct vt_model *model)
{
	struct vt_collect c = { .options = options, .model = model };
	struct vt_error *err = open_target(&c, subject);

	collect_deinit(&c);
	return err;
}
