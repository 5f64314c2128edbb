/* SPDX-License-Identifier: Apache-2.0 */
/* Encodings: Arm Architecture Reference Manual for A-profile, C4.1. */
#include "target/arch/aarch64/code.h"

#include "target/arch/aarch64/regs.h"

#define WORD 4                 /* bytes of an instruction */
#define MOV_X8_139 0xd2801168u /* mov x8, #__NR_rt_sigreturn */

/* Instructions that put the return address into x30. */
static const struct {
	uint32_t mask, code;
} calls[] = {
	{ 0xfc000000, 0x94000000 }, /* bl */
	{ 0xfffffc1f, 0xd63f0000 }, /* blr */
	{ 0xfffff81f, 0xd63f081f }, /* blraaz, blrabz */
	{ 0xfffff800, 0xd73f0800 }, /* blraa, blrab */
};

static bool read_code(struct vt_memsrc *src, uint64_t pc, uint32_t *code)
{
	return pc % WORD == 0 && !vt_mem_read(src, pc, code, sizeof(*code));
}

bool vt_aarch64_is_syscall(struct vt_memsrc *src, uint64_t pc)
{
	uint32_t code;

	return read_code(src, pc, &code) && code == VT_AARCH64_SVC_0;
}

bool vt_aarch64_is_after_syscall(struct vt_memsrc *src, uint64_t pc)
{
	return vt_aarch64_is_syscall(src, pc - WORD);
}

bool vt_aarch64_is_after_call(struct vt_memsrc *src, uint64_t addr)
{
	uint32_t code;

	if (!read_code(src, addr - WORD, &code))
		return false;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if ((code & calls[i].mask) == calls[i].code)
			return true;
	return false;
}

/* bl alone names its target; 26 bits, in instructions. */
uint64_t vt_aarch64_called_before(struct vt_memsrc *src, uint64_t addr)
{
	uint32_t code;

	if (!read_code(src, addr - WORD, &code) || (code & calls[0].mask) != calls[0].code)
		return 0;
	return addr - WORD + (uint64_t)((int64_t)(int32_t)(code << 6) >> 6) * WORD;
}

/*
 * In the vDSO (arch/arm64/kernel/vdso/sigreturn.S, which unwinders recognize by these two), and in
 * C libraries that bring their own: mov x8, #139; svc #0. The vDSO of kernels before 5.8 has call
 * frame information that leads past the interrupted function, so this comes first.
 */
bool vt_aarch64_is_sigreturn(struct vt_memsrc *src, uint64_t pc)
{
	uint32_t code;

	return read_code(src, pc, &code) && code == MOV_X8_139 &&
	       vt_aarch64_is_syscall(src, pc + WORD);
}

/*
 * There the stack pointer is at struct rt_sigframe (arch/arm64/kernel/signal.c): 128 bytes of
 * siginfo, then struct ucontext, whose mcontext is at 176 (aligned to 16, behind the 1024 bits that
 * are left for the signal mask). In it, behind the fault's address: x0 to x30, sp, pc
 * (arch/arm64/include/uapi/asm/sigcontext.h), which is DWARF's order.
 */
bool vt_aarch64_leave_signal(struct vt_memsrc *src, struct vt_regs *regs)
{
	enum { SAVED = 128 + 176 + 8 };
	uint64_t saved[VT_N_REGS_AARCH64];

	if (vt_mem_read(src, regs->r[VT_REG_SP] + SAVED, saved, sizeof(saved)))
		return false;
	for (size_t i = 0; i < VT_N_REGS_AARCH64; i++)
		regs->r[i] = saved[i];
	return true;
}
