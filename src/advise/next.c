/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a report ends with: the one or two commands or settings that follow from it. Those of the
 * advice come first; after them, what would tell more. Of a core there is nothing more to ask.
 */
#include <stdarg.h>
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

__attribute__((format(printf, 3, 4))) static void add_command(struct vt_advise *a,
							      enum vt_advice_next code,
							      const char *format, ...)
{
	const char *command;
	va_list args;

	va_start(args, format);
	command = vt_arena_vprintf(&a->model->arena, format, args);
	va_end(args);
	if (command)
		add(a, (struct vt_model_next){ .code = code, .command = command });
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

/* Nothing can run in a process that a signal has stopped, unless that is asked for. */
static void add_allow_resume(struct vt_advise *a)
{
	const struct vt_model_process *p = &a->model->process;

	if (p->state == 'T' && p->tracer <= 0 && p->uses_cuda &&
	    a->model->cuda_method != VT_METHOD_INSIDE)
		add_command(a, VT_NEXT_ALLOW_RESUME, "vramtap report --allow-resume %d",
			    (int)p->pid);
}

/* Half a minute of looks has seen it wait, or spin, at one place. */
static bool may_hang(const struct vt_model *model)
{
	const struct vt_model_again *again = &model->again;

	return again->verdict == VT_AGAIN_IS_STUCK ||
	       (again->verdict == VT_AGAIN_IS_SPINS && again->span_ns >= VT_AGAIN_LONG_NS);
}

static void add_waits(struct vt_advise *a)
{
	const struct vt_model *model = a->model;
	bool ranks = false, device = false;

	for (size_t i = 0; i < model->threads.n; i++) {
		ranks |= vt_advise_waits_for_ranks(&model->threads.data[i].verdict);
		device |= vt_advise_waits_for_device(&model->threads.data[i].verdict);
	}
	if ((ranks || (device && model->process.world_size > 1)) && model->around.parent > 1)
		add_command(a, VT_NEXT_TRIAGE, "vramtap triage --children-of %d",
			    (int)model->around.parent);
	if (device && !may_hang(model))
		add_command(a, VT_NEXT_LOOK_AGAIN, "vramtap stacks --again 4x10s %d",
			    (int)model->process.pid);
	else if (device && model->kernels.state == VT_KERNELS_NOT_ASKED)
		add_command(a, VT_NEXT_KERNELS, "vramtap report --kernels %d",
			    (int)model->process.pid);
}

/* PyTorch has memory, and nothing tells who allocates it. */
static void add_record(struct vt_advise *a)
{
	const struct vt_model *model = a->model;
	uint64_t bytes = 0;

	if (model->traces.n > 0 || model->recorder.state != VT_RECORDING_NONE ||
	    model->process.state == 'T')
		return;
	for (size_t i = 0; i < model->allocators.n; i++)
		if (model->allocators.data[i].exact)
			bytes += model->allocators.data[i].allocated_bytes;
	if (bytes)
		add_command(a, VT_NEXT_RECORD, "vramtap record %d on", (int)model->process.pid);
}

/* Nearly full, and nothing has failed: does it go on? */
static void add_grow(struct vt_advise *a)
{
	const struct vt_model *model = a->model;

	if (model->growth.known)
		return;
	for (size_t i = 0; i < model->allocators.n; i++)
		if (vt_advise_pressure(model, model->allocators.data[i].device) &&
		    !vt_advise_had_oom(model, model->allocators.data[i].device))
			add_command(a, VT_NEXT_GROW, "vramtap watch %d --grow",
				    (int)model->process.pid);
}

void vt_advise_next(struct vt_advise *a)
{
	add_remedies(a);
	if (!vt_advise_is_live(a->model) || a->model->held_by)
		return;
	add_allow_resume(a);
	add_waits(a);
	add_grow(a);
	add_record(a);
}
