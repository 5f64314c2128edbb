/* SPDX-License-Identifier: Apache-2.0 */
/* Who or what else has the memory that is wanting. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "advise/internal.h"
#include "advise/simulate.h"

void vt_advise_too_large(struct vt_advise *a)
{
	const struct vt_model_caught *c = &a->model->caught;
	struct vt_model_advice *advice;

	if (!c->oom || c->verdict != VT_OOM_TOO_LARGE)
		return;
	advice = vt_advise_add(a, c->oom->device);
	vt_advise_number(advice, "needed_bytes", c->needed_bytes);
	vt_advise_number(advice, "total_bytes", c->oom->total_bytes);
}

/* PyTorch's message comes to where it would tell of a limit, and tells of none. */
static bool has_no_limit(const struct vt_model_caught *c)
{
	return !c->limit_bytes && c->message && strstr(c->message, " by PyTorch");
}

/* The only whole percentage of the total from low on, below high; 0: none, or several. */
static unsigned int only_percent(uint64_t low, uint64_t high, uint64_t total)
{
	unsigned int found = 0;

	for (unsigned int percent = 1; percent <= 100; percent++) {
		double limit = (double)total / 100 * percent;

		if (limit < (double)low || limit >= (double)high)
			continue;
		if (found)
			return 0;
		found = percent;
	}
	return found;
}

/*
 * PyTorch refuses a request itself when what it has reserved and the new segment exceed the limit
 * (allowed_memory_maximum). So the limit is known to within the segment; its message has it.
 */
void vt_advise_limited(struct vt_advise *a)
{
	const struct vt_model_caught *c = &a->model->caught;
	const struct vt_model_allocator *allocator;
	struct vt_model_advice *advice;
	uint64_t low, high;
	unsigned int percent, up;

	if (!c->oom || c->verdict != VT_OOM_LIMITED || has_no_limit(c))
		return;
	allocator = vt_advise_allocator(a->model, c->oom->device);
	if (!allocator)
		return;
	low = allocator->reserved_bytes;
	high = low + c->segment_bytes;
	percent =
		c->limit_bytes ?
			(unsigned int)((double)c->limit_bytes / (double)c->oom->total_bytes * 100 +
				       0.5) :
			only_percent(low, high, c->oom->total_bytes);
	up = (unsigned int)((double)high / (double)c->oom->total_bytes * 100) + 1;
	up = up < 100 ? up : 100;
	advice = vt_advise_add(a, c->oom->device);
	vt_advise_number(advice, "needed_bytes", c->needed_bytes);
	vt_advise_number(advice, "free_bytes", c->oom->free_bytes);
	vt_advise_number(advice, "reserved_bytes", low);
	if (c->limit_bytes)
		vt_advise_number(advice, "limit_bytes", c->limit_bytes);
	else
		vt_advise_number(advice, "limit_below_bytes", high);
	if (percent > 0 && percent <= 100)
		vt_advise_number(advice, "limit_percent", percent);
	vt_advise_setting(a, advice, "torch.cuda.set_per_process_memory_fraction(%u.%02u)",
			  up / 100, up % 100);
}

/* ---- other processes ---- */

struct others {
	uint64_t bytes, n, ended_bytes, ended;
	const struct vt_model_counted *most;
};

static struct others find_others(const struct vt_model *model, int device)
{
	const struct vt_model_usage *usage = &model->usage;
	const struct vt_model_gpu *gpu = vt_model_gpu(usage, device);
	struct others others = { 0 };

	if (!gpu || !gpu->processes_known)
		return others;
	for (size_t i = gpu->first; i < gpu->first + gpu->n && i < usage->processes.n; i++) {
		const struct vt_model_counted *p = &usage->processes.data[i];

		if (p->ours || !p->bytes_known)
			continue;
		if (p->life == VT_LIFE_ZOMBIE || p->life == VT_LIFE_GONE) {
			others.ended++;
			others.ended_bytes += p->bytes;
			continue;
		}
		others.n++;
		others.bytes += p->bytes;
		if (!others.most || p->bytes > others.most->bytes)
			others.most = p;
	}
	return others;
}

static void add_most(struct vt_advise *a, struct vt_model_advice *advice,
		     const struct vt_model_counted *most)
{
	bool here = most->life == VT_LIFE_THERE && !a->model->usage.foreign && most->pid > 0;

	vt_advise_number(advice, "most_bytes", most->bytes);
	if (most->name && *most->name)
		vt_advise_text(a, advice, "most_name", most->name);
	if (!here)
		return;
	vt_advise_number(advice, "most_pid", (uint64_t)most->pid);
	if (vt_advise_is_live(a->model))
		vt_advise_command(a, advice, "vramtap report %d", (int)most->pid);
}

void vt_advise_others(struct vt_advise *a)
{
	const struct vt_model *model = a->model;

	for (size_t i = 0; i < model->devices.n; i++) {
		const struct vt_model_device *d = &model->devices.data[i];
		const struct vt_model_caught *c = &model->caught;
		struct others others = find_others(model, d->ordinal);
		struct vt_model_advice *advice;

		if (!d->have_memory || others.bytes < d->total_bytes / 10 || !others.most ||
		    !vt_advise_is_full(model, d->ordinal) || !vt_advise_pressure(model, d->ordinal))
			continue;
		advice = vt_advise_add(a, d->ordinal);
		vt_advise_number(advice, "others_bytes", others.bytes);
		vt_advise_number(advice, "others", others.n);
		vt_advise_number(advice, "free_bytes", d->free_bytes);
		if (c->oom && c->oom->device == d->ordinal) {
			vt_advise_number(advice, "needed_bytes", c->needed_bytes);
			if (others.bytes >= c->needed_bytes)
				vt_advise_sure(advice, VT_SURE_CERTAIN);
		}
		if (advice)
			advice->alarm = vt_advise_fails_now(model, d->ordinal);
		add_most(a, advice, others.most);
	}
}

/* The memory of a process that has ended: its driver still works on it, or a child shares it. */
void vt_advise_ended(struct vt_advise *a)
{
	const struct vt_model *model = a->model;

	for (size_t i = 0; i < model->devices.n; i++) {
		const struct vt_model_device *d = &model->devices.data[i];
		struct others others = find_others(model, d->ordinal);
		struct vt_model_advice *advice;

		if (!d->have_memory || others.ended_bytes < d->total_bytes / 10)
			continue;
		advice = vt_advise_add(a, d->ordinal);
		vt_advise_number(advice, "ended_bytes", others.ended_bytes);
		vt_advise_number(advice, "ended", others.ended);
		if (vt_advise_is_live(model))
			vt_advise_command(a, advice, "fuser -v /dev/nvidia*");
	}
}

/* A cache that nobody here needs now, on a device where others find nothing. */
void vt_advise_cache_kept(struct vt_advise *a)
{
	const struct vt_model *model = a->model;

	for (size_t i = 0; i < model->allocators.n; i++) {
		const struct vt_model_allocator *allocator = &model->allocators.data[i];
		const struct vt_model_device *d = vt_model_device(model, allocator->device);
		struct vt_model_advice *advice;
		struct others others;
		struct vt_simulated s;

		if (!allocator->exact || !d || !vt_advise_is_full(model, d->ordinal))
			continue;
		others = find_others(model, d->ordinal);
		if (!others.n)
			continue;
		vt_advise_simulate(model, allocator, 0, 0, &s);
		if (s.whole_bytes < d->total_bytes / 10)
			continue;
		advice = vt_advise_add(a, d->ordinal);
		vt_advise_number(advice, "whole_bytes", s.whole_bytes);
		vt_advise_number(advice, "cached_bytes", allocator->cached_bytes);
		vt_advise_number(advice, "free_bytes", d->free_bytes);
		vt_advise_number(advice, "others", others.n);
		vt_advise_number(advice, "others_bytes", others.bytes);
		vt_advise_setting(a, advice, "torch.cuda.empty_cache()");
		if (vt_advise_is_live(model))
			vt_advise_command(a, advice, "vramtap relieve %d --empty-cache",
					  (int)model->process.pid);
	}
}

void vt_advise_mig(struct vt_advise *a)
{
	const struct vt_model *model = a->model;

	for (size_t i = 0; i < model->devices.n; i++) {
		const struct vt_model_device *d = &model->devices.data[i];
		const struct vt_model_gpu *gpu = vt_model_gpu(&model->usage, d->ordinal);
		struct vt_model_advice *advice;

		if (!d->have_memory || !gpu || gpu->parent < 0 ||
		    (size_t)gpu->parent >= model->usage.gpus.n ||
		    !vt_advise_pressure(model, d->ordinal))
			continue;
		advice = vt_advise_add(a, d->ordinal);
		vt_advise_number(advice, "total_bytes", d->total_bytes);
		if (model->usage.gpus.data[gpu->parent].memory_known)
			vt_advise_number(advice, "whole_device_bytes",
					 model->usage.gpus.data[gpu->parent].total_bytes);
	}
}
