/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session of its own, as short as one can be: vramtap's thread is not kept in the process while
 * it waits for the last look, which may be hours.
 */
#include "collect/again_streams.h"

#include "base/clock.h"

#define MOST_NS (1 * VT_NS_PER_S) /* to get inside; a report that has found a way finds it again */

static bool add_devices(struct vt_model *seen, const struct vt_model *model)
{
	for (size_t i = 0; i < model->devices.n; i++) {
		const struct vt_model_device *from = &model->devices.data[i];
		struct vt_model_device *device = vt_vec_append(&seen->devices);

		if (!device)
			return false;
		*device = (struct vt_model_device){
			.ordinal = from->ordinal,
			.context_active = from->context_active,
		};
	}
	return true;
}

/* A stream that PyTorch has handed out meanwhile was not asked before: it tells nothing. */
static void take(struct vt_model_streams *streams, const struct vt_model *seen)
{
	for (size_t i = 0; i < streams->list.n; i++) {
		struct vt_model_stream *to = &streams->list.data[i];
		const struct vt_model_stream *from = vt_model_stream(seen, to->device, to->handle);

		if (!from || to->kind == VT_STREAM_IS_EXTERNAL)
			continue;
		to->doing[VT_STREAM_LATER] = from->doing[0];
		if (from->error)
			to->error = from->error;
	}
}

static struct vt_error *ask(const struct vt_subject *subject,
			    const struct vt_collect_options *options, struct vt_model *model,
			    struct vt_model *seen)
{
	if (!add_devices(seen, model))
		return &vt_enomem;
	return vt_collect_streams_later(subject, options, seen);
}

void vt_again_streams_ask(const struct vt_subject *subject,
			  const struct vt_collect_options *options, const struct vt_glances *first,
			  struct vt_model *model)
{
	const struct vt_collect_options later = {
		.touch = VT_TOUCH_INSIDE,
		.streams = true,
		.budget_ns = options->budget_ns < MOST_NS ? options->budget_ns : MOST_NS,
	};
	struct vt_model_streams *streams = &model->streams;
	struct vt_model_streams_look *look = &streams->looks[VT_STREAM_LATER];
	struct vt_model seen;
	struct vt_error *err;

	if (options->touch != VT_TOUCH_INSIDE || !streams->wanted ||
	    !vt_model_streams_are_busy(streams))
		return;
	vt_model_init(&seen);
	err = ask(subject, &later, model, &seen);
	*look = seen.streams.looks[0];
	if (err || !look->look || vt_glances_same(first, model->process.pid) != VT_SAME_PROCESS)
		look->look = VT_STREAMS_NOT_INSIDE;
	else
		take(streams, &seen);
	model->again.borrowed_us = seen.timing.borrowed_us;
	vt_error_destroy(err);
	vt_model_deinit(&seen);
	vt_model_streams_judge(streams);
}
