/* SPDX-License-Identifier: Apache-2.0 */
#include "target/regs.h"

void vt_regs_from_user(const struct user_regs_struct *user, struct vt_regs *regs)
{
	*regs = (struct vt_regs){
		.r = {
			[VT_REG_RAX] = user->rax, [VT_REG_RDX] = user->rdx, [VT_REG_RCX] = user->rcx,
			[VT_REG_RBX] = user->rbx, [VT_REG_RSI] = user->rsi, [VT_REG_RDI] = user->rdi,
			[VT_REG_RBP] = user->rbp, [VT_REG_RSP] = user->rsp, [VT_REG_R8] = user->r8,
			[VT_REG_R9] = user->r9, [VT_REG_R10] = user->r10, [VT_REG_R11] = user->r11,
			[VT_REG_R12] = user->r12, [VT_REG_R13] = user->r13, [VT_REG_R14] = user->r14,
			[VT_REG_R15] = user->r15, [VT_REG_RIP] = user->rip,
		},
		.fs_base = user->fs_base,
		.orig_rax = (int64_t)user->orig_rax,
	};
}
