/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of vt_stub_finish() that know registers. Built like inject/stub/stub.c. */
#include "inject/stub/leave.h"

#include "vramtap/freestanding.h"

void vt_stub_end_call(struct vt_stub_block *block)
{
	block->frame.regs[0] = (uint64_t)-4; /* EINTR */
	block->frame.pc += 4;
}

/* rt_sigreturn() sets the mask, and the stack for signals, which stays the one that it is. */
void vt_stub_prepare_leave(struct vt_stub_block *block)
{
	if (block->restart == VT_RESTART_BLOCK)
		vt_sys4(SYS_rt_sigprocmask, 2 /* SIG_SETMASK */, (long)&block->signal_mask, 0, 8);
	else
		vt_sys2(SYS_sigaltstack, 0, (long)block->frame.altstack);
}
