/* SPDX-License-Identifier: Apache-2.0 */
#include "target/arch/x86_64/code.h"

#include <string.h>

#include "target/arch/x86_64/regs.h"

/* 0f 05, not the "int $0x80" of the 32-bit numbering. */
bool vt_x86_64_is_after_syscall(struct vt_memsrc *src, uint64_t pc)
{
	uint8_t code[2];

	return !vt_mem_read(src, pc - sizeof(code), code, sizeof(code)) && code[0] == 0x0f &&
	       code[1] == 0x05;
}

bool vt_x86_64_is_after_call(struct vt_memsrc *src, uint64_t addr)
{
	uint8_t code[7];

	if (vt_mem_read(src, addr - sizeof(code), code, sizeof(code)))
		return false;
	if (code[2] == 0xe8)
		return true;
	/* FF /2 with ModRM, SIB and displacement: 2 to 7 bytes. */
	for (size_t i = 0; i + 1 < sizeof(code); i++)
		if (code[i] == 0xff && (code[i + 1] >> 3 & 7) == 2)
			return true;
	return false;
}

/* Where "jmp *disp(%rip)" or "call *disp(%rip)", which ends at `end`, goes; 0 unknown. */
static uint64_t read_slot(struct vt_memsrc *src, uint64_t end)
{
	int32_t disp;
	uint64_t slot;

	if (vt_mem_read(src, end - sizeof(disp), &disp, sizeof(disp)) ||
	    vt_mem_read_u64(src, end + (uint64_t)(int64_t)disp, &slot))
		return 0;
	return slot;
}

/* Through a stub of the procedure linkage table: endbr64, bnd, FF 25. */
static uint64_t behind_stub(struct vt_memsrc *src, uint64_t addr)
{
	uint8_t code[16];
	size_t i = 0;

	if (vt_mem_read(src, addr, code, sizeof(code)))
		return addr;
	i += !memcmp(code, "\xf3\x0f\x1e\xfa", 4) ? 4 : 0;
	i += code[i] == 0xf2;
	return code[i] == 0xff && code[i + 1] == 0x25 ? read_slot(src, addr + i + 6) : addr;
}

uint64_t vt_x86_64_called_before(struct vt_memsrc *src, uint64_t addr)
{
	uint8_t code[6];
	int32_t disp;

	if (vt_mem_read(src, addr - sizeof(code), code, sizeof(code)))
		return 0;
	if (code[0] == 0xff && code[1] == 0x15)
		return read_slot(src, addr);
	if (code[1] != 0xe8)
		return 0;
	memcpy(&disp, code + 2, sizeof(disp));
	return behind_stub(src, addr + (uint64_t)(int64_t)disp);
}

/*
 * glibc's and musl's signal trampoline is: mov $15,%rax (rt_sigreturn); syscall. glibc describes it
 * in its call frame information, others do not; all kernels since 2.6 put the same structure on the
 * stack.
 */
bool vt_x86_64_is_sigreturn(struct vt_memsrc *src, uint64_t pc)
{
	static const uint8_t code[] = { 0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05 };
	uint8_t found[sizeof(code)];

	return !vt_mem_read(src, pc, found, sizeof(found)) && !memcmp(found, code, sizeof(code));
}

/*
 * At the trampoline the stack pointer is at struct ucontext (the kernel's rt_sigframe without its
 * return address), whose registers begin at byte 40 in the order of struct sigcontext_64
 * (arch/x86/include/uapi/asm/sigcontext.h).
 */
bool vt_x86_64_leave_signal(struct vt_memsrc *src, struct vt_regs *regs)
{
	static const uint8_t order[VT_N_REGS] = {
		VT_REG_R8,  VT_REG_R9,  VT_REG_R10, VT_REG_R11, VT_REG_R12, VT_REG_R13,
		VT_REG_R14, VT_REG_R15, VT_REG_RDI, VT_REG_RSI, VT_REG_RBP, VT_REG_RBX,
		VT_REG_RDX, VT_REG_RAX, VT_REG_RCX, VT_REG_RSP, VT_REG_RIP,
	};
	uint64_t saved[VT_N_REGS];

	if (vt_mem_read(src, regs->r[VT_REG_RSP] + 40, saved, sizeof(saved)))
		return false;
	for (size_t i = 0; i < VT_N_REGS; i++)
		regs->r[order[i]] = saved[i];
	return true;
}
