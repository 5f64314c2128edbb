/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The general registers of a stopped thread, by DWARF number (x86-64 psABI, figure 3.36), as
 * unwinders want them.
 */
#ifndef VT_TARGET_REGS_H
#define VT_TARGET_REGS_H

#include <stdint.h>
#include <sys/user.h>

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

struct vt_regs {
	uint64_t r[VT_N_REGS];
	uint64_t fs_base;
	int64_t orig_rax; /* number of the system call it was stopped in, -1 when none */
	uint32_t unknown; /* bit n: register n is unknown (the thread was not stopped) */
};

/* From the order that the kernel uses (PTRACE_GETREGS, NT_PRSTATUS). */
void vt_regs_from_user(const struct user_regs_struct *user, struct vt_regs *regs);

#endif
