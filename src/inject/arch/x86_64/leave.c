/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of vt_stub_finish() that know registers. Built like inject/stub/stub.c. */
#include "inject/stub/leave.h"

#include "vramtap/freestanding.h"

void vt_stub_end_call(struct vt_stub_block *block)
{
	block->frame.rax = (uint64_t)-4; /* EINTR */
	((uint64_t *)block->frame.slot)[1] = block->frame.rip_after;
}

void vt_stub_prepare_leave(struct vt_stub_block *block)
{
	vt_sys4(SYS_rt_sigprocmask, 2 /* SIG_SETMASK */, (long)&block->signal_mask, 0, 8);
}
