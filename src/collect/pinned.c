/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PyTorch's pinned host memory into the model. It is read while the process runs, until two passes
 * agree: copying 100,000 blocks would need too long a stop, while blocks come and go seldom (that
 * is the purpose of the cache).
 */
#include <string.h>

#include "base/clock.h"
#include "collect/collect.h"
#include "collect/watchdog.h"
#include "walk/torch/pinned.h"

#define MAX_BLOCKS 1000000
/* all passes together; one takes about 50 ms for 100,000 blocks */
#define READ_NS (500 * VT_NS_PER_MS)
#define PASSES 50
/* a wait in the kernel longer than that will not end */
#define WATCH_NS (20 * VT_NS_PER_S)

static const enum vt_allocator_state states[] = {
	[VT_PINNED_ABSENT] = VT_ALLOCATOR_NOT_LOADED,
	[VT_PINNED_UNUSED] = VT_ALLOCATOR_NOT_INITIALISED,
	[VT_PINNED_FOUND] = VT_ALLOCATOR_NATIVE,
	[VT_PINNED_UNKNOWN] = VT_ALLOCATOR_REFUSED,
};

/* The map is read again each time: memory is pinned and freed while the process runs. */
static const struct vt_maps *maps_now(void *arg)
{
	struct vt_collect *c = arg;
	struct vt_maps maps = { 0 };
	VT_ERROR struct vt_error *err = vt_maps_init(&maps, c->target.proc.pid);

	if (err)
		return &c->pinned_maps; /* the last one, or none: then no block is in memory */
	vt_maps_deinit(&c->pinned_maps);
	c->pinned_maps = maps;
	return &c->pinned_maps;
}

static void read_blocks(struct vt_collect *c, struct vt_memsrc *src, uint64_t object)
{
	struct vt_model_pinned *pinned = &c->model->pinned;
	const struct vt_pinned_limits limits = {
		.max_blocks = MAX_BLOCKS,
		.deadline_ns = vt_now_ns() + READ_NS,
		.max_passes = PASSES,
		/*
		 * gdb omits mappings of devices from its cores, and a driver may pin memory in such
		 */
		.maps_now = c->target.live ? maps_now : NULL,
		.arg = c,
	};
	struct vt_pinned_result result;

	vt_pinned_read(src, object, &limits, &result);
	vt_maps_deinit(&c->pinned_maps);
	pinned->object = object;
	pinned->result = result.result;
	pinned->same_blocks = result.same_blocks;
	pinned->why = vt_collect_copy(c, result.why, sizeof(result.why));
	pinned->owner_tid = result.owner_tid;
	pinned->counted = result.have_stats;
	pinned->read_ms = (double)result.read_ns / VT_NS_PER_MS;
	pinned->blocks = result.blocks;
	pinned->n_blocks = result.n_blocks;
}

static void find_and_read(struct vt_collect *c)
{
	struct vt_model_pinned *pinned = &c->model->pinned;
	struct vt_memsrc *src = c->target.mem; /* uncached: passes are compared */
	struct vt_pinned_found found;

	vt_pinned_find(&c->target.modules, src, &found);
	pinned->state = states[found.state];
	if (found.state == VT_PINNED_UNKNOWN)
		vt_model_diag(c->model, VT_DIAG_MISSING, VT_STAGE_PINNED, "pinned-not-found",
			      "pinned host memory is not listed: %s; nothing was guessed",
			      found.why);
	if (found.state == VT_PINNED_FOUND)
		read_blocks(c, src, found.object);
}

void vt_collect_pinned(struct vt_collect *c)
{
	if (c->torch_inherited || c->driver == VT_DRIVER_UNUSED) {
		/* whatever there is was copied by fork(): the parent's */
		c->model->pinned.state = c->torch_inherited ? VT_ALLOCATOR_INHERITED :
							      VT_ALLOCATOR_NOT_INITIALISED;
		return;
	}
	if (!c->target.live) { /* a core */
		find_and_read(c);
		return;
	}
	vt_watchdog_arm(WATCH_NS, c->target.proc.pid, "its pinned host memory is read");
	vt_live_wait_killably(c->target.live);
	find_and_read(c);
	vt_watchdog_disarm();
}
