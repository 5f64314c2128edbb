/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks that were listed inside, of a process that runs. Its owners are read at the stop; what was
 * allocated or freed since has none, or another one. So the allocator is read again then, if it has
 * changed. A thread that was stopped in the middle of an allocation holds the lock: then the
 * earlier list, which was made under the lock, counts.
 */
#include <string.h>

#include "collect/outside.h"
#include "walk/torch/abi.h"

/* DeviceStats: the place of reserved_bytes among the arrays. */
#define RESERVED_BYTES 5

bool vt_outside_may_list_again(const struct vt_collect *c)
{
	if (c->model->torch_method != VT_METHOD_INSIDE)
		return false;
	for (size_t i = 0; i < c->model->allocators.n; i++) {
		const struct vt_torch_device_result *r = &c->model->allocators.data[i].result;

		if (r->result != VT_WALK_COMPLETE || r->lock != VT_LOCK_TAKEN)
			return false;
	}
	return true;
}

static bool is_unchanged(const struct vt_collect *c, const struct vt_model_allocator *allocator)
{
	const struct vt_torch_device_result *r = &allocator->result;
	uint64_t stats = r->allocator + c->torch.layout.stats;
	struct vt_torch_stat allocation, reserved;

	return r->have_stats &&
	       !vt_mem_read(c->target.mem, stats, &allocation, sizeof(allocation)) &&
	       !vt_mem_read(c->target.mem, stats + RESERVED_BYTES * VT_STATS_ARRAY, &reserved,
			    sizeof(reserved)) &&
	       !memcmp(&allocation, &r->stats.allocation, sizeof(allocation)) &&
	       !memcmp(&reserved, &r->stats.reserved_bytes, sizeof(reserved));
}

bool vt_outside_has_changed(const struct vt_collect *c)
{
	for (size_t i = 0; i < c->model->allocators.n; i++)
		if (!is_unchanged(c, &c->model->allocators.data[i]))
			return true;
	return false;
}

bool vt_outside_is_unproven(const struct vt_collect *c)
{
	for (int i = 0; i < c->outside->n; i++)
		if (c->outside->devices[i].unproven)
			return true;
	return false;
}

bool vt_outside_is_exact(const struct vt_collect *c)
{
	for (int i = 0; i < c->outside->n; i++) {
		const struct vt_torch_device_result *r = &c->outside->devices[i].result;

		if (r->result != VT_WALK_COMPLETE || r->lock == VT_LOCK_HELD_BY)
			return false;
	}
	return c->outside->n > 0;
}

void vt_outside_forget_inside(struct vt_model *model)
{
	if (model->blocks && model->blocks_release)
		model->blocks_release(model->blocks, model->n_blocks);
	model->blocks = NULL;
	model->n_blocks = 0;
	model->allocators.n = 0;
}
