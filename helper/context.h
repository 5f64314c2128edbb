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

/*
 * While one thread captures a CUDA graph, some questions of any other spoil that graph, unless the one that asks says that it knows what it
 * does: events, and pools' attributes (seen with the driver 580.159.04; the documentation only says "potentially unsafe"). The helper's own
 * thread says so from then on. 0: it cannot, and nothing may be asked that is not known to be harmless.
 */
int vt_helper_spare_captures(const struct vt_helper_shared *shared);

#endif
