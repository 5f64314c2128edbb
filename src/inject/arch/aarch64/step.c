/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/arch/arch.h"

#ifdef VT_FAULT_POINTS
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

#include "target/arch/aarch64/kernel.h"

/* DBGBCR: enabled, in user code, all four bytes of the instruction. */
#define BREAK_ON (1u | 2u << 1 | 0xfu << 5)

bool vt_step_regs_read(pid_t tid, struct vt_step_regs *ret)
{
	struct user_regs_struct regs;
	struct iovec io = { &regs, sizeof(regs) };

	if (ptrace(PTRACE_GETREGSET, tid, (void *)NT_PRSTATUS, &io))
		return false;
	ret->pc = regs.pc;
	ret->back = regs.regs[30];
	return true;
}

/* struct user_hwdebug_state, with the first register only. */
void vt_step_break_at(pid_t tid, uint64_t addr)
{
	struct {
		uint32_t info, pad;
		uint64_t addr;
		uint32_t control, pad2;
	} state = { .addr = addr, .control = addr ? BREAK_ON : 0 };
	struct iovec io = { &state, sizeof(state) };

	ptrace(PTRACE_SETREGSET, tid, (void *)NT_ARM_HW_BREAK, &io);
}

bool vt_step_disturbs(const uint8_t *code)
{
	(void)code;
	return false;
}
#endif
