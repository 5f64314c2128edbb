/* SPDX-License-Identifier: Apache-2.0 */
#include "target/arch/x86_64/regs.h"

#include <errno.h>

#include "target/arch/x86_64/code.h"
#include "target/arch/x86_64/kernel.h"
#include "target/arch/x86_64/pthread.h"
#include "target/arch/x86_64/syscall_names.h"

/* struct user_regs_struct of the kernel (PTRACE_GETREGSET, NT_PRSTATUS), in words. */
enum { ORIG_RAX = 15, FS_BASE = 21, N_USER = 27 };

static const struct {
	uint8_t reg, word;
} order[VT_N_REGS] = {
	{ VT_REG_R15, 0 },  { VT_REG_R14, 1 },  { VT_REG_R13, 2 },  { VT_REG_R12, 3 },
	{ VT_REG_RBP, 4 },  { VT_REG_RBX, 5 },  { VT_REG_R11, 6 },  { VT_REG_R10, 7 },
	{ VT_REG_R9, 8 },   { VT_REG_R8, 9 },   { VT_REG_RAX, 10 }, { VT_REG_RCX, 11 },
	{ VT_REG_RDX, 12 }, { VT_REG_RSI, 13 }, { VT_REG_RDI, 14 }, { VT_REG_RIP, 16 },
	{ VT_REG_RSP, 19 },
};

static void take_user(const void *data, struct vt_regs *regs)
{
	const uint64_t *words = data;

	*regs = (struct vt_regs){ .arch = &vt_arch_x86_64,
				  .thread_pointer = words[FS_BASE],
				  .syscall_nr = (int64_t)words[ORIG_RAX] };
	for (size_t i = 0; i < VT_N_REGS; i++)
		regs->r[order[i].reg] = words[order[i].word];
}

static const struct vt_arch_set sets[] = {
	{ NT_PRSTATUS, "CORE", N_USER * sizeof(uint64_t), take_user },
};

/* A wait shows one of the kernel's restart codes, or EINTR. */
static int64_t interrupted(struct vt_memsrc *src, const struct vt_regs *regs)
{
	int64_t result = (int64_t)regs->r[VT_REG_RAX];

	(void)src;
	return result == -ERESTARTSYS || result == -ERESTARTNOINTR || result == -ERESTARTNOHAND ||
			       result == -ERESTART_RESTARTBLOCK || result == -EINTR ?
		       regs->syscall_nr :
		       -1;
}

const struct vt_arch vt_arch_x86_64 = {
	.abi = VT_ABI_X86_64,
	.name = "x86-64",
	.relative = R_X86_64_RELATIVE,
	.red_zone = 128, /* psABI, 3.2.2 */
	.syscall_args = { VT_REG_RDI, VT_REG_RSI, VT_REG_RDX, VT_REG_R10, VT_REG_R8, VT_REG_R9 },
	.syscall_result = VT_REG_RAX,
	.syscalls = syscall_names,
	.n_syscalls = sizeof(syscall_names) / sizeof(syscall_names[0]),
	.clone = 56,
	.clone3 = 435,
	.pthread = &vt_x86_64_pthread,
	.sets = sets,
	.n_sets = sizeof(sets) / sizeof(sets[0]),
	.record_ends_frame = true,
	.interrupted = interrupted,
	.is_after_syscall = vt_x86_64_is_after_syscall,
	.is_after_call = vt_x86_64_is_after_call,
	.called_before = vt_x86_64_called_before,
	.is_sigreturn = vt_x86_64_is_sigreturn,
	.leave_signal = vt_x86_64_leave_signal,
};
