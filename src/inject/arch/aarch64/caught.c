/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a tracer sees of a thread that its interruption took out of a system call. On this
 * architecture the kernel decides about a restart before it stops the thread
 * (arch/arm64/kernel/signal.c, do_signal(), the same since Linux 3.7):
 *
 * - The result was one of ERESTART*: x0 is the first argument again, pc is on the svc instruction,
 *   and the thread is in no system call any more (NT_ARM_SYSTEM_CALL is -1). Which result it was is
 *   in a variable of the kernel's. When the thread is let go, the kernel looks at it only if pc is
 *   still there: a signal with a handler then makes it EINTR, and after ERESTART_RESTARTBLOCK x8
 *   becomes the number of restart_syscall(). With another pc it does nothing.
 * - It was another one, such as EINTR: x0 has it, and pc is behind the instruction. What the first
 *   argument was is not told any more, so it is asked for before the interruption. The thread must
 *   not have slept in another call since then.
 *
 * x8 has the number in both cases. So a thread that is on the instruction, with its arguments, can
 * be sent elsewhere, and makes the call again when it is back there. How a signal would have ended
 * the call follows from the call (restarts[]). A call that goes on as restart_syscall() cannot be
 * told from one that is just about to be made, for which the kernel remembers no rest of the time.
 * So it is let go at first: the kernel makes it restart_syscall(), and the next stop finds that.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "inject/arch/arch.h"
#include "target/arch/aarch64/kernel.h"
#include "target/arch/native.h"
#include "target/let_go.h"
#include "target/task.h"

#define INSTRUCTION 4

/* How often is looked whether a thread that was let go sleeps again: some milliseconds. */
#define LET_ON_TRIES 200

#define PSTATE_MODE 0x1fu   /* 0: 64-bit user code */
#define PSTATE_BTYPE 0xc00u /* the last branch was an indirect one */
#define PSTATE_SS 0x200000u

/* The kernel's records in a signal frame (arch/arm64/include/uapi/asm/sigcontext.h). */
#define RECORD_FPSIMD 0x46508001u
#define RECORD_OVERLAY 0x504f4530u

static bool get_set(pid_t tid, unsigned int type, void *to, size_t size)
{
	struct iovec io = { to, size };

	return !ptrace(PTRACE_GETREGSET, tid, (void *)(uintptr_t)type, &io) && io.iov_len == size;
}

static bool set_set(pid_t tid, unsigned int type, void *from, size_t size)
{
	struct iovec io = { from, size };

	return !ptrace(PTRACE_SETREGSET, tid, (void *)(uintptr_t)type, &io);
}

bool vt_caught_read(pid_t tid, struct vt_caught *caught)
{
	caught->has_overlay = get_set(tid, NT_ARM_POE, &caught->por_el0, sizeof(caught->por_el0));
	return get_set(tid, NT_PRSTATUS, &caught->found, sizeof(caught->found)) &&
	       get_set(tid, NT_FPREGSET, &caught->vectors, sizeof(caught->vectors)) &&
	       get_set(tid, NT_ARM_TLS, &caught->thread_pointer, sizeof(caught->thread_pointer));
}

uint64_t vt_caught_sp(const struct vt_caught *caught)
{
	return caught->found.sp;
}

uint64_t vt_caught_thread_pointer(const struct vt_caught *caught)
{
	return caught->thread_pointer;
}

/* Waits: how the kernel restarts them */

static enum vt_stub_restart futex_restart(const struct vt_wait *wait)
{
	if (!wait->args[3])
		return VT_RESTART_SYS;
	/*
	 * restart_syscall() would wait until the same time as this call: only what a handler does
	 * is different, and the same as for ERESTARTNOHAND.
	 */
	return ((int)wait->args[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET ? VT_RESTART_NOHAND :
									    VT_RESTART_BLOCK;
}

static enum vt_stub_restart sleep_restart(const struct vt_wait *wait)
{
	return wait->args[1] & TIMER_ABSTIME ? VT_RESTART_NOHAND : VT_RESTART_BLOCK;
}

/*
 * The calls of choose.c. ppoll() and pselect6() have written the rest of their time to where the
 * call finds it again.
 */
static const struct {
	long nr;
	enum vt_stub_restart restart;
	enum vt_stub_restart (*look)(const struct vt_wait *wait);
} restarts[] = {
	{ SYS_futex, 0, futex_restart },           { SYS_nanosleep, VT_RESTART_BLOCK, NULL },
	{ SYS_clock_nanosleep, 0, sleep_restart }, { SYS_restart_syscall, VT_RESTART_BLOCK, NULL },
	{ SYS_ppoll, VT_RESTART_NOHAND, NULL },    { SYS_pselect6, VT_RESTART_NOHAND, NULL },
	{ SYS_wait4, VT_RESTART_SYS, NULL },       { SYS_waitid, VT_RESTART_SYS, NULL },
	{ SYS_read, VT_RESTART_SYS, NULL },        { SYS_readv, VT_RESTART_SYS, NULL },
	{ SYS_recvfrom, VT_RESTART_SYS, NULL },    { SYS_accept, VT_RESTART_SYS, NULL },
	{ SYS_accept4, VT_RESTART_SYS, NULL },
};

static bool find_restart(const struct vt_wait *wait, enum vt_stub_restart *restart)
{
	for (size_t i = 0; i < sizeof(restarts) / sizeof(restarts[0]); i++) {
		if (restarts[i].nr != wait->nr)
			continue;
		*restart = restarts[i].look ? restarts[i].look(wait) : restarts[i].restart;
		return *restart != VT_RESTART_BLOCK || wait->nr == SYS_restart_syscall;
	}
	return false;
}

/* How often the thread has begun to sleep; 0: unknown. (The kernel escapes newlines in a name.) */
static uint64_t count_switches(pid_t tid)
{
	char status[8192];
	uint64_t n = 0;

	if (vt_status_read(tid, status, sizeof(status)))
		vt_status_field(status, "\nvoluntary_ctxt_switches:", 10, &n);
	return n;
}

/* The number of the call that it sleeps in, -1: in none. */
static long sleeps_in(pid_t tid, uint64_t *first)
{
	char path[64], text[256], *end;
	long nr;

	snprintf(path, sizeof(path), "/proc/%d/syscall", (int)tid);
	if (vt_task_record(AT_FDCWD, path, text, sizeof(text)) <= 0)
		return -1;
	nr = strtol(text, &end, 10);
	if (end == text)
		return -1;
	*first = strtoull(end, NULL, 16);
	return nr;
}

void vt_caught_prepare(pid_t tid, struct vt_caught *caught)
{
	caught->switches = count_switches(tid);
	if (sleeps_in(tid, &caught->first) < 0)
		caught->switches = 0;
}

/* The stop itself is one. */
static bool slept_on(pid_t tid, const struct vt_caught *caught)
{
	return caught->switches && count_switches(tid) == caught->switches + 1;
}

static bool is_where_seen(const struct user_regs_struct *regs, const struct vt_wait *seen,
			  struct vt_wait *wait)
{
	if (regs->sp != seen->sp || regs->pstate & PSTATE_MODE)
		return false;
	*wait = (struct vt_wait){
		.sp = seen->sp,
		.pc = seen->pc,
		.nr = (int32_t)regs->regs[8],
	};
	memcpy(wait->args, regs->regs, sizeof(wait->args));
	return true;
}

bool vt_caught_let_on(pid_t tid, struct vt_caught *caught, const struct vt_wait *seen)
{
	const struct user_regs_struct *regs = &caught->found;
	enum vt_stub_restart restart = VT_RESTART_NONE;
	struct vt_wait wait;
	uint64_t first;

	if (!vt_caught_read(tid, caught) || !is_where_seen(regs, seen, &wait) ||
	    regs->pc != seen->pc - INSTRUCTION || find_restart(&wait, &restart) ||
	    restart != VT_RESTART_BLOCK || ptrace(PTRACE_CONT, tid, NULL, NULL))
		return false;
	for (int i = 0; i < LET_ON_TRIES && sleeps_in(tid, &first) != SYS_restart_syscall; i++)
		sched_yield();
	return true;
}

/*
 * After EINTR it must be the call that was seen, with its arguments. (A thread that just comes back
 * from the handler of a signal that ended it looks the same: the time of one rt_sigreturn().)
 */
bool vt_caught_wait(pid_t tid, struct vt_caught *caught, const struct vt_wait *seen,
		    struct vt_wait *wait)
{
	const struct user_regs_struct *regs = &caught->found;

	if (!is_where_seen(regs, seen, wait))
		return false;
	if (regs->pc == seen->pc - INSTRUCTION)
		return find_restart(wait, &caught->restart);
	caught->ended = regs->pc == seen->pc && (int64_t)regs->regs[0] == -EINTR;
	caught->restart = VT_RESTART_NOHAND;
	wait->args[0] = caught->first;
	return caught->ended && wait->nr == seen->nr &&
	       !memcmp(wait->args, seen->args, sizeof(wait->args)) && slept_on(tid, caught);
}

/*
 * The registers are made those of a restart. A signal with a handler that comes before the thread
 * is sent off would have ended the call, and does not now.
 */
bool vt_caught_undo_eintr(pid_t tid, struct vt_caught *caught, const struct vt_wait *wait)
{
	if (!caught->ended)
		return true;
	caught->found.regs[0] = wait->args[0];
	caught->found.pc -= INSTRUCTION;
	return set_set(tid, NT_PRSTATUS, &caught->found, sizeof(caught->found));
}

/*
 * The matrix of SME, and its vectors: a system call ends the mode that has these, but not the one
 * with the matrix, and a function of the C library may. struct user_za_header, user_sve_header: the
 * size is that of the header when nothing follows.
 */
static bool has_matrix(pid_t tid, unsigned int type)
{
	struct {
		uint32_t size, max_size;
		uint16_t vl, max_vl, flags, reserved;
	} header;

	return get_set(tid, type, &header, sizeof(header)) && header.size > sizeof(header);
}

/* A second stack with the return addresses, which rt_sigreturn() and ret compare. */
static bool has_guarded_stack(pid_t tid)
{
	uint64_t gcs[3]; /* struct user_gcs: which features are enabled, locked; the pointer */

	return get_set(tid, NT_ARM_GCS, gcs, sizeof(gcs)) && gcs[0] & 1;
}

bool vt_caught_can_return(pid_t tid, const struct vt_caught *caught, struct vt_memsrc *src)
{
	return caught->found.sp % 16 == 0 &&
	       VT_NATIVE->is_after_syscall(src, caught->found.pc + INSTRUCTION) &&
	       !has_matrix(tid, NT_ARM_ZA) && !has_matrix(tid, NT_ARM_SSVE) &&
	       !has_guarded_stack(tid);
}

void vt_caught_fill(const struct vt_caught *caught, uint64_t slot_addr, uint64_t xstate,
		    struct vt_stub_block *block, uint64_t slot[2])
{
	const struct user_regs_struct *regs = &caught->found;
	struct vt_stub_frame *frame = &block->frame;

	(void)xstate;
	block->restart = caught->restart;
	*frame = (struct vt_stub_frame){
		.slot = slot_addr,
		.signal_mask = block->signal_mask,
		.sp = regs->sp,
		.pc = regs->pc,
		.pstate = regs->pstate,
		.fpsimd = { RECORD_FPSIMD, offsetof(struct vt_stub_frame, overlay) -
						   offsetof(struct vt_stub_frame, fpsimd) },
		.fpsr = caught->vectors.fpsr,
		.fpcr = caught->vectors.fpcr,
	};
	memcpy(frame->regs, regs->regs, sizeof(frame->regs));
	memcpy(frame->vectors, caught->vectors.vregs, sizeof(frame->vectors));
	/* Without it some kernels set the register to anything (Linux 6.12 on). */
	if (caught->has_overlay) {
		frame->overlay = (struct vt_stub_record){ RECORD_OVERLAY, 16 };
		frame->por_el0 = caught->por_el0;
	}
	slot[0] = regs->regs[1];
	slot[1] = regs->pc;
}

bool vt_caught_send(pid_t tid, struct vt_caught *caught, uint64_t pc, uint64_t sp)
{
	caught->sent = caught->found;
	caught->sent.pc = pc;
	caught->sent.sp = sp;
	/* No number of an error that the kernel would take for one of a call to restart. */
	caught->sent.regs[0] = 0;
	caught->sent.pstate &= ~(unsigned long long)(PSTATE_BTYPE | PSTATE_SS);
	return set_set(tid, NT_PRSTATUS, &caught->sent, sizeof(caught->sent));
}
