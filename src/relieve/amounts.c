/* SPDX-License-Identifier: Apache-2.0 */
#include "relieve/words.h"

static bool all_exact(const struct vt_model *model)
{
	for (size_t i = 0; i < model->allocators.n; i++)
		if (!model->allocators.data[i].exact)
			return false;
	return model->allocators.n != 0;
}

static bool has_allocator(const struct vt_model *model, int device)
{
	for (size_t i = 0; i < model->allocators.n; i++)
		if (model->allocators.data[i].device == device)
			return true;
	return false;
}

/* A sum without one of the devices would be no total. */
static int64_t less(const struct vt_relieve_result *result, int first, int last)
{
	int64_t bytes = 0;

	if (!result->have_after || !all_exact(&result->before) || !all_exact(&result->after))
		return INT64_MIN;
	for (size_t i = 0; i < result->diff.devices.n; i++) {
		const struct vt_diff_device *d = &result->diff.devices.data[i];

		if (!has_allocator(&result->before, d->ordinal) &&
		    !has_allocator(&result->after, d->ordinal))
			continue;
		for (int part = first; part <= last; part++) {
			if (!d->known[part])
				return INT64_MIN;
			bytes -= vt_diff_bytes(&d->parts[part]);
		}
	}
	return bytes;
}

int64_t vt_relieve_in_use_less(const struct vt_relieve_result *result)
{
	return less(result, VT_DIFF_ALLOCATED, VT_DIFF_ALLOCATED);
}

int64_t vt_relieve_given_back(const struct vt_relieve_result *result)
{
	const struct vt_model_pinned *before = &result->before.pinned;
	const struct vt_model_pinned *after = &result->after.pinned;

	if (!result->have_after)
		return INT64_MIN;
	if (result->request.what != VT_RELIEF_TRIM_PINNED)
		return less(result, VT_DIFF_ALLOCATED, VT_DIFF_CACHED);
	if (!before->sum_known || !after->sum_known)
		return INT64_MIN;
	return (int64_t)(before->total.bytes - after->total.bytes);
}

/*
 * A segment goes if no block of it is allocated; of an expandable one, every free part. What awaits
 * free is free when the GPU is idle.
 */
static int64_t unused_segments(const struct vt_model *model)
{
	uint64_t bytes = 0, segment = 0;
	bool used = false;

	for (size_t i = 0; i < model->allocators.n; i++)
		if (!model->allocators.data[i].exact)
			return -1;
	for (size_t i = 0; i < model->n_blocks; i++) {
		const struct vt_block_rec *b = &model->blocks[i];

		if (b->flags & VT_BLOCK_SEGMENT_START) {
			bytes += used ? 0 : segment;
			segment = 0;
			used = false;
		}
		if (b->state == VT_BLOCK_UNMAPPED)
			continue;
		if (b->flags & VT_BLOCK_EXPANDABLE)
			bytes += b->state == VT_BLOCK_ALLOCATED ? 0 : b->size;
		else
			segment += b->size;
		used = used || b->state == VT_BLOCK_ALLOCATED;
	}
	return model->allocators.n ? (int64_t)(bytes + (used ? 0 : segment)) : -1;
}

int64_t vt_relieve_at_most(const struct vt_relieve_result *result)
{
	const struct vt_model_pinned *pinned = &result->before.pinned;

	switch (result->request.what) {
	case VT_RELIEF_EMPTY_CACHE:
		return unused_segments(&result->before);
	case VT_RELIEF_TRIM_PINNED:
		return pinned->exact ? (int64_t)(pinned->total.bytes -
						 pinned->states[VT_BLOCK_ALLOCATED].bytes) :
				       -1;
	default:
		return -1;
	}
}

bool vt_relieve_is_known(const struct vt_relieve_result *result)
{
	bool garbage = result->request.what == VT_RELIEF_COLLECT_GARBAGE;

	return result->have_after && (garbage ? result->answer.collected >= 0 :
						vt_relieve_given_back(result) != INT64_MIN);
}
