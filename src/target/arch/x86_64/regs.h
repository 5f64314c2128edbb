/* SPDX-License-Identifier: Apache-2.0 */
/* DWARF's numbers of the registers (x86-64 psABI, figure 3.36), and what the psABI says of them. */
#ifndef VT_TARGET_ARCH_X86_64_REGS_H
#define VT_TARGET_ARCH_X86_64_REGS_H

#include <elf.h>

#include "target/arch/arch.h"

enum {
	VT_REG_RAX,
	VT_REG_RDX,
	VT_REG_RCX,
	VT_REG_RBX,
	VT_REG_RSI,
	VT_REG_RDI,
	VT_REG_RBP,
	VT_REG_RSP,
	VT_REG_R8,
	VT_REG_R9,
	VT_REG_R10,
	VT_REG_R11,
	VT_REG_R12,
	VT_REG_R13,
	VT_REG_R14,
	VT_REG_R15,
	VT_REG_RIP,
	VT_N_REGS
};

/* clang-format off */
#define VT_ABI_X86_64 { \
	.machine = EM_X86_64, \
	.n_regs = VT_N_REGS, \
	.pc = VT_REG_RIP, \
	.sp = VT_REG_RSP, \
	.fp = VT_REG_RBP, \
	.ra = VT_REG_RIP, \
	.preserved = VT_REG_BIT(VT_REG_RBX) | VT_REG_BIT(VT_REG_RBP) | VT_REG_BIT(VT_REG_R12) | \
		     VT_REG_BIT(VT_REG_R13) | VT_REG_BIT(VT_REG_R14) | VT_REG_BIT(VT_REG_R15), \
}
/* clang-format on */

#endif
