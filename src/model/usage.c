/* SPDX-License-Identifier: Apache-2.0 */
#include "model/usage.h"

#include <stdlib.h>

const char *vt_counted_name(unsigned int state)
{
	static const char *const names[] = {
		[VT_COUNTED_NOT] = "not-asked",   [VT_COUNTED_READ] = "read",
		[VT_COUNTED_NO_NVML] = "no-nvml", [VT_COUNTED_LATE] = "late",
		[VT_COUNTED_REFUSED] = "refused",
	};

	return state < VT_N_COUNTED ? names[state] : names[VT_COUNTED_NOT];
}

const char *vt_counted_life_name(unsigned int life)
{
	static const char *const names[] = {
		[VT_LIFE_THERE] = "there",
		[VT_LIFE_ZOMBIE] = "zombie",
		[VT_LIFE_GONE] = "gone",
		[VT_LIFE_UNKNOWN] = "unknown",
	};

	return life < VT_N_LIVES ? names[life] : names[VT_LIFE_UNKNOWN];
}

static int by_gpu_and_size(const void *pa, const void *pb)
{
	const struct vt_model_counted *a = pa, *b = pb;

	if (a->gpu != b->gpu)
		return a->gpu < b->gpu ? -1 : 1;
	if (a->bytes != b->bytes)
		return a->bytes > b->bytes ? -1 : 1;
	return a->pid < b->pid ? -1 : a->pid > b->pid;
}

static void account_gpu(struct vt_model_usage *usage, uint32_t index)
{
	struct vt_model_gpu *gpu = &usage->gpus.data[index];
	bool all_known = gpu->processes_known && gpu->memory_known;
	uint64_t sum = 0;

	gpu->first = gpu->n = 0;
	gpu->ours_bytes = 0;
	gpu->is_ours = false;
	gpu->ours_known = gpu->processes_known && !usage->foreign;
	for (size_t i = 0; i < usage->processes.n; i++) {
		const struct vt_model_counted *p = &usage->processes.data[i];

		if (p->gpu != index)
			continue;
		if (!gpu->n++)
			gpu->first = i;
		all_known = all_known && p->bytes_known;
		sum += p->bytes;
		if (!p->ours)
			continue;
		gpu->is_ours = true;
		gpu->ours_known = p->bytes_known;
		gpu->ours_bytes += p->bytes;
	}
	gpu->rest_known = all_known && !gpu->divided;
	gpu->rest_bytes = gpu->rest_known ? (int64_t)gpu->used_bytes - (int64_t)sum : 0;
}

const struct vt_model_gpu *vt_model_gpu(const struct vt_model_usage *usage, int ordinal)
{
	for (size_t i = 0; i < usage->gpus.n && ordinal >= 0; i++)
		if (usage->gpus.data[i].ordinal == ordinal)
			return &usage->gpus.data[i];
	return NULL;
}

bool vt_model_gpu_is_used(const struct vt_model_usage *usage, size_t gpu, int *ordinal)
{
	const struct vt_model_gpu *whole = &usage->gpus.data[gpu];
	size_t others = 0;

	*ordinal = whole->ordinal;
	if (whole->is_ours)
		return true;
	for (size_t i = 0; i < usage->gpus.n; i++) {
		others += i != gpu && usage->gpus.data[i].parent < 0;
		if (usage->gpus.data[i].parent != (int)gpu || !usage->gpus.data[i].is_ours)
			continue;
		*ordinal = usage->gpus.data[i].ordinal;
		return true;
	}
	/* Only devices that it has open were asked. */
	return !whole->ours_known && !whole->divided && !others;
}

const char *vt_slow_name(unsigned int bit)
{
	/* nvmlClocksEventReasons */
	static const char *const names[VT_N_SLOW] = {
		"idle",        "application-clocks", "sw-power-cap",
		"hw-slowdown", "sync-boost",         "sw-thermal",
		"hw-thermal",  "hw-power-brake",     "display-clocks",
	};

	return bit < VT_N_SLOW ? names[bit] : NULL;
}

bool vt_health_is_bad(const struct vt_usage_health *health)
{
	return health->ecc_now || health->remap_failed;
}

bool vt_health_is_throttled(const struct vt_usage_health *health)
{
	return health->slow & VT_SLOW_BY_HARDWARE;
}

const char *vt_health_why_slow(const struct vt_usage_health *health)
{
	return health->slow & VT_SLOW_THERMAL     ? "its temperature" :
	       health->slow & VT_SLOW_POWER_BRAKE ? "a brake of the power supply" :
						    "its temperature or the power supply";
}

void vt_model_usage_deinit(struct vt_model_usage *usage)
{
	vt_vec_deinit(&usage->gpus);
	vt_vec_deinit(&usage->processes);
}

void vt_model_usage_account(struct vt_model_usage *usage)
{
	if (usage->processes.n)
		qsort(usage->processes.data, usage->processes.n, sizeof(*usage->processes.data),
		      by_gpu_and_size);
	for (size_t i = 0; i < usage->gpus.n; i++)
		account_gpu(usage, (uint32_t)i);
}
