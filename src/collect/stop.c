/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/stop.h"

#include "base/clock.h"
#include "collect/collect.h"
#include "collect/watchdog.h"

/* Far more than it ever takes: copying takes milliseconds, the walk of the allocator has 2 s. */
#define CAPTURE_NS (10 * VT_NS_PER_S)
/* Before it, and without it: exploring for owners has 10 s, the blocks 2 s and more. */
#define LOOK_NS (30 * VT_NS_PER_S)
#define STOP_DEADLINE_NS (100 * VT_NS_PER_MS)

/* Calls one function of each participant in this report. */
#define EACH(c, participants, n, function)                                     \
	do {                                                                   \
		for (size_t i_ = 0; i_ < (n); i_++)                            \
			if (((participants)[i_]->want & (c)->options->want) && \
			    (participants)[i_]->function)                      \
				(participants)[i_]->function(c);               \
	} while (0)

bool vt_stop_has_escaped(const struct vt_collect *c, const struct vt_session_thread *thread)
{
	struct vt_thread_info info = { 0 };

	if (thread->stopped || thread->tid == c->helper_tid)
		return false;

	VT_ERROR struct vt_error *err = vt_thread_info_read(&info, c->target.proc.pid, thread->tid);

	return !err && info.state != 'X' && info.state != 'Z';
}

static size_t count_escaped(const struct vt_collect *c, const struct vt_session *session)
{
	size_t n = 0;

	for (size_t i = 0; i < session->threads.n; i++)
		n += vt_stop_has_escaped(c, &session->threads.data[i]);
	return n;
}

static void watch(const struct vt_collect *c, uint64_t ns)
{
	vt_watchdog_arm(ns, c->target.proc.pid,
			c->options->want & VT_WANT_THREADS ? "its threads are read" :
							     "its memory is read");
}

/* False: the process ended, which the report says. Another one may have its number by now. */
static bool is_still_there(struct vt_collect *c)
{
	if (vt_proc_is_alive(&c->target.proc))
		return true;
	vt_model_diag(c->model, VT_DIAG_MISSING, VT_STAGE_STACKS, "gone",
		      "the process ended before its threads could be read");
	return false;
}

/* For the other processes of a triage; the time for copying starts again. */
static void wait_for_others(struct vt_collect *c)
{
	const struct vt_collect_together *together = c->options->together;

	if (!together)
		return;
	vt_watchdog_disarm();
	together->wait(together->arg);
	watch(c, c->options->touch == VT_TOUCH_NOTHING ? LOOK_NS : CAPTURE_NS);
}

static void stop(struct vt_collect *c, const struct vt_sleepers *sleepers)
{
	struct vt_session *session = &c->stop.session;
	struct vt_error *err = vt_session_stop_soon(session, c->target.proc.pid, c->target.live,
						    STOP_DEADLINE_NS, sleepers);

	if (err) {
		vt_collect_diag_error(
			c, VT_DIAG_MISSING, VT_STAGE_STACKS,
			c->options->want & VT_WANT_THREADS ?
				"the threads could not be stopped; their stacks were read without that" :
				"the threads could not be stopped; the memory was read without that",
			err);
		return;
	}
	c->stop.stands = true;
	c->stop.n_escaped = count_escaped(c, session);
	vt_live_set_coherent(c->target.live, c->stop.n_escaped == 0);
	if (c->stop.n_escaped)
		vt_live_wait_killably(c->target.live);
}

static void go_on(struct vt_collect *c)
{
	struct vt_session *session = &c->stop.session;

	vt_session_resume(session);
	c->stop.stands = false;
	vt_live_set_coherent(c->target.live, false);
	c->model->timing.stop_begin_ns = session->stop_begin_ns;
	c->model->timing.stop_end_ns = session->stop_end_ns;
	c->model->timing.stopped_ms =
		(double)(session->stop_end_ns - session->stop_begin_ns) / VT_NS_PER_MS;
}

static void stop_and_copy(struct vt_collect *c, const struct vt_participant *const *participants,
			  size_t n)
{
	VT_CLEANUP(vt_sleepers_deinit) struct vt_sleepers sleepers = { 0 };

	/*
	 * Before all processes are stopped together: otherwise this one is read later than the
	 * others.
	 */
	if (c->options->together)
		vt_sleepers_init(&sleepers, c->target.proc.pid, STOP_DEADLINE_NS);
	EACH(c, participants, n, rehearse);
	wait_for_others(c);
	if (!is_still_there(c))
		return;
	watch(c, CAPTURE_NS);
	stop(c, &sleepers);
	if (!c->stop.stands && !is_still_there(c))
		return;
	EACH(c, participants, n, copy);
	if (!c->stop.stands)
		return;
	go_on(c);
	EACH(c, participants, n, resumed);
}

/* A live process that no debugger holds. */
static void copy_live(struct vt_collect *c, const struct vt_participant *const *participants,
		      size_t n)
{
	const struct vt_collect_together *together = c->options->together;

	watch(c, LOOK_NS);
	if (c->options->touch != VT_TOUCH_NOTHING) {
		stop_and_copy(c, participants, n);
	} else {
		wait_for_others(c);
		if (is_still_there(c))
			EACH(c, participants, n, copy);
	}
	vt_watchdog_disarm();
	if (together)
		together->released(together->arg);
}

static bool prepare(struct vt_collect *c, const struct vt_participant *const *participants,
		    size_t n)
{
	bool wanted = false;

	for (size_t i = n; i-- > 0;)
		if ((participants[i]->want & c->options->want) && participants[i]->prepare)
			wanted = participants[i]->prepare(c) || wanted;
	return wanted;
}

void vt_stop_copy(struct vt_collect *c, const struct vt_participant *const *participants, size_t n)
{
	if (!prepare(c, participants, n))
		return;
	if (!c->target.origin->stands_still) {
		copy_live(c, participants, n);
		return;
	}
	c->stop.stands = true;
	EACH(c, participants, n, copy);
}

void vt_stop_finish(struct vt_collect *c, const struct vt_participant *const *participants,
		    size_t n)
{
	EACH(c, participants, n, finish);
}

void vt_stop_deinit(struct vt_stop *stop)
{
	vt_session_deinit(&stop->session);
}
