/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/arch/arch.h"

#ifdef VT_FAULT_POINTS
#include <errno.h>
#include <sys/ptrace.h>
#include <sys/user.h>

bool vt_step_regs_read(pid_t tid, struct vt_step_regs *ret)
{
	struct user_regs_struct regs;

	if (ptrace(PTRACE_GETREGS, tid, NULL, &regs))
		return false;
	ret->pc = regs.rip;
	ret->back = (uint64_t)ptrace(PTRACE_PEEKDATA, tid, (void *)regs.rsp, NULL);
	return true;
}

void vt_step_break_at(pid_t tid, uint64_t addr)
{
	ptrace(PTRACE_POKEUSER, tid, (void *)offsetof(struct user, u_debugreg[0]), (void *)addr);
	ptrace(PTRACE_POKEUSER, tid, (void *)offsetof(struct user, u_debugreg[7]),
	       (void *)(addr ? UINT64_C(1) : 0));
}

/*
 * popf: stepped, it would be taken to have set the trap flag itself, which the kernel then leaves
 * set for ever (enable_single_step()), unless stepping begins anew.
 */
bool vt_step_disturbs(const uint8_t *code)
{
	return *code == 0x9d;
}
#endif
