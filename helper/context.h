/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A context of the target, for code of the target that is called on the helper's thread. The runtime makes a thread that has none the
 * primary context of device 0 current at the first call, and creates it if need be: hundreds of MiB on a device that the process may not use.
 */
#ifndef VT_HELPER_CONTEXT_H
#define VT_HELPER_CONTEXT_H

#include "vramtap/helper_abi.h"

/* Makes a primary context that the target has made active current, and keeps it: device. 0: there is none, or that cannot be done. */
int vt_helper_borrow_context(struct vt_helper_shared *shared, int *device);
void vt_helper_return_context(struct vt_helper_shared *shared, int device);

#endif
