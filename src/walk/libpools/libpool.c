/* SPDX-License-Identifier: Apache-2.0 */
/* One pool as data. */
#include "walk/libpools/libpools.h"

void vt_libpool_deinit(struct vt_libpool *pool)
{
	vt_vec_deinit(&pool->regions);
	vt_vec_deinit(&pool->chunks);
}
