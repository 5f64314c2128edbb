/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread of this tool that lives for one attempt only does all the tracing. A tracee belongs to
 * the thread that seized it, and the end of that thread releases it in whatever state it is. That
 * is the way out when a thread does not stop in time, since PTRACE_DETACH works on stopped threads
 * only.
 */
#include "inject/borrow.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/ends.h"
#include "base/fault.h"
#include "inject/arch/arch.h"
#include "inject/choose.h"
#include "inject/image.h"
#include "inject/seccomp.h"
#include "inject/step.h"
#include "target/let_go.h"
#include "target/session.h"

/*
 * An interrupted thread stops as soon as it gets a processor. If we left before that, its
 * epoll_wait() (or a similar call) would end with EINTR, so this is long. Only a thread that has
 * since begun to sleep uninterruptibly takes longer.
 */
#define STOP_DEADLINE_NS (500 * VT_NS_PER_MS)

/*
 * All but the C library's own 33: setuid() and similar calls wait until every thread has handled
 * it.
 */
#define BLOCKED_MASK (~(UINT64_C(1) << (33 - 1)))

/* The stack that must be left below the block, for the stub's last calls and a signal frame. */
#define STACK_RESERVE 16384u

#ifndef PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG
#define PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG 0x4210
#endif

/*
 * What the kernel reads while it changes the thread. It copies registers word by word, so the copy
 * must not end in the middle because we are killed while a page is fetched from swap. So this
 * memory is locked.
 */
struct locked {
	struct vt_caught caught;
	struct vt_stub_block block;
	uint64_t slot[2]; /* slot[1]: where the thread continues */
};

struct attempt {
	const struct vt_borrow_plan *plan;
	const struct vt_candidate *candidate;
	pid_t tid;
	struct locked *locked;
	bool filtered; /* the thread has a seccomp filter */
	enum vt_borrow_result result;
	struct vt_borrow_record record;
	struct vt_error *err;
};

/*
 * Whether a number in the status of this thread ("Seccomp:\t", "TracerPid:\t") is known to be 0 or
 * absent. Each thread has its own. The kernel escapes a newline in the thread's name; the list of
 * groups, the only long line, has only numbers.
 */
static bool status_is_zero(const struct attempt *attempt, const char *key)
{
	char path[64], line[256];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", (int)attempt->plan->proc->pid,
		 (int)attempt->tid);

	VT_FCLOSE FILE *fp = fopen(path, "re");

	if (!fp)
		return false;
	while (fgets(line, sizeof(line), fp))
		if (!strncmp(line, key, strlen(key)))
			return line[strlen(key)] == '0';
	return !ferror(fp);
}

/*
 * Why the thread cannot be traced, if that holds for all threads; NULL when another one may be
 * better.
 */
static struct vt_error *seize_error(const struct attempt *attempt, int errnum)
{
	const struct vt_proc *proc = attempt->plan->proc;
	struct vt_arena arena = { 0 };
	struct vt_error *err;
	const char *why;

	/*
	 * It ended, or only this thread has a tracer (maybe an attempt of ours that is just
	 * ending).
	 */
	if (errnum == ESRCH || !status_is_zero(attempt, "TracerPid:\t"))
		return NULL;
	why = vt_proc_why_not_permitted(proc, &arena);
	err = vt_error_create(VT_ERR_PERMISSION, "not permitted to trace process %d: %s",
			      (int)proc->pid, why ? why : VT_PROC_UNKNOWN_REASON);
	vt_arena_deinit(&arena);
	return err;
}

/*
 * Waits until the thread is stopped, without consuming the stop: when a tracer that has consumed a
 * signal's stop dies, the signal is lost. False when the thread did not stop, or ended.
 */
static bool wait_for_stop(pid_t tid, siginfo_t *info)
{
	uint64_t deadline = vt_now_ns() + STOP_DEADLINE_NS;

	for (;;) {
		info->si_pid = 0;
		if (waitid(P_PID, (id_t)tid, info,
			   WSTOPPED | WEXITED | WNOWAIT | WNOHANG | __WALL) &&
		    errno != EINTR)
			return false;
		if (info->si_pid)
			return info->si_code == CLD_TRAPPED || info->si_code == CLD_STOPPED;
		if (vt_deadline_passed(deadline))
			return false;
		sched_yield();
	}
}

/*
 * The word at an address of the stopped thread, in the memory that it has now (it may have called
 * execve()).
 */
static bool peek_is(pid_t tid, uint64_t addr, const void *expected)
{
	uint64_t word;

	return !syscall(SYS_ptrace, PTRACE_PEEKDATA, tid, addr, &word) &&
	       !memcmp(&word, expected, sizeof(word));
}

static bool poke(pid_t tid, uint64_t addr, const void *from, size_t len)
{
	uint64_t word;

	for (size_t i = 0; i < len; i += sizeof(word)) {
		size_t n = len - i < sizeof(word) ? len - i : sizeof(word);

		/* The bytes behind the stub are zeros. */
		word = 0;
		memcpy(&word, (const char *)from + i, n);
		if (ptrace(PTRACE_POKEDATA, tid, (void *)(addr + i), (void *)word))
			return false;
	}
	return true;
}

/*
 * Kernels may forbid writing to read-only pages through /proc/PID/mem altogether, or allow it to
 * the tracer only (proc_mem.force_override, Linux 6.12); POKEDATA is not affected by that.
 */
static struct vt_error *write_stub_stopped(const struct attempt *attempt)
{
	struct vt_error *err = vt_live_write(attempt->plan->live, attempt->plan->stub, vt_stub_blob,
					     vt_stub_size());

	if (!err)
		return NULL;
	vt_error_destroy(err);
	if (poke(attempt->tid, attempt->plan->stub, vt_stub_blob, vt_stub_size()))
		return NULL;
	return vt_error_create(VT_ERR_PERMISSION,
			       "the kernel does not allow writing to the code of process %d",
			       (int)attempt->plan->proc->pid);
}

/*
 * System calls of this thread are diverted to a handler (prctl(PR_SET_SYSCALL_USER_DISPATCH), as
 * Wine does).
 */
static bool has_syscall_dispatch(pid_t tid)
{
	struct {
		uint64_t mode, selector, offset, len;
	} config = { 0 };

	return !ptrace(PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG, tid, (void *)sizeof(config),
		       &config) &&
	       config.mode;
}

/*
 * Checks everything that must hold for the stopped thread. What cannot hold for any thread is an
 * error.
 */
static bool qualifies(struct attempt *attempt)
{
	const struct vt_borrow_plan *plan = attempt->plan;
	struct vt_caught *caught = &attempt->locked->caught;
	struct vt_memsrc *src = vt_live_source(plan->live);
	struct vt_wait wait;

	/*
	 * It must be where it was when it was chosen: in the same call, made from the same address,
	 * with the same stack pointer.
	 */
	if (!vt_caught_wait(attempt->tid, caught, &attempt->candidate->wait, &wait) ||
	    vt_call_exposure(attempt->tid, src, wait.nr, wait.args) >= VT_EXPOSURE_NEVER)
		return false;
	if (!vt_caught_undo_eintr(attempt->tid, caught, &wait) ||
	    !vt_caught_can_return(attempt->tid, caught, src))
		return false;
	if (has_syscall_dispatch(attempt->tid))
		return false;
	if (attempt->filtered)
		attempt->err = vt_seccomp_check(attempt->tid, plan->use);
	return !attempt->err;
}

static void fill_block(struct attempt *attempt, uint64_t slot, uint64_t mask)
{
	const struct vt_borrow_plan *plan = attempt->plan;
	struct locked *locked = attempt->locked;

	locked->block = (struct vt_stub_block){
		.region = plan->control.region,
		.blocked_mask = BLOCKED_MASK,
		.signal_mask = mask,
		.control = plan->control,
	};
	vt_caught_fill(&locked->caught, slot, plan->xstate, &locked->block, locked->slot);
}

/*
 * Whether the mapping is the thread's own stack: glibc keeps the thread's control block, which the
 * thread pointer points to, on top of it; the main thread's is the kernel's. A coroutine runs on a
 * stack whose end is unknown: the memory below it is not ours to write.
 */
static bool is_own_stack(const struct attempt *attempt, const struct vt_map_entry *stack)
{
	uint64_t control_block = vt_caught_thread_pointer(&attempt->locked->caught);

	/*
	 * The control block of the main thread is in a mapping of the loader's, which neighbours
	 * may have been merged with.
	 */
	if (attempt->tid == attempt->plan->proc->pid)
		return !strcmp(stack->path, "[stack]");
	return control_block >= stack->start && control_block < stack->end &&
	       control_block > vt_caught_sp(&attempt->locked->caught);
}

/*
 * Writes the block below the red zone and checks that the thread sees it. False when the stack has
 * no room.
 */
static bool write_block(struct attempt *attempt, uint64_t mask)
{
	struct locked *locked = attempt->locked;
	uint64_t sp = vt_caught_sp(&locked->caught);
	uint64_t slot = sp - VT_STUB_RET - VT_STUB_SLOT_SIZE;
	uint64_t at = (slot - sizeof(locked->block)) & ~UINT64_C(63);
	const struct vt_map_entry *stack = vt_maps_find(attempt->plan->maps, sp);
	VT_ERROR struct vt_error *err = NULL;

	if (!stack || !(stack->flags & VT_MAP_WRITE) || at < stack->start ||
	    at - stack->start < STACK_RESERVE || !is_own_stack(attempt, stack))
		return false;
	fill_block(attempt, slot, mask);
	err = vt_live_write(attempt->plan->live, at, &locked->block, sizeof(locked->block));
	if (!err)
		err = vt_live_write(attempt->plan->live, slot, locked->slot, VT_STUB_SLOT_SIZE);
	if (err)
		return false;
	attempt->record.block = at;
	return peek_is(attempt->tid, at, &locked->block) &&
	       peek_is(attempt->tid, at + offsetof(struct vt_stub_block, control),
		       &locked->block.control) &&
	       peek_is(attempt->tid, slot + 8, &locked->slot[1]) &&
	       peek_is(attempt->tid, attempt->plan->stub, vt_stub_blob) &&
	       peek_is(attempt->tid, attempt->plan->stub + (vt_stub_size() & ~(size_t)7) - 8,
		       vt_stub_blob + (vt_stub_size() & ~(size_t)7) - 8);
}

/* The point of no return; after it the thread needs nothing more from us. */
static bool commit(struct attempt *attempt)
{
	struct locked *locked = attempt->locked;

	if (!vt_caught_send(attempt->tid, &locked->caught, attempt->plan->stub + VT_STUB_BORROWED,
			    attempt->record.block))
		return false;
	vt_fault_point("inject.committed");
	vt_fault_steps("committed", attempt->tid, attempt->plan->stub, locked->slot[1]);
	/*
	 * After, not before: the stub blocks signals itself, so if we die in between, no thread is
	 * left with all signals blocked. Signals that came during the stop stay pending until the
	 * stub has looked at them.
	 */
	ptrace(PTRACE_SETSIGMASK, attempt->tid, (void *)sizeof(uint64_t),
	       &locked->block.blocked_mask);
	vt_fault_point("inject.masked");
	vt_fault_steps("masked", attempt->tid, attempt->plan->stub, locked->slot[1]);
	return true;
}

/* The thread is stopped by our interruption. */
static void divert(struct attempt *attempt)
{
	uint64_t mask;

	if (!vt_caught_read(attempt->tid, &attempt->locked->caught) ||
	    ptrace(PTRACE_GETSIGMASK, attempt->tid, (void *)sizeof(mask), &mask))
		return;
	if (!qualifies(attempt))
		return;
	if (attempt->plan->write_stub && (attempt->err = write_stub_stopped(attempt)))
		return;
	if (!write_block(attempt, mask))
		return;
	vt_fault_point("inject.block-written");
	if (commit(attempt))
		attempt->result = VT_BORROWED;
}

static bool interrupt(pid_t tid, siginfo_t *info, struct vt_asleep *asleep)
{
	if (!vt_stop_interrupt(tid, asleep))
		return false;
	vt_fault_point("inject.interrupted");
	return wait_for_stop(tid, info);
}

/*
 * The event stop of a group stop carries the stopping signal, the one of an interruption SIGTRAP.
 */
static bool is_interrupted(const siginfo_t *info)
{
	return info->si_status == (SIGTRAP | PTRACE_EVENT_STOP << 8);
}

/* Runs in a thread of its own; its end releases what it still traces. */
static void *try_thread(void *arg)
{
	struct attempt *attempt = arg;
	pid_t tid = attempt->tid;
	struct vt_asleep asleep;
	siginfo_t info;

	if (ptrace(PTRACE_SEIZE, tid, NULL, NULL)) {
		attempt->err = seize_error(attempt, errno);
		return NULL;
	}
	vt_stop_attached(tid, &asleep);
	vt_fault_point("inject.seized");
	/*
	 * While the thread is traced, its tid cannot be reused, so what is found out now stays
	 * true.
	 */
	if (!vt_proc_is_alive(attempt->plan->proc)) {
		attempt->err = vt_error_create(VT_ERR_GONE, "process %d ended",
					       (int)attempt->plan->proc->pid);
		return NULL;
	}
	attempt->filtered = !status_is_zero(attempt, "Seccomp:\t");
	vt_caught_prepare(tid, &attempt->locked->caught);
	if (!interrupt(tid, &info, &asleep))
		return NULL;
	if (is_interrupted(&info) &&
	    vt_caught_let_on(tid, &attempt->locked->caught, &attempt->candidate->wait) &&
	    !interrupt(tid, &info, &asleep))
		return NULL;
	attempt->record.stop_ns = vt_now_ns();
	vt_fault_point("inject.stopped");
	if (info.si_status >> 8 != PTRACE_EVENT_STOP) {
		/* A signal is about to be delivered: let it through. */
		vt_stop_restart_if_spurious(tid, info.si_status & 0x7f, &asleep);
		ptrace(PTRACE_DETACH, tid, NULL, (void *)(long)(info.si_status & 0x7f));
		return NULL;
	}
	if (!is_interrupted(&info))
		attempt->result = VT_BORROW_STOPPED;
	else
		divert(attempt);
	/*
	 * Since it was chosen it may have entered another call, which our interruption has ended.
	 */
	if (attempt->result == VT_BORROW_ANOTHER)
		vt_stop_restart_if_spurious(tid, 0, &asleep);
	ptrace(PTRACE_DETACH, tid, NULL, NULL);
	vt_fault_point("inject.detached");
	return NULL;
}

/* Signals to the tool are for its other threads. */
static int start_blocked(pthread_t *thread, struct attempt *attempt)
{
	sigset_t all, old;
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	ret = pthread_create(thread, NULL, try_thread, attempt);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return ret;
}

/*
 * What would end us waits until the attempt is over: an interrupted epoll_wait() gives EINTR if we
 * end before that is undone. SIGCHLD is not kept waiting: it lets go of threads (session.c).
 */
static void keep_ends_waiting(sigset_t *old)
{
	sigset_t set;

	vt_ends_fill(&set);
	pthread_sigmask(SIG_BLOCK, &set, old);
}

struct vt_error *vt_borrow(const struct vt_borrow_plan *plan, const struct vt_candidate *candidate,
			   enum vt_borrow_result *result, struct vt_borrow_record *record)
{
	struct attempt attempt = {
		.plan = plan,
		.candidate = candidate,
		.tid = candidate->tid,
		.result = VT_BORROW_ANOTHER,
	};
	pthread_t thread;
	sigset_t mask;
	void *p = mmap(NULL, sizeof(*attempt.locked), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (p == MAP_FAILED)
		return &vt_enomem;
	attempt.locked = p;
	/*
	 * Without the right to lock memory (RLIMIT_MEMLOCK 0), pages that were just touched are
	 * almost as safe.
	 */
	mlock(p, sizeof(*attempt.locked));

	keep_ends_waiting(&mask);

	int ret = start_blocked(&thread, &attempt);

	if (!ret)
		ret = pthread_join(thread, NULL);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	munmap(p, sizeof(*attempt.locked));
	if (ret)
		return vt_error_create_os(ret, "cannot start a thread");
	if (attempt.err)
		return attempt.err;
	*result = attempt.result;
	*record = attempt.record;
	return NULL;
}
