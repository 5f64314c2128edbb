/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A context of the target, for code of the target that is called on the helper's thread. At the
 * first call of a thread without a context, the runtime makes the primary context of device 0
 * current, and creates it if necessary: this costs hundreds of MiB on a device that the process may
 * not use.
 */
#ifndef VT_HELPER_CONTEXT_H
#define VT_HELPER_CONTEXT_H

#include "vramtap/helper_abi.h"

/*
 * Makes a primary context that the target has activated current and keeps it; device tells which.
 * 0: there is none, or that is not possible.
 */
int vt_helper_borrow_context(struct vt_helper_shared *shared, int *device);
/* The same for one device; ordinal is the driver's. */
int vt_helper_borrow_context_of(struct vt_helper_shared *shared, int ordinal, int *device);
void vt_helper_return_context(struct vt_helper_shared *shared, int device);

/*
 * While one thread captures a CUDA graph, some queries by any other thread break that graph, unless
 * the thread that asks has set its capture mode: queries of events and of attributes of pools (seen
 * with the driver 580.159.04; the documentation only says "potentially unsafe"). This sets the mode
 * for the helper's own thread. 0: it cannot, and only queries that are known to be harmless are
 * allowed.
 */
int vt_helper_spare_captures(const struct vt_helper_shared *shared);

/*
 * The four numbers of a pool, which belong together. handle is set only on success, else error.
 * Needs vt_helper_spare_captures().
 */
void vt_helper_read_pool(struct vt_helper_shared *shared, uint64_t handle,
			 struct vt_cuda_pool *out);

#endif
