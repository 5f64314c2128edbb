/* SPDX-License-Identifier: Apache-2.0 */
/* What the stub needs of each architecture besides entry.S: inject/arch/ARCH/leave.c. */
#ifndef VT_INJECT_STUB_LEAVE_H
#define VT_INJECT_STUB_LEAVE_H

#include "inject/stub/stub.h"

/* Has the interrupted system call end with EINTR, instead of being restarted. */
void vt_stub_end_call(struct vt_stub_block *block);

/* Just before the registers are restored. Here, or with them, the signal mask is. */
void vt_stub_prepare_leave(struct vt_stub_block *block);

#endif
