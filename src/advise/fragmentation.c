/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that is there, but in pieces. What a setting would have given is computed from the blocks
 * of this moment: from where they lie now, not from how they came to lie so.
 */
#include "advise/internal.h"

/* The request that failed, and the holes that could not serve it: model/oom.c found them. */
void vt_advise_fragmented(struct vt_advise *a)
{
	const struct vt_model_caught *c = &a->model->caught;
	struct vt_model_advice *advice;

	if (!c->oom || c->verdict != VT_OOM_FRAGMENTED)
		return;
	advice = vt_advise_add(a, c->oom->device);
	vt_advise_number(advice, "needed_bytes", c->needed_bytes);
	vt_advise_number(advice, "holes_bytes", c->holes.bytes);
	vt_advise_number(advice, "holes", c->holes.blocks);
	vt_advise_number(advice, "largest_hole_bytes", c->largest_hole);
	vt_advise_number(advice, "free_bytes", c->oom->free_bytes);
	vt_advise_setting(a, advice, "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True");
}
