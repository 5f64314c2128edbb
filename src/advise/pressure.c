/* SPDX-License-Identifier: Apache-2.0 */
/* What several rules ask of the model first. */
#include <string.h>

#include "advise/internal.h"

bool vt_advise_is_live(const struct vt_model *model)
{
	return !model->core.path && model->process.state != 'Z' && model->process.state != 'X';
}

const struct vt_model_allocator *vt_advise_allocator(const struct vt_model *model, int device)
{
	for (size_t i = 0; i < model->allocators.n; i++)
		if (model->allocators.data[i].device == device && model->allocators.data[i].exact)
			return &model->allocators.data[i];
	return NULL;
}

static bool is_out_of_memory(const struct vt_model_notice *n)
{
	static const char name[] = "OutOfMemoryError"; /* torch.OutOfMemoryError, torch.cuda. */
	size_t length = strlen(n->type), end = sizeof(name) - 1;

	return n->code == VT_NOTICE_EXCEPTION && length >= end &&
	       !strcmp(n->type + length - end, name);
}

bool vt_advise_fails_now(const struct vt_model *model, int device)
{
	if (model->caught.oom)
		return model->caught.oom->device == device;
	for (size_t i = 0; i < model->owners.notices.n; i++)
		if (is_out_of_memory(&model->owners.notices.data[i]))
			return vt_advise_had_oom(model, device);
	return false;
}

bool vt_advise_had_oom(const struct vt_model *model, int device)
{
	const struct vt_model_allocator *a = vt_advise_allocator(model, device);

	if (model->caught.oom && model->caught.oom->device == device)
		return true;
	for (size_t i = 0; i < model->ooms.n; i++)
		if (model->ooms.data[i].device == device)
			return true;
	return a && a->result.have_stats && a->result.stats.num_ooms > 0;
}

/* The headline of the memory is an alarm from the same share on. */
bool vt_advise_is_full(const struct vt_model *model, int device)
{
	const struct vt_model_device *d = vt_model_device(model, device);

	return d && d->have_memory && d->free_bytes < d->total_bytes / 50;
}

bool vt_advise_pressure(const struct vt_model *model, int device)
{
	const struct vt_model_allocator *a = vt_advise_allocator(model, device);
	const struct vt_model_device *d = vt_model_device(model, device);

	if (vt_advise_fails_now(model, device))
		return true;
	return vt_advise_is_full(model, device) && (!a || a->cached_bytes < d->total_bytes / 50);
}

bool vt_advise_was_short(const struct vt_model *model, int device)
{
	return vt_advise_pressure(model, device) || vt_advise_had_oom(model, device);
}
