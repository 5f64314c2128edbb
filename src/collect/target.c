/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/target.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/progress.h"
#include "inject/inject.h"
#include "walk/torch/find.h"

/*
 * The process runs while its layout is searched, and may create the allocator then.
 * walk/torch/find.c checks that often enough.
 */
#define FIND_ATTEMPTS 2

struct vt_error *vt_target_open(struct vt_target *t, const struct vt_subject *subject)
{
	*t = (struct vt_target){ .origin = subject->origin, .lock_fd = -1 };
	return t->origin->open(t, subject);
}

void vt_target_close(struct vt_target *t)
{
	if (!t->origin) /* nothing was ever opened */
		return;
	if (t->lock_fd >= 0)
		close(t->lock_fd);
	vt_modules_deinit(&t->modules);
	t->origin->close(t);
	vt_maps_deinit(&t->maps);
	vt_maps_deinit(&t->newer);
	vt_proc_deinit(&t->proc);
}

void vt_target_offer_maps(struct vt_target *t, struct vt_maps *maps)
{
	vt_maps_deinit(&t->newer);
	t->newer = *maps;
	t->newer_ns = vt_now_ns();
	*maps = (struct vt_maps){ 0 };
}

void vt_target_withdraw_maps(struct vt_target *t)
{
	vt_maps_deinit(&t->newer);
	t->newer = (struct vt_maps){ 0 };
	t->newer_ns = 0;
}

struct vt_error *vt_target_lock(struct vt_target *t, uint64_t wait_ns)
{
	vt_progress("waiting for another vramtap to finish with this process");
	return vt_inject_lock(t->proc.pid, vt_now_ns() + wait_ns, &t->lock_fd);
}

static void find_once(struct vt_target *t, struct vt_torch_found *found)
{
	struct vt_error *err;

	*found = (struct vt_torch_found){ 0 };
	/*
	 * Not the cached source: while the target runs, the next try would get the data of this
	 * one.
	 */
	err = vt_torch_find(&t->modules, &t->maps, t->mem, found);
	if (err) {
		found->backend = VT_TORCH_UNKNOWN;
		snprintf(found->why, sizeof(found->why), "%s", err->message);
		vt_error_destroy(err);
	}
}

void vt_target_find_torch(struct vt_target *t, struct vt_torch_found *found)
{
	for (int attempt = 0; attempt < FIND_ATTEMPTS; attempt++) {
		find_once(t, found);
		if (found->backend != VT_TORCH_UNKNOWN || t->mem->coherent)
			break;
	}
}
