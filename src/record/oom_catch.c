/* SPDX-License-Identifier: Apache-2.0 */
#include "record/oom_catch.h"

#include "base/clock.h"
#include "base/fault.h"
#include "base/progress.h"
#include "target/timens.h"

/*
 * How long a thread is kept at most for what must be of its moment, which takes some 20 ms, and
 * longer with millions of blocks or on a busy machine; and how long for the rest: a process that
 * ends by the error takes its files and memory with it.
 */
#define PATIENCE_MS 800
#define REST_NS (200 * VT_NS_PER_MS)
/*
 * Of the first, for getting inside the process: else all is read from outside, and the driver is
 * not asked.
 */
#define INSIDE_NS (300 * VT_NS_PER_MS)
/* PyTorch's have some 800 bytes. */
#define MAX_MESSAGE 2048
/* Until it is on its way. */
#define GOING_ON_NS (50 * VT_NS_PER_MS)

/* ---- one event ---- */

static struct vt_model_oom event_as_model(pid_t pid, const struct vt_recorder_oom *event,
					  uint32_t seq)
{
	uint64_t now = vt_timens_now(pid);

	return (struct vt_model_oom){
		.number = seq,
		.of_pytorch = event->kind == VT_OOM_PYTORCH,
		.requested = event->requested,
		.age_ns = now > event->time_ns ? now - event->time_ns : 0,
		.free_bytes = event->free_bytes,
		.total_bytes = event->total_bytes,
		.device = event->device,
		.error = event->error,
		.tid = (pid_t)event->tid,
		.trace = VT_UNTRACED(VT_UNTRACED_UNREADABLE),
	};
}

/* What is raised until now has happened before anything is read: one report tells of all of it. */
static void moment_begins(void *arg, struct vt_model *model)
{
	struct vt_catch *c = arg;
	struct vt_recorder_oom event;
	char text[MAX_MESSAGE];
	VT_ERROR struct vt_error *err = vt_trap_raised(c->trap, &c->last);

	if (!err)
		err = vt_trap_event(c->trap, c->first, &event);
	if (!err) {
		model->caught.event = event_as_model(c->pid, &event, c->first);
		vt_trap_message(c->trap, &event, text, sizeof(text));
		model->caught.message = *text ? vt_arena_strdup(&model->arena, text) : NULL;
	}
	model->caught.first = c->first;
	model->caught.last = c->last;
}

/* A thread that did not wait for us as long: what was read may be of another moment. */
static bool has_gone_on(struct vt_catch *c, uint32_t seq)
{
	struct vt_recorder_oom event;
	VT_ERROR struct vt_error *err = vt_trap_event(c->trap, seq, &event);

	return err || event.waited_ns;
}

static void moment_is_read(void *arg, struct vt_model *model)
{
	struct vt_catch *c = arg;
	uint32_t n = c->last - c->first + 1;
	bool gone_on = n > VT_RECORDER_MAX_OOMS; /* too many to be kept, or a number that is none */

	for (uint32_t i = 0; i < n && !gone_on; i++)
		gone_on = has_gone_on(c, c->first + i);
	if (gone_on)
		vt_model_diag(
			model, VT_DIAG_MISSING, VT_STAGE_WATCH, "went-on",
			"the thread that ran out of memory went on before all was read: blocks and stacks are of a moment later");
	vt_trap_let_go_by(c->trap, c->last, vt_now_ns() + REST_NS);
}

/*
 * How long each was kept is known when it has gone on, which it does within 2 ms if it gets a
 * processor.
 */
static uint64_t waited_ns(struct vt_catch *c, uint32_t seq, uint64_t deadline_ns)
{
	struct vt_recorder_oom event = { .waited_ns = 0 };

	for (;;) {
		VT_ERROR struct vt_error *err = vt_trap_event(c->trap, seq, &event);

		if (err || event.waited_ns || vt_deadline_passed(deadline_ns))
			return err ? 0 : event.waited_ns;
		vt_sleep_ns(VT_NS_PER_MS);
	}
}

static void add_waits(struct vt_catch *c, struct vt_model *model)
{
	uint64_t deadline = vt_now_ns() + GOING_ON_NS;

	model->caught.event.waited_ns = waited_ns(c, c->first, deadline);
	for (size_t i = 0; i < model->ooms.n; i++)
		if (model->ooms.data[i].number - c->first <= c->last - c->first)
			model->ooms.data[i].waited_ns =
				waited_ns(c, model->ooms.data[i].number, deadline);
}

static struct vt_error *collect(struct vt_catch *c, struct vt_model *model)
{
	const struct vt_collect_moment moment = { .begins = moment_begins,
						  .is_read = moment_is_read,
						  .arg = c };
	struct vt_subject subject = { .origin = &vt_origin_process, .pid = c->pid };
	struct vt_collect_options options = c->collect;
	struct vt_error *err;

	options.moment = &moment;
	options.budget_ns = INSIDE_NS;
	err = vt_collect_report(&subject, &options, model);
	vt_progress_end();
	/*
	 * Whatever came of it, nobody is kept any longer. That the process has ended is found out
	 * soon enough.
	 */
	vt_error_destroy(vt_trap_let_go(c->trap, c->last));
	c->dealt = c->last;
	/* Until the next look the caller writes files: a thread would wait for nothing. */
	vt_trap_set_patience(c->trap, 0);
	c->busy = true;
	return err;
}

static struct vt_error *make_report(struct vt_catch *c, uint32_t seq, struct vt_model *model)
{
	c->first = c->dealt + 1;
	c->last = seq;
	c->n_caught++;
	VT_TRY(collect(c, model));
	add_waits(c, model);
	return NULL;
}

struct vt_error *vt_catch_look(struct vt_catch *c, struct vt_model *model, bool *caught,
			       struct vt_error **why)
{
	uint32_t seq;

	*caught = false;
	if (c->busy)
		vt_trap_set_patience(c->trap, PATIENCE_MS);
	c->busy = false;
	VT_TRY(vt_trap_raised(c->trap, &seq));
	if (seq == c->dealt)
		return NULL;
	*why = make_report(c, seq, model);
	*caught = true;
	return NULL;
}

struct vt_error *vt_catch_begin(struct vt_catch *c, const struct vt_record_target *target)
{
	if (!target->resident)
		return vt_error_create(VT_ERR_NOTFOUND, "the recorder is not there");
	VT_TRY(vt_trap_create(c->pid, target->resident->head, &c->trap));
	return vt_trap_arm(c->trap, PATIENCE_MS, &c->dealt);
}

void vt_catch_end(struct vt_catch *c)
{
	if (c->trap)
		vt_trap_disarm(c->trap);
	vt_trap_destroy(c->trap);
	c->trap = NULL;
}
