/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/step.h"

#ifdef VT_FAULT_POINTS
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "inject/arch/arch.h"
#include "inject/image.h"

/* An instruction that takes longer is a system call that waits. */
#define STEP_NS (2 * VT_NS_PER_S)

/* Waits for the thread to stop; consumes that. */
static bool wait_stop(pid_t tid, int *status)
{
	uint64_t deadline = vt_now_ns() + STEP_NS;

	for (int i = 0; !vt_deadline_passed(deadline); i++) {
		pid_t got = waitpid(tid, status, __WALL | WNOHANG);

		if (got == tid)
			return WIFSTOPPED(*status);
		if (got < 0)
			return false;
		if (i < 100)
			sched_yield();
		else
			vt_sleep_ns(50 * VT_NS_PER_US);
	}
	return false;
}

/* What a stop was for, if for a signal of the thread's own: that it gets. */
static int own_signal(int status)
{
	return status >> 16 || WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
}

/*
 * The kernel steps until it is told to continue, also when the tracer dies: then the thread would
 * be killed by the next trap. So it is told, and stops again before its next instruction, because
 * we have asked for that first.
 */
static bool hold(pid_t tid, int sig)
{
	int status;

	if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) ||
	    ptrace(PTRACE_CONT, tid, NULL, (void *)(long)sig))
		return false;
	return wait_stop(tid, &status);
}

/*
 * From a system call that waits while it is stepped. Interrupted, it ends with both our stop and
 * the step's SIGTRAP, which must not be left to a thread that nobody traces.
 */
static void let_go(pid_t tid)
{
	struct __ptrace_peeksiginfo_args first = { .nr = 1 };
	siginfo_t pending = { 0 };
	int status;

	ptrace(PTRACE_INTERRUPT, tid, NULL, NULL);
	if (!wait_stop(tid, &status))
		return;
	if (status >> 16 && ptrace(PTRACE_PEEKSIGINFO, tid, &first, &pending) == 1 &&
	    pending.si_signo == SIGTRAP) {
		ptrace(PTRACE_CONT, tid, NULL, NULL);
		wait_stop(tid, &status);
	}
	ptrace(PTRACE_DETACH, tid, NULL, (void *)(long)own_signal(status));
}

/*
 * A function that the stub has called runs at its own speed until it returns: by a breakpoint of
 * the processor's, which this thread alone has. False: it is not in one.
 */
static bool finish_call(const struct vt_steps *steps, uint64_t back, int *status)
{
	bool stopped;

	if (back - steps->stub >= vt_stub_size())
		return false;
	vt_step_break_at(steps->tid, back);
	do
		stopped = !ptrace(PTRACE_CONT, steps->tid, NULL, (void *)0) &&
			  wait_stop(steps->tid, status);
	while (stopped && *status >> 16);
	vt_step_break_at(steps->tid, 0);
	return stopped;
}

/* One instruction, or a whole function that the stub calls. */
static bool advance(const struct vt_steps *steps, const struct vt_step_regs *regs, bool just_left,
		    int *sig)
{
	int status;

	if (just_left && !*sig && finish_call(steps, regs->back, &status)) {
		*sig = own_signal(status);
		return true;
	}
	if (ptrace(PTRACE_SINGLESTEP, steps->tid, NULL, (void *)(long)*sig) ||
	    !wait_stop(steps->tid, &status)) {
		let_go(steps->tid);
		return false;
	}
	*sig = own_signal(status);
	return true;
}

enum vt_step_result vt_step(struct vt_steps *steps)
{
	pid_t tid = steps->tid;
	bool inside = false;
	uint64_t seen = 0;
	int sig = 0;

	for (;;) {
		struct vt_step_regs regs;
		bool was_inside = inside, disturbed = false;

		if (!vt_step_regs_read(tid, &regs))
			return VT_STEP_WAITS;
		inside = regs.pc - steps->stub < vt_stub_size();
		if (inside) {
			uint16_t offset = (uint16_t)(regs.pc - steps->stub);
			disturbed = vt_step_disturbs(vt_stub_blob + offset);
			if (steps->log >= 0 && write(steps->log, &offset, sizeof(offset)) < 0)
				abort();
			if (seen++ == steps->nth)
				return hold(tid, sig) ? VT_STEP_REACHED : VT_STEP_WAITS;
		} else if (regs.pc == steps->end) {
			return hold(tid, sig) ? VT_STEP_BACK : VT_STEP_WAITS;
		}
		if (!advance(steps, &regs, was_inside && !inside, &sig) ||
		    (disturbed && !hold(tid, sig)))
			return VT_STEP_WAITS;
	}
}

/* Lets the thread run until it starts another, lets go of it, and holds that one. 0: none came. */
static pid_t follow(pid_t tid)
{
	unsigned long child = 0;
	int status, sig = 0;

	ptrace(PTRACE_SETOPTIONS, tid, NULL, (void *)PTRACE_O_TRACECLONE);
	for (;;) {
		if (ptrace(PTRACE_CONT, tid, NULL, (void *)(long)sig) || !wait_stop(tid, &status))
			return 0;
		if (status >> 16 == PTRACE_EVENT_CLONE)
			break;
		sig = own_signal(status);
	}
	ptrace(PTRACE_GETEVENTMSG, tid, NULL, &child);
	ptrace(PTRACE_DETACH, tid, NULL, NULL);
	return wait_stop((pid_t)child, &status) ? (pid_t)child : 0;
}

/* "NAME:": what follows it in *text, or NULL. */
static const char *after(const char *text, const char *name)
{
	size_t n = strlen(name);

	return text && !strncmp(text, name, n) && text[n] == ':' ? text + n + 1 : NULL;
}

void vt_fault_steps(const char *name, pid_t tid, uint64_t stub, uint64_t end)
{
	static const char *const threads[] = { "borrowed", "helper", "file" };
	struct vt_steps steps = { .tid = tid, .stub = stub, .end = end };
	const char *wanted = after(after(getenv("VRAMTAP_FAULT"), "step"), name), *nth = NULL;
	size_t generation;
	char *log;

	for (generation = 0; generation < sizeof(threads) / sizeof(threads[0]); generation++)
		if ((nth = after(wanted, threads[generation])))
			break;
	if (!nth)
		return;
	for (; generation > 0; generation--) {
		steps.tid = follow(steps.tid);
		steps.end = 0;
		if (!steps.tid)
			return;
	}
	steps.nth = strtoull(nth, &log, 10);
	steps.log = *log ? (int)strtol(log + 1, NULL, 10) : -1;
	ptrace(PTRACE_SETOPTIONS, steps.tid, NULL, NULL);
	if (vt_step(&steps) != VT_STEP_WAITS)
		raise(SIGKILL);
}
#else
/* ISO C wants at least one declaration in each file. */
typedef int vt_step_unused;
#endif
