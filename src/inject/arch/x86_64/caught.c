/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that stops in a system call has its number in orig_rax, and in rax what the kernel makes
 * of it when the thread is let go: the result, or that the call is restarted
 * (arch/x86/kernel/signal.c).
 */
#include <elf.h>
#include <errno.h>
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "inject/arch/arch.h"
#include "target/arch/native.h"
#include "target/arch/x86_64/kernel.h"

#define FLAG_TF 0x100u
#define FLAG_DF 0x400u

void vt_caught_prepare(pid_t tid, struct vt_caught *caught)
{
	(void)tid;
	(void)caught;
}

bool vt_caught_let_on(pid_t tid, struct vt_caught *caught, const struct vt_wait *seen)
{
	(void)tid;
	(void)caught;
	(void)seen;
	return false;
}

bool vt_caught_read(pid_t tid, struct vt_caught *caught)
{
	struct iovec io = { &caught->found, sizeof(caught->found) };

	return !ptrace(PTRACE_GETREGSET, tid, (void *)NT_PRSTATUS, &io);
}

uint64_t vt_caught_sp(const struct vt_caught *caught)
{
	return caught->found.rsp;
}

uint64_t vt_caught_thread_pointer(const struct vt_caught *caught)
{
	return caught->found.fs_base;
}

bool vt_caught_wait(pid_t tid, struct vt_caught *caught, const struct vt_wait *seen,
		    struct vt_wait *wait)
{
	const struct user_regs_struct *regs = &caught->found;

	(void)tid;
	if (regs->rsp != seen->sp || regs->rip != seen->pc || (long)regs->orig_rax < 0 ||
	    regs->cs != USER_CS)
		return false;
	*wait = (struct vt_wait){
		.sp = regs->rsp,
		.pc = regs->rip,
		.nr = (long)regs->orig_rax,
		.args = { regs->rdi, regs->rsi, regs->rdx, regs->r10, regs->r8, regs->r9 },
	};
	return true;
}

/*
 * epoll_wait(), and sockets with a time limit, return EINTR for our interruption too. They get
 * ERESTARTNOHAND instead: EINTR if a handler runs, else the call begins again (with its full time).
 * From here on the kernel does this by itself, whatever happens to us.
 */
bool vt_caught_undo_eintr(pid_t tid, struct vt_caught *caught, const struct vt_wait *wait)
{
	struct user_regs_struct *regs = &caught->found;

	(void)wait;
	if ((long)regs->rax != -EINTR)
		return true;
	regs->rax = (unsigned long long)-ERESTARTNOHAND;
	return !ptrace(PTRACE_POKEUSER, tid, (void *)offsetof(struct user, regs.rax),
		       (void *)regs->rax);
}

bool vt_caught_can_return(pid_t tid, const struct vt_caught *caught, struct vt_memsrc *src)
{
	(void)tid;
	return VT_NATIVE->is_after_syscall(src, caught->found.rip);
}

/* How the system call must continue. */
static enum vt_stub_restart find_restart(const struct user_regs_struct *regs)
{
	switch ((long)regs->rax) {
	case -ERESTARTSYS:
		return VT_RESTART_SYS;
	case -ERESTARTNOINTR:
		return VT_RESTART_NOINTR;
	case -ERESTARTNOHAND:
		return VT_RESTART_NOHAND;
	case -ERESTART_RESTARTBLOCK:
		return VT_RESTART_BLOCK;
	default:
		return VT_RESTART_NONE;
	}
}

void vt_caught_fill(const struct vt_caught *caught, uint64_t slot_addr, uint64_t xstate,
		    struct vt_stub_block *block, uint64_t slot[2])
{
	const struct user_regs_struct *regs = &caught->found;
	enum vt_stub_restart restart = find_restart(regs);

	block->restart = restart;
	block->frame = (struct vt_stub_frame){
		.r15 = regs->r15,
		.r14 = regs->r14,
		.r13 = regs->r13,
		.r12 = regs->r12,
		.rbp = regs->rbp,
		.r11 = regs->r11,
		.r10 = regs->r10,
		.r9 = regs->r9,
		.r8 = regs->r8,
		.rcx = regs->rcx,
		.rdx = regs->rdx,
		.rsi = regs->rsi,
		.rdi = regs->rdi,
		.rax = restart == VT_RESTART_NONE  ? regs->rax :
		       restart == VT_RESTART_BLOCK ? SYS_restart_syscall :
						     regs->orig_rax,
		.flags = regs->eflags,
		.slot = slot_addr,
		.xsave_mask = xstate,
		.rip_after = regs->rip,
	};
	slot[0] = regs->rbx;
	slot[1] = restart == VT_RESTART_NONE ? regs->rip : regs->rip - 2;
}

bool vt_caught_send(pid_t tid, struct vt_caught *caught, uint64_t pc, uint64_t sp)
{
	struct iovec io = { &caught->sent, sizeof(caught->sent) };

	caught->sent = caught->found;
	caught->sent.rip = pc;
	caught->sent.rsp = sp;
	caught->sent.eflags &= ~(unsigned long long)(FLAG_TF | FLAG_DF);
	/* The kernel must not restart the system call by itself: "not in a system call". */
	caught->sent.orig_rax = (unsigned long long)-1;
	caught->sent.rax = 0;
	return !ptrace(PTRACE_SETREGSET, tid, (void *)NT_PRSTATUS, &io);
}
