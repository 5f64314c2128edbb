/* SPDX-License-Identifier: Apache-2.0 */
#include "walk/libpools/libpools.h"

#include "walk/libpools/internal.h"

/* The libraries. Their order is that of the report. */
static const struct vt_libpool_walker *const walkers[VT_N_LIBPOOL_KINDS] = {
	[VT_LIBPOOL_XLA] = &vt_libpool_xla,
	[VT_LIBPOOL_CUPY] = &vt_libpool_cupy,
	[VT_LIBPOOL_NCCL] = &vt_libpool_nccl,
	[VT_LIBPOOL_RMM] = &vt_libpool_rmm,
};

bool vt_libpools_has(const struct vt_libpools_target *target, enum vt_libpool_kind kind)
{
	return walkers[kind] && walkers[kind]->is_in(target);
}

bool vt_libpools_may_be_in(const struct vt_libpools_target *target)
{
	for (int i = 0; i < VT_N_LIBPOOL_KINDS; i++)
		if (walkers[i] && walkers[i]->is_in(target))
			return true;
	return false;
}

void vt_libpools_init(struct vt_libpools *pools, const struct vt_libpools_target *target,
		      struct vt_error **why)
{
	*why = NULL;
	for (int i = 0; i < VT_N_LIBPOOL_KINDS; i++) {
		struct vt_error *err;

		if (!walkers[i] || !walkers[i]->is_in(target))
			continue;
		err = walkers[i]->find(target, pools);
		if (*why)
			vt_error_destroy(err);
		else
			*why = err;
	}
}

void vt_libpools_deinit(struct vt_libpools *pools)
{
	for (size_t i = 0; i < pools->pools.n; i++)
		vt_libpool_deinit(&pools->pools.data[i]);
	vt_vec_deinit(&pools->pools);
	vt_arena_deinit(&pools->notes);
}
