/* SPDX-License-Identifier: Apache-2.0 */
/* The process as a whole. */
#include "advise/internal.h"

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
