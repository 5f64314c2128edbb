/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/walk/libpools: NCCL's communicators, and what they point to. */
#ifndef VT_WALK_LIBPOOLS_NCCL_H
#define VT_WALK_LIBPOOLS_NCCL_H

#include <stdbool.h>
#include <stdint.h>

#include "walk/libpools/libpools.h"

#define VT_NCCL_MAX_VARIABLES ((uint64_t)4 << 20) /* 2.28.9 has 330 KiB of them */

struct vt_nccl {
	const struct vt_libpools_target *target;
	const struct vt_module *module;
	/*
	 * By index in target->shareable: the communicator that holds it, as current says; 0 none.
	 * Owned by the caller.
	 */
	uint16_t *holder;
	uint16_t current;
};

/* The usable bytes of the block of glibc's malloc() that begins at this address; 0: none does. */
uint64_t vt_nccl_block(const struct vt_nccl *nccl, uint64_t addr);

bool vt_nccl_is_communicator(const struct vt_nccl *nccl, uint64_t addr);

#define VT_NCCL_USERS UINT16_MAX /* in vt_nccl.holder */

/*
 * Notes in nccl->holder what users have registered with the communicator at addr. Errors as below.
 */
struct vt_error *vt_nccl_note_users(struct vt_nccl *nccl, uint64_t addr);

/*
 * Notes in nccl->holder all of target->shareable that the communicator's structures point to and
 * nobody else has yet. VT_ERR_NOMEM; VT_ERR_TIMEOUT: not all was followed.
 */
struct vt_error *vt_nccl_follow(struct vt_nccl *nccl, uint64_t comm);

#endif
