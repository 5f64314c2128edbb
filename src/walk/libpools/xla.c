/* SPDX-License-Identifier: Apache-2.0 */
/*
 * XLA's best-fit allocator, tsl::BFCAllocator, as the CUDA plugins of JAX have it: one a device,
 * and one for pinned memory of the host.
 */
#include <string.h>

#include "base/clock.h"
#include "walk/libpools/internal.h"

#define PLUGIN "xla_cuda_plugin.so"
#define CLASS "N3tsl12BFCAllocatorE"
#define LOOKS 50 /* at one that changes */

static bool is_in(const struct vt_libpools_target *target)
{
	size_t index = 0;

	return vt_modules_by_name(target->modules, PLUGIN, &index);
}

/* Read until it stands still for a moment. */
static enum vt_xla_outcome read_steady(const struct vt_libpools_target *target, uint64_t object,
				       struct vt_arena *notes, struct vt_libpool *pool)
{
	enum vt_xla_outcome outcome = VT_XLA_CHANGING;

	for (int look = 0; look < LOOKS && outcome == VT_XLA_CHANGING; look++) {
		vt_libpool_deinit(pool);
		*pool = (struct vt_libpool){ 0 };
		outcome = vt_xla_read(target->mem, object, notes, pool);
		if (target->stands_still || vt_now_ns() > target->deadline_ns)
			break;
	}
	return outcome;
}

struct found {
	const struct vt_libpools_target *target;
	struct vt_libpools *pools;
};

static struct vt_error *take(void *arg, uint64_t object, bool *is_one)
{
	struct found *found = arg;
	struct vt_libpool pool = { 0 }, *into = NULL;
	enum vt_xla_outcome outcome =
		read_steady(found->target, object, &found->pools->notes, &pool);

	*is_one = outcome == VT_XLA_READ || outcome == VT_XLA_CHANGING;
	if (*is_one)
		into = vt_vec_append(&found->pools->pools);
	if (into) {
		*into = pool;
		return NULL;
	}
	vt_libpool_deinit(&pool);
	return outcome == VT_XLA_NOT_ONE ? NULL : &vt_enomem;
}

static struct vt_error *find(const struct vt_libpools_target *target, struct vt_libpools *pools)
{
	struct found found = { target, pools };
	struct vt_module *module;
	size_t index = 0;

	while ((module = vt_modules_by_name(target->modules, PLUGIN, &index)))
		VT_TRY(vt_xla_find_objects(target, module, CLASS, take, &found));
	return NULL;
}

const struct vt_libpool_walker vt_libpool_xla = { .is_in = is_in, .find = find };
