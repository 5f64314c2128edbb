/* SPDX-License-Identifier: Apache-2.0 */
/* The process as a whole. */
#include <stdio.h>

#include "advise/internal.h"
#include "base/str.h"

/* A signal has stopped it. A tracer's stop is another thing: the tracer lets it go on. */
void vt_advise_stopped(struct vt_advise *a)
{
	const struct vt_model_process *p = &a->model->process;
	struct vt_model_advice *advice;

	if (!vt_advise_is_live(a->model) || p->state != 'T' || a->model->held_by || p->tracer > 0)
		return;
	advice = vt_advise_add(a, -1);
	vt_advise_number(advice, "pid", (uint64_t)p->pid);
	vt_advise_command(a, advice, "kill -CONT %d", (int)p->pid);
}

/* "31, 32, 33, …" */
static void add_pids(struct vt_advise *a, struct vt_model_advice *advice)
{
	const struct vt_model_around *around = &a->model->around;
	struct vt_str text = { 0 };

	for (size_t i = 0; i < around->n_children && i < VT_AROUND_MAX_CHILDREN; i++)
		vt_str_addf(&text, "%s%d", i ? ", " : "", (int)around->children[i]);
	if (around->n_children > VT_AROUND_MAX_CHILDREN)
		vt_str_add(&text, ", …");
	a->failed |= text.failed;
	vt_advise_text(a, advice, "pids", vt_str_get(&text));
	vt_str_deinit(&text);
}

/* The pid that people find first: of torchrun, of a shell. */
void vt_advise_launcher(struct vt_advise *a)
{
	const struct vt_model_around *around = &a->model->around;
	struct vt_model_advice *advice;

	if (!vt_advise_is_live(a->model) || !around->n_children)
		return;
	advice = vt_advise_add(a, -1);
	vt_advise_number(advice, "children", around->n_children);
	add_pids(a, advice);
	if (around->n_children == 1)
		vt_advise_command(a, advice, "vramtap report %d", (int)around->children[0]);
	else
		vt_advise_command(a, advice, "vramtap triage --children-of %d",
				  (int)a->model->process.pid);
}
