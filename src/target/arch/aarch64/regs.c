/* SPDX-License-Identifier: Apache-2.0 */
#include "target/arch/aarch64/regs.h"

#include <errno.h>
#include <string.h>

#include "target/arch/aarch64/code.h"
#include "target/arch/aarch64/kernel.h"
#include "target/arch/aarch64/pthread.h"
#include "target/arch/aarch64/syscall_names.h"

#define BITS(high, low) ((UINT64_C(2) << (high)) - (UINT64_C(1) << (low)))

/*
 * Which bits of an address may be its authentication code: those between the size of addresses and
 * bit 55, which tells user addresses from the kernel's. (The byte above is a tag, and ignored.) The
 * kernel says which; if it does not: addresses have 48 bits, unless a program asks for more.
 */
#define PAC_BITS BITS(54, 48)

/* struct user_pt_regs: x0 to x30, sp, pc, pstate. The first 33 are in DWARF's order. */
static void take_user(const void *data, struct vt_regs *regs)
{
	*regs = (struct vt_regs){ .arch = &vt_arch_aarch64, .syscall_nr = -1, .pac = PAC_BITS };
	memcpy(regs->r, data, VT_N_REGS_AARCH64 * sizeof(regs->r[0]));
}

static void take_thread_pointer(const void *data, struct vt_regs *regs)
{
	memcpy(&regs->thread_pointer, data, sizeof(regs->thread_pointer));
}

/* -1 (NO_SYSCALL) when it is in none, and once the kernel has made ready to restart it. */
static void take_syscall(const void *data, struct vt_regs *regs)
{
	int32_t nr;

	memcpy(&nr, data, sizeof(nr));
	regs->syscall_nr = nr;
}

/* struct user_pac_mask: of data addresses, of instructions. */
static void take_pac_mask(const void *data, struct vt_regs *regs)
{
	uint64_t masks[2];

	memcpy(masks, data, sizeof(masks));
	/* Below are addresses; a damaged core may say anything. */
	regs->pac = masks[1] & BITS(63, 36);
}

static const struct vt_arch_set sets[] = {
	{ NT_PRSTATUS, "CORE", 34 * sizeof(uint64_t), take_user },
	{ NT_ARM_TLS, "LINUX", sizeof(uint64_t), take_thread_pointer },
	{ NT_ARM_SYSTEM_CALL, "LINUX", sizeof(int32_t), take_syscall },
	{ NT_ARM_PAC_MASK, "LINUX", 2 * sizeof(uint64_t), take_pac_mask },
};

/*
 * Before a tracer or a core sees a thread whose wait is to be restarted, the kernel has put the
 * first argument back and pc onto the instruction again (arch/arm64/kernel/signal.c, do_signal()).
 * It leaves x8, the number, alone.
 */
static int64_t interrupted(struct vt_memsrc *src, const struct vt_regs *regs)
{
	uint64_t pc = regs->r[VT_REG_PC], nr = regs->r[VT_REG_X8];

	if ((int64_t)regs->r[VT_REG_X0] == -EINTR && regs->syscall_nr >= 0)
		return regs->syscall_nr;
	if (regs->syscall_nr >= 0 || nr > INT32_MAX)
		return -1;
	if (vt_aarch64_is_syscall(src, pc) ||
	    ((int64_t)regs->r[VT_REG_X0] == -EINTR && vt_aarch64_is_after_syscall(src, pc)))
		return (int64_t)nr;
	return -1;
}

const struct vt_arch vt_arch_aarch64 = {
	.abi = {
		.machine = EM_AARCH64,
		.n_regs = VT_N_REGS_AARCH64,
		.pc = VT_REG_PC,
		.sp = VT_REG_SP,
		.fp = VT_REG_FP,
		.ra = VT_REG_LR,
		.link_register = true,
		/* AAPCS64, 6.1.1; x30 as long as nothing has been called. */
		.preserved = BITS(VT_REG_LR, VT_REG_X19),
		/* DW_CFA_AARCH64_negate_ra_state_with_pc, DW_CFA_AARCH64_negate_ra_state */
		.sign_ops = { 0x2c, 0x2d },
	},
	.name = "aarch64",
	.relative = R_AARCH64_RELATIVE,
	.pac = PAC_BITS,
	.red_zone = 0, /* AAPCS64, 6.4.5.1: nothing below the stack pointer */
	.syscall_args = { 0, 1, 2, 3, 4, 5 },
	.syscall_result = VT_REG_X0,
	.syscalls = syscall_names,
	.n_syscalls = sizeof(syscall_names) / sizeof(syscall_names[0]),
	.clone = 220,
	.clone3 = 435,
	.pthread = &vt_aarch64_pthread,
	.sets = sets,
	.n_sets = sizeof(sets) / sizeof(sets[0]),
	.record_ends_frame = false, /* AAPCS64, 6.4.6: it may be anywhere in the frame */
	.interrupted = interrupted,
	.is_after_syscall = vt_aarch64_is_after_syscall,
	.is_after_call = vt_aarch64_is_after_call,
	.called_before = vt_aarch64_called_before,
	.is_sigreturn = vt_aarch64_is_sigreturn,
	.leave_signal = vt_aarch64_leave_signal,
};
