/* SPDX-License-Identifier: Apache-2.0 */
#include "target/arch/native.h"

#include <elf.h>
#include <errno.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

#include "target/arch/aarch64/code.h"
#include "target/arch/aarch64/kernel.h"
#include "target/arch/aarch64/regs.h"
#include "target/arch/syscalls.h"

#define PSTATE_MODE 0x1fu /* 0: 64-bit user code */

/* do_signal() forgets the number before it lets a tracer look (arch/arm64/kernel/signal.c). */
const bool vt_native_forgets_calls = true;

/* The kernel changes x8 only for restart_syscall(), which nobody restarts. */
int64_t vt_native_last_call(const struct vt_regs *regs)
{
	return regs->r[VT_REG_X8] <= INT32_MAX ? (int64_t)regs->r[VT_REG_X8] : -1;
}

static bool get_registers(pid_t tid, struct user_regs_struct *user)
{
	struct iovec iov = { .iov_base = user, .iov_len = sizeof(*user) };

	return !ptrace(PTRACE_GETREGSET, tid, (void *)NT_PRSTATUS, &iov) &&
	       iov.iov_len == sizeof(*user);
}

/* Aligned words never cross into another page. */
static bool is_after_syscall_instruction(pid_t tid, uint64_t pc)
{
	uint64_t addr = pc - sizeof(uint32_t);
	long word;

	errno = 0;
	word = ptrace(PTRACE_PEEKTEXT, tid, (void *)(uintptr_t)(addr & ~UINT64_C(7)), NULL);
	return !errno && addr % sizeof(uint32_t) == 0 &&
	       (uint32_t)((uint64_t)word >> (addr % 8 * 8)) == VT_AARCH64_SVC_0;
}

/*
 * A call that waits with a mask of signals lets some through that the caller has blocked otherwise,
 * and relies on EINTR after one. io_uring_enter() may have the mask behind a further pointer.
 */
static bool has_mask(const struct vt_regs *regs)
{
	switch (regs->syscall_nr) {
	case SYS_epoll_pwait:
	case SYS_epoll_pwait2:
	case SYS_io_uring_enter:
		return regs->r[VT_REG_X0 + 4] != 0;
	default:
		return false;
	}
}

/*
 * The kernel has decided about a restart before the stop, and does not again. So pc and x0 are made
 * those of a call that is just about to be made. A signal with a handler that comes before the
 * thread runs is then like one that comes before the call, and does not end it: one that a mask
 * lets through would be lost for the caller, so such a call is left alone.
 *
 * One call, so that there is no half-way state if we are killed.
 */
void vt_native_restart(pid_t tid, const struct vt_regs *regs)
{
	struct user_regs_struct user;
	struct iovec iov = { .iov_base = &user, .iov_len = sizeof(user) };

	if (has_mask(regs) || !get_registers(tid, &user) || user.pstate & PSTATE_MODE ||
	    !is_after_syscall_instruction(tid, user.pc))
		return;
	user.regs[0] = regs->r[VT_REG_X0];
	user.pc -= sizeof(uint32_t);
	(void)ptrace(PTRACE_SETREGSET, tid, (void *)NT_PRSTATUS, &iov);
}
