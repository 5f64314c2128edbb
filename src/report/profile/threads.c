/* SPDX-License-Identifier: Apache-2.0 */
#include "report/profile/threads.h"

#include "report/profile/formats.h"

/* Why there are no frames is a frame: "[the thread ran]". */
static uint32_t node_of(struct vt_profile *profile, const struct vt_model_stack *stack)
{
	uint32_t at = VT_PROFILE_ROOT;

	if (!stack->n_frames) {
		struct vt_profile_frame none = {
			.name = stack->why ? vt_profile_textf(profile, "[%s]", stack->why) :
					     vt_profile_text(profile, "[no frames]"),
		};

		return vt_profile_call(profile, at, vt_profile_frame(profile, &none));
	}
	for (size_t i = stack->n_frames; i-- > 0;)
		at = vt_profile_call(profile, at,
				     vt_profile_code(profile, &stack->frames[i], false));
	return at;
}

static void add(struct vt_profile *profile, uint32_t group, const struct vt_model_stack *stack)
{
	struct vt_profile_sample sample = { .group = group, .count = 1 };

	sample.node = node_of(profile, stack);
	vt_profile_add(profile, &sample);
}

/* "python3 (4711), rank 3" */
static uint32_t name_of(struct vt_profile *profile, const struct vt_model_process *process)
{
	const char *name = process->name && *process->name ? process->name : "process";

	if (process->rank >= 0)
		return vt_profile_textf(profile, "%s (%d), rank %d", name, process->pid,
					process->rank);
	return vt_profile_textf(profile, "%s (%d)", name, process->pid);
}

static const char *text_of(const struct vt_profile *profile, uint32_t number)
{
	return vt_texts_get(&profile->texts, number);
}

static void add_each(struct vt_profile *profile, const struct vt_model *model, uint32_t process)
{
	for (size_t i = 0; i < model->threads.n && model->threads.n > 1; i++) {
		const struct vt_model_thread *t = &model->threads.data[i];
		uint32_t name = vt_profile_textf(profile, "%s: thread %d \"%s\"",
						 text_of(profile, process), t->tid,
						 t->name ? t->name : "");

		add(profile, vt_profile_group(profile, name, true), &t->stack);
	}
}

static void add_tasks(struct vt_profile *profile, const struct vt_model *model, uint32_t process)
{
	uint32_t group;

	if (!model->tasks.tasks.n)
		return;
	group = vt_profile_group(
		profile, vt_profile_textf(profile, "%s: asyncio tasks", text_of(profile, process)),
		true);
	for (size_t i = 0; i < model->tasks.tasks.n; i++)
		add(profile, group, &model->tasks.tasks.data[i].stack);
}

/* A process that could not be read is one stack that says why: it is not there for no reason. */
static void add_unread(struct vt_profile *profile, const struct vt_stacks_result *result)
{
	struct vt_profile_frame frame = {
		.name = vt_profile_textf(profile, "[not read: %s]", result->err->message),
	};
	struct vt_profile_sample sample = { .count = 1 };

	sample.group = vt_profile_group(
		profile, vt_profile_textf(profile, "process (%d)", (int)result->pid), false);
	sample.node = vt_profile_call(profile, VT_PROFILE_ROOT, vt_profile_frame(profile, &frame));
	vt_profile_add(profile, &sample);
}

/* What repeats comes behind all processes: a viewer that has a list shows those first. */
void vt_profile_of_threads(struct vt_profile *profile, const struct vt_stacks_document *document)
{
	profile->tool = vt_profile_textf(profile, "vramtap %s", document->tool_version);
	profile->name = vt_profile_text(profile, "stacks");
	profile->when = document->when;
	profile->roots = true;
	for (int again = 0; again < 2; again++) {
		for (size_t i = 0; i < document->n; i++) {
			const struct vt_stacks_result *result = &document->results[i];
			uint32_t name, group;

			if (result->err) {
				if (!again)
					add_unread(profile, result);
				continue;
			}
			name = name_of(profile, &result->model->process);
			if (again) {
				add_tasks(profile, result->model, name);
				add_each(profile, result->model, name);
				continue;
			}
			group = vt_profile_group(profile, name, false);
			for (size_t k = 0; k < result->model->threads.n; k++)
				add(profile, group, &result->model->threads.data[k].stack);
			profile->name = document->n == 1 ? name : profile->name;
		}
	}
}

static struct vt_error *write_as(vt_write_fn *format, const struct vt_stacks_document *document,
				 const struct vt_writer_options *options, FILE *out)
{
	struct vt_profile profile;
	struct vt_error *err;

	vt_profile_init(&profile, VT_PROFILE_THREADS);
	vt_profile_of_threads(&profile, document);
	err = format(&profile, options, out);
	vt_profile_deinit(&profile);
	return err;
}

struct vt_error *vt_write_stacks_speedscope(const void *what,
					    const struct vt_writer_options *options, FILE *out)
{
	return write_as(vt_write_profile_speedscope, what, options, out);
}

struct vt_error *vt_write_stacks_folded(const void *what, const struct vt_writer_options *options,
					FILE *out)
{
	return write_as(vt_write_profile_folded, what, options, out);
}
