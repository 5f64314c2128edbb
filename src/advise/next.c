/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a report ends with: the one or two commands or settings that follow from it. Those of the
 * advice come first; after them, what would tell more.
 */
#include <string.h>

#include "advise/internal.h"

#define MAX_NEXT 2

static bool is_there(const struct vt_model *model, const char *setting, const char *command)
{
	for (size_t i = 0; i < model->advice.next.n; i++) {
		const struct vt_model_next *n = &model->advice.next.data[i];

		if ((command && n->command && !strcmp(n->command, command)) ||
		    (setting && n->setting && !strcmp(n->setting, setting)))
			return true;
	}
	return false;
}

static void add(struct vt_advise *a, struct vt_model_next next)
{
	struct vt_model_next *n;

	if (a->model->advice.next.n >= MAX_NEXT || is_there(a->model, next.setting, next.command))
		return;
	n = vt_vec_append(&a->model->advice.next);
	if (n)
		*n = next;
	else
		a->failed = true;
}

static void add_remedies(struct vt_advise *a)
{
	for (size_t i = 0; i < a->model->advice.items.n; i++) {
		const struct vt_model_advice *advice = &a->model->advice.items.data[i];

		if (advice->setting || advice->command)
			add(a, (struct vt_model_next){ .code = VT_NEXT_REMEDY,
						       .remedy = advice->remedy,
						       .setting = advice->setting,
						       .command = advice->command });
	}
}

/* PyTorch has memory, and nothing tells who allocates it. */
static void add_record(struct vt_advise *a)
{
	const struct vt_model *model = a->model;
	const char *command;
	uint64_t bytes = 0;

	if (!vt_advise_is_live(model) || model->held_by || model->traces.n > 0 ||
	    model->recorder.state != VT_RECORDING_NONE)
		return;
	for (size_t i = 0; i < model->allocators.n; i++)
		if (model->allocators.data[i].exact)
			bytes += model->allocators.data[i].allocated_bytes;
	if (!bytes)
		return;
	command =
		vt_arena_printf(&a->model->arena, "vramtap record %d on", (int)model->process.pid);
	if (!command) {
		a->failed = true;
		return;
	}
	add(a, (struct vt_model_next){ .code = VT_NEXT_RECORD, .command = command });
}

void vt_advise_next(struct vt_advise *a)
{
	add_remedies(a);
	add_record(a);
}
