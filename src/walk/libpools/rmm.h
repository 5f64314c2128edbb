/* SPDX-License-Identifier: Apache-2.0 */
/* RMM's pools in the memory of a process. Private to their reader. */
#ifndef VT_WALK_LIBPOOLS_RMM_H
#define VT_WALK_LIBPOOLS_RMM_H

#include "walk/libpools/libpools.h"

#define VT_RMM_MAX_POOLS 1024

/* Where pools are: the addresses of their maps of free lists. Sorted. */
struct vt_rmm_found {
	VT_VEC(uint64_t) maps;
};

/* Whether a module is there that has RMM's pools in it. */
bool vt_rmm_is_in(const struct vt_libpools_target *target);
/* Where they are. An error says why some may be missing; what was found counts all the same. */
struct vt_error *vt_rmm_find(const struct vt_libpools_target *target, struct vt_rmm_found *found);
void vt_rmm_found_deinit(struct vt_rmm_found *found);

enum vt_rmm_outcome {
	VT_RMM_READ,
	VT_RMM_LOCKED,  /* the same, but a thread was about to change it */
	VT_RMM_PART,    /* only how much it has: its free lists were changing, or are damaged */
	VT_RMM_NOT_ONE, /* no pool is there, or nothing of it fits */
	VT_RMM_NO_MEMORY
};

/* One look. pool must be zeroed, and is deinitialised by the caller. */
enum vt_rmm_outcome vt_rmm_read(struct vt_memsrc *mem, uint64_t map, struct vt_libpool *pool);

#endif
