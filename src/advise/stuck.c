/* SPDX-License-Identifier: Apache-2.0 */
/* A process that does not go on. */
#include <string.h>

#include "advise/internal.h"
#include "base/clock.h"
#include "base/str.h"
#include "model/stream_deadlock.h"
#include "model/stream_waits.h"

bool vt_advise_waits_for_ranks(const struct vt_verdict *verdict)
{
	return verdict->code == VT_VERDICT_COLLECTIVE_NCCL ||
	       verdict->code == VT_VERDICT_COLLECTIVE_GLOO ||
	       verdict->code == VT_VERDICT_COLLECTIVE || verdict->code == VT_VERDICT_STORE;
}

/* It waits until the device has done its work: that takes a moment, or for ever. */
bool vt_advise_waits_for_device(const struct vt_verdict *verdict)
{
	return verdict->code == VT_VERDICT_IN_FUNCTION && vt_verdict_is_in(verdict, "cu") &&
	       (strstr(verdict->function, "Synchronize") || strstr(verdict->function, "Memcpy") ||
		strstr(verdict->function, "Free"));
}

/* The thread with the lowest index of each ring, once. */
static bool is_first_of_ring(const struct vt_model *model, const struct vt_model_thread *first)
{
	const struct vt_model_thread *t = vt_model_thread(model, first->waits_for);

	for (size_t n = 0; t && t != first && n < model->threads.n; n++) {
		if (t < first)
			return false;
		t = vt_model_thread(model, t->waits_for);
	}
	return t == first;
}

void vt_advise_deadlock(struct vt_advise *a)
{
	const struct vt_model *model = a->model;

	for (size_t i = 0; i < model->threads.n; i++) {
		const struct vt_model_thread *t = &model->threads.data[i];
		struct vt_model_advice *advice;

		if (!t->deadlock || !is_first_of_ring(model, t))
			continue;
		advice = vt_advise_add(a, -1);
		vt_advise_number(advice, "tid", (uint64_t)t->tid);
		vt_advise_number(advice, "holder_tid", (uint64_t)t->waits_for);
		if (vt_advise_is_live(model))
			vt_advise_command(a, advice, "vramtap stacks --threads=all %d",
					  (int)model->process.pid);
		return; /* the headlines have the others */
	}
}

static void add_stream(struct vt_advise *a, struct vt_model_advice *advice, const char *name,
		       const struct vt_model_launch_stream *s)
{
	struct vt_str text = { 0 };

	vt_launch_stream_say(&text, a->model, s);
	a->failed |= text.failed;
	vt_advise_text(a, advice, name, vt_str_get(&text));
	vt_str_deinit(&text);
}

void vt_advise_stream_deadlock(struct vt_advise *a)
{
	size_t i = 0;
	const struct vt_model_launch_stream *s = vt_next_stream_deadlock(a->model, &i);
	struct vt_model_advice *advice;
	struct vt_str text = { 0 };

	if (!s)
		return; /* the headlines have the others */
	advice = vt_advise_add(a, s->device);
	add_stream(a, advice, "stream", s);
	add_stream(a, advice, "other_stream", vt_stream_waited_for(a->model, s));
	vt_advise_number(advice, "waits_seconds", s->stuck->age_ns / VT_NS_PER_S);
	if (s->stuck->kind != VT_LAUNCHED_WAIT_VALUE)
		return;
	vt_wait_say(&text, s->stuck);
	a->failed |= text.failed;
	vt_advise_text(a, advice, "value", vt_str_get(&text));
	vt_str_deinit(&text);
}

static void add_place(struct vt_advise *a, struct vt_model_advice *advice,
		      const struct vt_model_again_place *place)
{
	struct vt_str text = { 0 };

	vt_again_say_place(&text, place, true);
	a->failed |= text.failed;
	if (text.n > 0)
		vt_advise_text(a, advice, "place", vt_str_get(&text));
	vt_str_deinit(&text);
}

/* The only stream with unfinished work. */
static void add_busy_stream(struct vt_advise *a, struct vt_model_advice *advice)
{
	const struct vt_model_stream *stream = vt_model_busy_stream(a->model);
	struct vt_str text = { 0 };

	if (!stream)
		return;
	vt_stream_say(&text, stream);
	a->failed |= text.failed;
	vt_advise_text(a, advice, "stream", vt_str_get(&text));
	vt_str_deinit(&text);
}

/* What further looks found: model/again.c judges them. A deadlock says more. */
void vt_advise_stuck(struct vt_advise *a)
{
	const struct vt_model *model = a->model;
	const struct vt_model_again *again = &model->again;
	const struct vt_model_again_thread *subject = NULL;
	const struct vt_verdict *verdict;
	struct vt_model_advice *advice;
	int pid = (int)model->process.pid, parent = (int)model->around.parent;
	bool to_triage;

	if (again->verdict != VT_AGAIN_IS_STUCK || !again->alarm)
		return;
	for (size_t i = 0; i < again->threads.n; i++)
		if (again->threads.data[i].tid == again->subject)
			subject = &again->threads.data[i];
	if (!subject || !subject->n_places || subject->deadlock)
		return;
	verdict = &subject->places[0].verdict;
	advice = vt_advise_add(a, -1);
	vt_advise_number(advice, "tid", (uint64_t)subject->tid);
	vt_advise_number(advice, "still_seconds", (again->span_ns + VT_NS_PER_S / 2) / VT_NS_PER_S);
	add_place(a, advice, &subject->places[0]);
	if (vt_advise_waits_for_device(verdict))
		add_busy_stream(a, advice);
	if (!vt_advise_is_live(model))
		return;
	to_triage = parent > 1 &&
		    (vt_advise_waits_for_ranks(verdict) ||
		     (vt_advise_waits_for_device(verdict) && model->process.world_size > 1));
	if (to_triage)
		vt_advise_command(a, advice, "vramtap triage --children-of %d", parent);
	else if (!vt_advise_waits_for_device(verdict))
		vt_advise_command(a, advice, "vramtap stacks --threads=all %d", pid);
	else if (model->kernels.state == VT_KERNELS_NOT_ASKED)
		vt_advise_command(a, advice, "vramtap report --kernels %d", pid);
	if (vt_advise_waits_for_ranks(verdict) || to_triage)
		vt_advise_remedy(advice, VT_REMEDY_FIND_RANK);
	else if (vt_advise_waits_for_device(verdict))
		vt_advise_remedy(advice, VT_REMEDY_FIND_KERNEL);
}
