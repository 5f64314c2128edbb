/* SPDX-License-Identifier: Apache-2.0 */
#include "target/arch/native.h"

#include <elf.h>
#include <errno.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

#include "target/arch/x86_64/kernel.h"

const bool vt_native_forgets_calls = false;

int64_t vt_native_last_call(const struct vt_regs *regs)
{
	return regs->syscall_nr;
}

/*
 * A byte of the code of a stopped thread, -1 when it cannot be read. Aligned words never cross into
 * another page.
 */
static int code_byte(pid_t tid, uint64_t addr)
{
	long word;

	errno = 0;
	word = ptrace(PTRACE_PEEKTEXT, tid, (void *)(uintptr_t)(addr & ~UINT64_C(7)), NULL);
	return errno ? -1 : (int)((uint64_t)word >> (addr % 8 * 8) & 0xff);
}

/* 0f 05, not the "int $0x80" of the 32-bit numbering. */
static bool is_after_syscall_instruction(pid_t tid, uint64_t rip)
{
	return code_byte(tid, rip - 2) == 0x0f && code_byte(tid, rip - 1) == 0x05;
}

/*
 * The kernel restarts it, unless a signal comes first that has a handler: EINTR then, after the
 * handler, as if the signal had ended the wait (arch/x86/kernel/signal.c). So none is lost that
 * arrives after our look at the queue; nor in a call with a mask of signals (epoll_pwait): the
 * kernel puts the caller's own mask back before the restart, and the call looks for pending signals
 * itself.
 *
 * One call, so that there is no half-way state if we are killed. (It copies word by word from our
 * memory; the page was written just now and is present.)
 */
void vt_native_restart(pid_t tid, const struct vt_regs *regs)
{
	struct user_regs_struct user;
	struct iovec iov = { .iov_base = &user, .iov_len = sizeof(user) };

	(void)regs;
	if (ptrace(PTRACE_GETREGSET, tid, (void *)NT_PRSTATUS, &iov) ||
	    iov.iov_len != sizeof(user) || user.cs != USER_CS ||
	    !is_after_syscall_instruction(tid, user.rip))
		return;
	user.rax = (unsigned long long)-ERESTARTNOHAND;
	(void)ptrace(PTRACE_SETREGSET, tid, (void *)NT_PRSTATUS, &iov);
}
