/* SPDX-License-Identifier: Apache-2.0 */
/* DWARF's numbers of the registers (DWARF for the Arm 64-bit Architecture, 4.1). */
#ifndef VT_TARGET_ARCH_AARCH64_REGS_H
#define VT_TARGET_ARCH_AARCH64_REGS_H

enum {
	VT_REG_X0 = 0, /* to x28 = 28 */
	VT_REG_X8 = 8,
	VT_REG_X19 = 19,
	VT_REG_FP = 29,
	VT_REG_LR = 30,
	VT_REG_SP = 31,
	VT_REG_PC = 32,
	VT_N_REGS_AARCH64,
};

#endif
