/* SPDX-License-Identifier: Apache-2.0 */
/* The facts of the kernel that this file rests on are those at the head of session.c. */
#include "target/let_go.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "target/arch/native.h"
#include "target/arch/syscalls.h"
#include "target/task.h"

#ifndef PTRACE_EVENT_STOP
#define PTRACE_EVENT_STOP 128
#endif

bool vt_status_field(const char *status, const char *key, unsigned int base, uint64_t *value)
{
	const char *p = strstr(status, key);
	uint64_t v = 0;

	if (!p)
		return false;
	p += strlen(key);
	while (*p == '\t' || *p == ' ')
		p++;
	for (;; p++) {
		unsigned int digit;

		if (*p >= '0' && *p <= '9')
			digit = (unsigned int)(*p - '0');
		else if (base == 16 && *p >= 'a' && *p <= 'f')
			digit = (unsigned int)(*p - 'a') + 10;
		else
			break;
		v = v * base + digit;
	}
	*value = v;
	return true;
}

bool vt_status_read(pid_t tid, char *status, size_t size)
{
	char path[VT_TASK_PATH];

	vt_task_path(path, tid, "/status");
	return vt_task_slurp(AT_FDCWD, path, status, size) > 0;
}

static uint64_t bit(int signo)
{
	return UINT64_C(1) << (signo - 1);
}

/*
 * Whether the thread would have seen EINTR without us: a signal that has a handler, or that stops
 * the process, is pending or being delivered (signo, 0: none). A signal that the process ignores
 * would not have woken the thread: the kernel queues it only because the thread is traced. A signal
 * that kills makes no difference.
 */
static bool is_signal_due(pid_t tid, int signo)
{
	static const int stopping[] = { SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU };
	char status[VT_MAX_STATUS];
	uint64_t own, shared, blocked, ignored, caught, matters;

	if (!vt_status_read(tid, status, sizeof(status)) ||
	    !vt_status_field(status, "\nSigPnd:", 16, &own) ||
	    !vt_status_field(status, "\nShdPnd:", 16, &shared) ||
	    !vt_status_field(status, "\nSigBlk:", 16, &blocked) ||
	    !vt_status_field(status, "\nSigIgn:", 16, &ignored) ||
	    !vt_status_field(status, "\nSigCgt:", 16, &caught))
		return true;
	matters = caught;
	for (size_t i = 0; i < sizeof(stopping) / sizeof(stopping[0]); i++)
		matters |= bit(stopping[i]) & ~ignored;
	return (((own | shared) & ~blocked) | (signo > 0 ? bit(signo) : 0)) & matters;
}

/*
 * System calls that end with EINTR whenever anything interrupts their wait, including a ptrace
 * stop. (Other calls use -ERESTARTSYS and its kin, which the kernel itself resolves when the thread
 * continues.) A caller that handles no signals has never seen EINTR from them and may take it for a
 * failure. So they are restarted, which is invisible: when they return EINTR they have done nothing
 * yet (partial work is returned as a count). A relative timeout starts anew.
 *
 * Not restarted: ioctl() and all calls that are not listed, because it is unknown what a driver did
 * before it returned EINTR.
 */
enum restart_condition {
	IF_ANY,
	/* the first argument is a socket: only those know SO_RCVTIMEO and SO_SNDTIMEO */
	IF_SOCKET,
	IF_ALLOCATE, /* fallocate() that only allocates: repeating it is harmless */
};

static const struct restart_rule {
	int nr;
	enum restart_condition condition;
} restart_rules[] = {
#ifdef SYS_epoll_wait /* newer architectures have none */
	{ SYS_epoll_wait, IF_ANY },
#endif
	{ SYS_epoll_pwait, IF_ANY },
	{ SYS_epoll_pwait2, IF_ANY },
	{ SYS_io_uring_enter, IF_ANY },
	{ SYS_io_getevents, IF_ANY },
	{ SYS_rt_sigtimedwait, IF_ANY },
	{ SYS_semop, IF_ANY },
	{ SYS_semtimedop, IF_ANY },
	/*
	 * With SO_RCVTIMEO or SO_SNDTIMEO set; without them the kernel itself restarts these calls
	 * (sock_intr_errno()).
	 */
	{ SYS_recvfrom, IF_ANY },
	{ SYS_recvmsg, IF_ANY },
	{ SYS_recvmmsg, IF_ANY },
	{ SYS_sendto, IF_ANY },
	{ SYS_sendmsg, IF_ANY },
	{ SYS_sendmmsg, IF_ANY },
	{ SYS_accept, IF_ANY },
	{ SYS_accept4, IF_ANY },
	{ SYS_connect, IF_ANY },
	{ SYS_read, IF_SOCKET },
	{ SYS_readv, IF_SOCKET },
	{ SYS_write, IF_SOCKET },
	{ SYS_writev, IF_SOCKET },
	/* hugetlbfs, and tmpfs (shared memory of NCCL) of older kernels. */
	{ SYS_fallocate, IF_ALLOCATE },
};

static bool is_socket(pid_t tid, uint64_t fd)
{
	char path[64], target[16];
	char rest[16] = "/fd/";
	char digits[8];
	int n = 0;
	size_t at = 4;

	if (fd >= 10000000)
		return false;
	do
		digits[n++] = (char)('0' + fd % 10);
	while ((fd /= 10) > 0);
	while (n > 0)
		rest[at++] = digits[--n];
	rest[at] = '\0';
	vt_task_path(path, tid, rest);
	return readlink(path, target, sizeof(target)) >= 8 && !memcmp(target, "socket:[", 8);
}

static bool may_restart(pid_t tid, const struct vt_regs *regs)
{
	const uint8_t *args = VT_NATIVE->syscall_args;

	for (size_t i = 0; i < sizeof(restart_rules) / sizeof(restart_rules[0]); i++) {
		if (regs->syscall_nr != restart_rules[i].nr)
			continue;
		switch (restart_rules[i].condition) {
		case IF_ANY:
			return true;
		case IF_SOCKET:
			return is_socket(tid, regs->r[args[0]]);
		case IF_ALLOCATE:
			return !(regs->r[args[1]] & ~(uint64_t)FALLOC_FL_KEEP_SIZE);
		}
	}
	return false;
}

/* A set that this kernel or processor lacks (ENODEV, EINVAL) is left out, except the first. */
bool vt_stop_registers(pid_t tid, struct vt_regs *regs)
{
	for (size_t i = 0; i < VT_NATIVE->n_sets; i++) {
		const struct vt_arch_set *set = &VT_NATIVE->sets[i];
		uint64_t data[VT_ARCH_SET_MAX / sizeof(uint64_t)];
		struct iovec iov = { .iov_base = data, .iov_len = set->size };
		bool is_read = !ptrace(PTRACE_GETREGSET, tid, (void *)(uintptr_t)set->type, &iov) &&
			       iov.iov_len == set->size;

		if (is_read)
			set->take(data, regs);
		else if (i == 0)
			return false; /* a thread in 32-bit code gives a shorter set */
	}
	return true;
}

/* 0: unknown. */
static uint64_t count_switches(pid_t tid)
{
	char status[VT_MAX_STATUS];
	uint64_t n = 0;

	if (vt_status_read(tid, status, sizeof(status)))
		(void)vt_status_field(status, "\nvoluntary_ctxt_switches:", 10, &n);
	return n;
}

static bool has_rule(int64_t nr)
{
	for (size_t i = 0; i < sizeof(restart_rules) / sizeof(restart_rules[0]); i++)
		if (nr == restart_rules[i].nr)
			return true;
	return false;
}

/*
 * False if it does not sleep. Sets *asleep if it sleeps in a call that may have to be restarted. If
 * it sleeps anew between the two looks, in such a call too, the second one tells, or the number of
 * switches is too low for what follows.
 */
static bool look(pid_t tid, struct vt_asleep *asleep)
{
	struct vt_asleep first, again;

	vt_asleep_read(tid, &first);
	if (first.nr < 0 || !has_rule(first.nr))
		return first.nr >= 0;
	first.switches = count_switches(tid);
	vt_asleep_read(tid, &again);
	if (!first.switches || !vt_asleep_is_same(&first, &again))
		return false;
	/* A signal handler of ours may come in between, and read it. */
	asleep->nr = -1;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	memcpy(asleep->args, first.args, sizeof(asleep->args));
	asleep->sp = first.sp;
	asleep->pc = first.pc;
	asleep->switches = first.switches;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	asleep->nr = first.nr;
	return true;
}

/* All arguments that the registers still have are those of the call that was seen. */
static bool has_arguments(const struct vt_regs *regs, const struct vt_asleep *asleep)
{
	for (size_t i = 0; i < sizeof(asleep->args) / sizeof(asleep->args[0]); i++) {
		uint8_t reg = VT_NATIVE->syscall_args[i];

		if (reg != VT_NATIVE->syscall_result && regs->r[reg] != asleep->args[i])
			return false;
	}
	return true;
}

/*
 * Whether the call that has just ended is the one that the thread was seen asleep in; completes the
 * registers then. It is if the thread has not slept since but for the stop, which is a voluntary
 * switch, too.
 *
 * A thread that a signal handler returns just here from a call that a signal has ended looks the
 * same. But while a handler runs the stack pointer is another one; and none has begun since, as a
 * traced thread gets no signal but through us.
 */
static bool recall(pid_t tid, const struct vt_asleep *asleep, struct vt_regs *regs)
{
	if (asleep->nr < 0 || asleep->nr != vt_native_last_call(regs) ||
	    asleep->sp != vt_regs_sp(regs) || asleep->pc != vt_regs_pc(regs) ||
	    !has_arguments(regs, asleep) || count_switches(tid) != asleep->switches + 1)
		return false;
	regs->syscall_nr = asleep->nr;
	regs->r[VT_NATIVE->syscall_args[0]] = asleep->args[0];
	return true;
}

/* A thread that mostly waits is seen asleep soon. Nothing is stopped yet. */
#define LOOKS 8

void vt_stop_attached(pid_t tid, struct vt_asleep *asleep)
{
	asleep->nr = -1;
	for (int i = 0; vt_native_forgets_calls && !look(tid, asleep) && i < LOOKS; i++)
		sched_yield();
}

bool vt_stop_interrupt(pid_t tid, struct vt_asleep *asleep)
{
	if (vt_native_forgets_calls)
		(void)look(tid, asleep);
	return !ptrace(PTRACE_INTERRUPT, tid, NULL, NULL);
}

/* See restart_rules. */
void vt_stop_restart_if_spurious(pid_t tid, int signo, const struct vt_asleep *asleep)
{
	struct vt_regs regs;

	if (vt_stop_registers(tid, &regs) && (int64_t)regs.r[VT_NATIVE->syscall_result] == -EINTR &&
	    (regs.syscall_nr >= 0 || recall(tid, asleep, &regs)) && may_restart(tid, &regs) &&
	    !is_signal_due(tid, signo))
		vt_native_restart(tid, &regs);
}

static enum vt_stop_kind kind_of_stop(int event, int signo)
{
	if (event != PTRACE_EVENT_STOP)
		return VT_STOP_SIGNAL;
	return signo == SIGTRAP ? VT_STOP_TRAP : VT_STOP_GROUP;
}

enum vt_stop_kind vt_stop_look(pid_t tid, int *signo)
{
	siginfo_t info = { 0 };
	enum vt_stop_kind kind;
	int status, ret;

	*signo = 0;
	do
		ret = waitid(P_PID, (id_t)tid, &info,
			     WSTOPPED | WEXITED | WNOWAIT | WNOHANG | __WALL);
	while (ret && errno == EINTR);
	if (ret)
		return VT_STOP_LOST;
	if (info.si_pid && info.si_code != CLD_TRAPPED && info.si_code != CLD_STOPPED)
		return VT_STOP_DEAD;
	if (info.si_pid)
		status = info.si_status;
	else if (!ptrace(PTRACE_GETSIGINFO, tid, NULL, &info))
		status = info.si_code >> 8 == PTRACE_EVENT_STOP ? info.si_code : info.si_signo;
	else
		return VT_STOP_NONE;
	kind = kind_of_stop(status >> 8, status & 0x7f);
	if (kind == VT_STOP_SIGNAL)
		*signo = status & 0x7f;
	return kind;
}

void vt_stop_reap(pid_t tid)
{
	char status[4096];
	uint64_t tgid, ppid;
	siginfo_t info;

	if (vt_status_read(tid, status, sizeof(status)) &&
	    vt_status_field(status, "\nTgid:", 10, &tgid) &&
	    vt_status_field(status, "\nPPid:", 10, &ppid) && tgid == (uint64_t)tid &&
	    ppid == (uint64_t)getpid())
		return;
	(void)waitid(P_PID, (id_t)tid, &info, WEXITED | WNOHANG | __WALL);
}

bool vt_stop_let_go(pid_t tid, struct vt_asleep *asleep)
{
	int signo;

	switch (vt_stop_look(tid, &signo)) {
	case VT_STOP_LOST:
		return true;
	case VT_STOP_DEAD:
		vt_stop_reap(tid);
		return true;
	case VT_STOP_NONE:
		/*
		 * Again: a thread that took the main thread's number in execve() has not seen the
		 * first one.
		 */
		(void)vt_stop_interrupt(tid, asleep);
		return false;
	case VT_STOP_GROUP:
		break;
	case VT_STOP_TRAP:
	case VT_STOP_SIGNAL:
		vt_stop_restart_if_spurious(tid, signo, asleep);
		break;
	}
	vt_fault_point("session-detach");
	return !ptrace(PTRACE_DETACH, tid, NULL, (void *)(uintptr_t)signo);
}
