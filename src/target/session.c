/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts of the kernel (kernel/ptrace.c, kernel/signal.c; Linux 4.18 to 6.18) that this file and
 * let_go.c rest on:
 *
 * - PTRACE_SEIZE does not stop and sends no signal; PTRACE_INTERRUPT makes the thread report a
 *   PTRACE_EVENT_STOP that carries SIGTRAP, or the stopping signal while the process is in a group
 *   stop. Detaching from the latter puts the thread back into its group stop.
 * - Before the trap is reported no signal is taken from the queue; but a thread that has just taken
 *   one reports that instead (signal-delivery-stop). Detaching with the number of that signal
 *   delivers it, with its siginfo.
 * - waitid(WNOWAIT) leaves the stop event in place. If we die then, the kernel continues the thread
 *   as if it had never been looked at, signal included. A wait without it takes the stops of a
 *   tracee, too, whether it asks for them or not (wait_task_stopped(): WUNTRACED counts only for
 *   children), and clears exit_code, where the signal is: if we die then, the signal is lost. So
 *   nobody waits for a thread that is not known to be dead.
 * - PTRACE_DETACH works on stopped threads only. When the tracing thread ends, the kernel detaches
 *   from all, stopped or not.
 * - A thread other than the main one that dies while traced stays a zombie until its tracer waits
 *   for it. execve() ends all other threads and waits until they are gone, zombies too
 *   (fs/exec.c:de_thread()), with the mutex held that PTRACE_SEIZE needs; and after a signal
 *   handler PTRACE_SEIZE goes on waiting (-ERESTARTNOINTR). So zombies are collected by a handler
 *   of SIGCHLD, which the tracer gets for each thread that dies; see guard().
 */
#include "target/session.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/map.h"
#include "target/arch/native.h"
#include "target/let_go.h"
#include "target/proc.h"
#include "target/task.h"

/*
 * Rounds in which threads may still appear: each creates its next one before it is stopped, so a
 * few are enough.
 */
#define MAX_ROUNDS 100

/* Yields of the processor before the first sleep: most threads stop within microseconds. */
#define YIELDS 64
#define SHORTEST_SLEEP_NS (20 * VT_NS_PER_US)
#define LONGEST_SLEEP_NS VT_NS_PER_MS

/* How long the end of a session waits for threads that are about to stop, or dying. */
#define SETTLE_NS (5 * VT_NS_PER_MS)
/*
 * The same for threads that our interruption has woken up and that get no processor to stop on: if
 * we end before, the kernel lets them go, but nobody takes back the EINTR of the call that they
 * were in (see restart_rules in let_go.c). They are ready to run, so this is a matter of the
 * scheduler's.
 */
#define READY_NS (2 * VT_NS_PER_S)

enum phase {
	PHASE_NEW,     /* not attached, or cannot be interrupted at the moment */
	PHASE_SEIZED,  /* attached, runs */
	PHASE_WAITING, /* interrupted, has not reported yet */
	PHASE_HELD,    /* stopped */
	PHASE_OVER,    /* not attached and not to be: ended, refused, or released */
};

/*
 * All threads that this process is attached to, for release from a signal handler and after the end
 * of a session. An entry is made before PTRACE_SEIZE and removed after PTRACE_DETACH, so none is
 * ever missing.
 */
struct held {
	volatile pid_t tid; /* 0: free */
	volatile bool owed; /* its session is over */
	volatile bool is_main;
	volatile bool is_parent;      /* had children as we attached to it */
	volatile bool is_interrupted; /* a call of its ended with EINTR, by us or not */
	struct vt_asleep asleep;      /* of vt_stop_attached() */
};

static struct held held[VT_MAX_THREADS];
static volatile int n_held; /* entries from here on are free */

static int hold(pid_t tid, bool is_main)
{
	int slot = 0;

	/* Entries are freed in any order, but mostly all at once: then this finds the first. */
	if (n_held < VT_MAX_THREADS)
		slot = n_held;
	else
		while (slot < VT_MAX_THREADS && held[slot].tid)
			slot++;
	if (slot == VT_MAX_THREADS)
		return -1;
	held[slot].owed = false;
	held[slot].is_main = is_main;
	held[slot].is_parent = false;
	held[slot].is_interrupted = false;
	held[slot].asleep.nr = -1;
	held[slot].tid = tid;
	if (slot == n_held)
		n_held = slot + 1;
	return slot;
}

static void trim_held(void)
{
	while (n_held > 0 && !held[n_held - 1].tid)
		n_held--;
}

static void unhold(int slot)
{
	held[slot].tid = 0;
	trim_held();
}

static uint32_t *volatile cleared_first;

void vt_session_clear_first(uint32_t *word)
{
	cleared_first = word;
}

/*
 * While anything is held:
 *
 * - SIGCHLD collects threads that died. Not main threads: execve() does not wait for those, and the
 *   exit status of a child belongs to the code that started it. A thread that is found to be gone
 *   (VT_STOP_LOST) counts as ended, which is true.
 * - When a session is over and some of its threads have yet to stop, SIGCHLD lets them go as soon
 *   as they stop: they must not stay stopped because we are busy (looking up names, writing to a
 *   pager that does not read).
 * - Job control (Ctrl-Z, a terminal that belongs to another job) does not stop us, because the
 *   threads that we hold would stay stopped with us. Its signals are delivered when all threads are
 *   released.
 */
static bool is_guarded;
static struct sigaction unguarded_action;
static sigset_t unguarded_mask;

/*
 * Only between sessions: during one, an owed thread may be one of those being stopped (see
 * refused()).
 */
static volatile bool may_let_go;

/* Only marks entries as free and leaves trim_held() to others: this handler interrupts anything. */
static void on_child(int signo)
{
	int saved = errno;

	(void)signo;
	for (int i = 0; i < n_held; i++) {
		pid_t tid = held[i].tid;
		int sig;

		if (!tid)
			continue;
		if (held[i].owed && may_let_go) {
			if (vt_stop_let_go(tid, &held[i].asleep))
				held[i].tid = 0;
		} else if (!held[i].is_main && vt_stop_look(tid, &sig) == VT_STOP_DEAD) {
			vt_stop_reap(tid);
		}
	}
	errno = saved;
}

/* Without SA_NOCLDSTOP each thread that stops would send one, too. */
static void handle_children(bool between_sessions, struct sigaction *before)
{
	struct sigaction action = {
		.sa_handler = on_child,
		.sa_flags = SA_RESTART | (between_sessions ? 0 : SA_NOCLDSTOP),
	};

	may_let_go = between_sessions;
	sigaction(SIGCHLD, &action, before);
}

static void guard(void)
{
	sigset_t set;

	if (is_guarded) {
		handle_children(false, NULL);
		return;
	}
	is_guarded = true;
	sigemptyset(&set);
	sigaddset(&set, SIGTSTP);
	sigaddset(&set, SIGTTIN);
	sigaddset(&set, SIGTTOU);
	pthread_sigmask(SIG_BLOCK, &set, &unguarded_mask);
	handle_children(false, &unguarded_action);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static void unguard_if_none_held(void)
{
	if (!is_guarded || n_held > 0)
		return;
	is_guarded = false;
	sigaction(SIGCHLD, &unguarded_action, NULL);
	pthread_sigmask(SIG_SETMASK, &unguarded_mask, NULL);
}

bool vt_session_settle(void)
{
	bool outstanding = false;

	for (int i = n_held - 1; i >= 0; i--) {
		pid_t tid = held[i].tid; /* on_child() may clear it */

		if (!tid || !held[i].owed)
			continue;
		if (vt_stop_let_go(tid, &held[i].asleep))
			unhold(i);
		else
			outstanding = true;
	}
	trim_held();
	unguard_if_none_held();
	return outstanding;
}

/* Stopping */

static const char why_ended[] = "it ended";

/* State that is needed while threads are being stopped. */
struct stopping {
	struct vt_session *session;
	int task_dir;
	uint64_t deadline_ns; /* for one thread, relative */
	const struct vt_sleepers *sleepers;
	pid_t spared;        /* a thread that runs on; 0 none */
	struct vt_map known; /* tid to index in session->threads */
	size_t n_attached;
};

/* How long it may sleep uninterruptibly. */
#define SLEEPER_NS (2 * VT_NS_PER_MS) /* if it was waited for already */

static uint64_t patience(const struct stopping *stopping, pid_t tid)
{
	const struct vt_sleepers *sleepers = stopping->sleepers;

	return sleepers && vt_sleepers_has(sleepers, tid) ? SLEEPER_NS : stopping->deadline_ns;
}

static void give_up(struct vt_session_thread *thread, const char *why)
{
	thread->phase = PHASE_OVER;
	thread->why = why;
}

static bool is_alive(const struct stopping *stopping, pid_t tid)
{
	char state = vt_task_state(stopping->task_dir, tid);

	return state && state != 'Z' && state != 'X';
}

static struct vt_error *add_thread(struct stopping *stopping, pid_t tid)
{
	const uint64_t *index = vt_map_get(&stopping->known, (uint64_t)tid);
	struct vt_session_thread *thread;

	if (tid == stopping->spared)
		return NULL;
	if (index) {
		thread = &stopping->session->threads.data[*index];
		/*
		 * Thread numbers are reused: a new thread may have the number of one that has
		 * ended.
		 */
		if (thread->why != why_ended || !is_alive(stopping, tid))
			return NULL;
	} else {
		if (!vt_map_put(&stopping->known, (uint64_t)tid, stopping->session->threads.n))
			return &vt_enomem;
		thread = vt_vec_append(&stopping->session->threads);
		if (!thread)
			return &vt_enomem;
	}
	*thread = (struct vt_session_thread){
		.tid = tid,
		.phase = PHASE_NEW,
		.deadline_ns = vt_now_ns() + patience(stopping, tid),
	};
	return NULL;
}

/*
 * Adds threads that were not known yet. The process may end during this: then there is nothing to
 * add.
 */
static struct vt_error *find_threads(struct stopping *stopping)
{
	VT_FREE pid_t *tids = NULL;
	size_t n = 0;
	int ret = vt_task_list(stopping->task_dir, VT_MAX_THREADS, &tids, &n);

	if (ret == -ENOMEM)
		return &vt_enomem;
	for (size_t i = 0; !ret && i < n; i++)
		VT_TRY(add_thread(stopping, tids[i]));
	return NULL;
}

/* "process 4711 (gdb)" */
static struct vt_error *error_busy(pid_t pid, pid_t tracer)
{
	char path[32], name[64] = "?";
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)tracer);
	n = vt_task_slurp(AT_FDCWD, path, name, sizeof(name));
	if (n > 0 && name[n - 1] == '\n')
		name[n - 1] = '\0';
	return vt_error_create(
		VT_ERR_BUSY,
		"process %d is traced already, by process %d (%s): let that one detach first",
		(int)pid, (int)tracer, name);
}

static struct vt_error *error_permission(pid_t pid)
{
	struct vt_proc proc = { 0 };
	struct vt_arena arena = { 0 };
	struct vt_error *err = vt_proc_init(&proc, pid);
	const char *why;

	if (err)
		return err;
	why = vt_proc_why_not_permitted(&proc, &arena);
	err = vt_error_create(VT_ERR_PERMISSION, "not permitted to stop process %d: %s", (int)pid,
			      why ? why : VT_PROC_UNKNOWN_REASON);
	vt_arena_deinit(&arena);
	vt_proc_deinit(&proc);
	return err;
}

static void is_seized(struct stopping *stopping, struct vt_session_thread *thread)
{
	thread->phase = PHASE_SEIZED;
	held[thread->slot].is_parent = thread->is_parent;
	vt_stop_attached(thread->tid, &held[thread->slot].asleep);
	stopping->n_attached++;
}

static struct vt_error *attached(struct stopping *stopping, struct vt_session_thread *thread)
{
	thread->slot = hold(thread->tid, thread->tid == stopping->session->pid);
	if (thread->slot < 0)
		return &vt_enomem;
	is_seized(stopping, thread);
	return NULL;
}

/*
 * PTRACE_SEIZE failed with errnum. EPERM has three meanings: not permitted, traced by another,
 * already dead. It is an error of the session only when nothing could be attached to so far.
 */
static struct vt_error *refused(struct stopping *stopping, struct vt_session_thread *thread,
				int errnum)
{
	pid_t pid = stopping->session->pid;
	char status[4096];
	uint64_t tracer = 0;

	if (errnum == ESRCH || !is_alive(stopping, thread->tid)) {
		give_up(thread, why_ended);
		return NULL;
	}
	if (vt_status_read(thread->tid, status, sizeof(status)))
		vt_status_field(status, "\nTracerPid:", 10, &tracer);
	/*
	 * A thread that called execve() after we attached to it has the number of the main thread
	 * now, and is still ours.
	 */
	if (tracer == (uint64_t)syscall(SYS_gettid))
		return attached(stopping, thread);
	if (stopping->n_attached == 0 && tracer)
		return error_busy(pid, (pid_t)tracer);
	if (stopping->n_attached == 0 && (errnum == EPERM || errnum == EACCES))
		return error_permission(pid);
	if (stopping->n_attached == 0)
		return vt_error_create_os(errnum, "cannot stop process %d", (int)pid);
	give_up(thread,
		tracer ? "another process traces it" : "the kernel refused to attach to it");
	return NULL;
}

/*
 * Attaches to a thread unless it sleeps uninterruptibly (D: vfork() parent, disk, network file
 * system, driver). A thread in that state cannot be stopped, and cannot be let go until it stops:
 * so it is left alone and looked at again later.
 */
static struct vt_error *seize(struct stopping *stopping, struct vt_session_thread *thread)
{
	switch (vt_task_state(stopping->task_dir, thread->tid)) {
	case 0:
	case 'Z':
	case 'X':
		give_up(thread, why_ended);
		return NULL;
	case 'D':
		if (vt_deadline_passed(thread->deadline_ns))
			give_up(thread, "it sleeps uninterruptibly in the kernel");
		return NULL;
	}
	thread->slot = hold(thread->tid, thread->tid == stopping->session->pid);
	if (thread->slot < 0)
		return &vt_enomem;
	if (ptrace(PTRACE_SEIZE, thread->tid, NULL, NULL)) {
		int errnum = errno;

		unhold(thread->slot);
		return refused(stopping, thread, errnum);
	}
	/*
	 * A traced thread keeps its number. One that is none of the process's now is another's: the
	 * process ended, or this thread did, between the list and the attach.
	 */
	if (!vt_task_exists(stopping->task_dir, thread->tid)) {
		held[thread->slot].owed = true;
		give_up(thread, why_ended);
		return NULL;
	}
	is_seized(stopping, thread);
	return NULL;
}

static struct vt_error *seize_those(struct stopping *stopping, bool parents)
{
	struct vt_session *session = stopping->session;

	for (size_t i = 0; i < session->threads.n; i++) {
		struct vt_session_thread *thread = &session->threads.data[i];

		if (thread->phase == PHASE_NEW && thread->is_parent == parents)
			VT_TRY(seize(stopping, thread));
	}
	return NULL;
}

static void find_parents(void *arg, size_t first, size_t end)
{
	const struct stopping *stopping = arg;

	for (size_t i = first; i < end; i++) {
		struct vt_session_thread *thread = &stopping->session->threads.data[i];

		if (thread->phase == PHASE_NEW)
			thread->is_parent = vt_task_has_children(stopping->task_dir, thread->tid);
	}
}

/*
 * Parents come last: a traced one that is ready to run and has a signal pending, as a stop just
 * before leaves it until it gets a processor, does not take that of its child's end. The kernel
 * wakes up another thread for it (see enum turn), which must be traced by then: only so it is
 * restarted.
 */
static struct vt_error *seize_all(struct stopping *stopping)
{
	size_t n = stopping->session->threads.n;

	/* Later there are few new threads among them, and the others may stand still by then. */
	if (stopping->n_attached)
		find_parents(stopping, 0, n);
	else
		vt_task_each(n, find_parents, stopping);
	VT_TRY(seize_those(stopping, false));
	return seize_those(stopping, true);
}

static void interrupt_all(struct stopping *stopping)
{
	struct vt_session *session = stopping->session;

	for (size_t i = 0; i < session->threads.n; i++) {
		struct vt_session_thread *thread = &session->threads.data[i];

		if (thread->phase != PHASE_SEIZED)
			continue;
		if (!session->stop_begin_ns)
			session->stop_begin_ns = vt_now_ns();
		/* ESRCH: it is dying. The wait for it shows what became of it. */
		(void)vt_stop_interrupt(thread->tid, &held[thread->slot].asleep);
		thread->phase = PHASE_WAITING;
		thread->deadline_ns = vt_now_ns() + stopping->deadline_ns;
	}
}

static bool is_interrupted(const struct vt_session_thread *thread)
{
	return (int64_t)thread->regs.r[VT_NATIVE->syscall_result] == -EINTR;
}

/* Handles a thread that was just seen to be stopped. */
static void take_registers(struct vt_session_thread *thread, enum vt_stop_kind kind)
{
	thread->phase = PHASE_HELD;
	thread->trapped = kind == VT_STOP_TRAP;
	thread->was_group_stopped = kind == VT_STOP_GROUP;
	if (!vt_stop_registers(thread->tid, &thread->regs)) {
		thread->why = "its registers cannot be read (32-bit code, or it is being killed)";
		return;
	}
	thread->stopped = true;
	held[thread->slot].is_interrupted = is_interrupted(thread);
}

/* Looks once whether the thread has stopped; true when there is news. */
static bool collect(struct vt_session_thread *thread)
{
	int signo;
	enum vt_stop_kind kind = vt_stop_look(thread->tid, &signo);

	switch (kind) {
	case VT_STOP_NONE:
		return false;
	case VT_STOP_DEAD:
		vt_stop_reap(thread->tid);
		unhold(thread->slot);
		give_up(thread, why_ended);
		return true;
	case VT_STOP_LOST:
		unhold(thread->slot);
		give_up(thread, why_ended);
		return true;
	default:
		take_registers(thread, kind);
		return true;
	}
}

/* Waits a little: first only yields the processor, then sleeps longer and longer. */
static void pause_between(unsigned int *idle)
{
	uint64_t sleep_ns = SHORTEST_SLEEP_NS;

	if ((*idle)++ < YIELDS) {
		sched_yield();
		return;
	}
	for (unsigned int i = YIELDS; i < *idle && sleep_ns < LONGEST_SLEEP_NS; i += 8)
		sleep_ns *= 2;
	vt_sleep_ns(sleep_ns < LONGEST_SLEEP_NS ? sleep_ns : LONGEST_SLEEP_NS);
}

/* Until every interrupted thread has stopped or used up its time. */
static void collect_all(struct stopping *stopping)
{
	struct vt_session *session = stopping->session;
	unsigned int idle = 0;
	size_t first = 0; /* everything before has been dealt with */
	bool waiting = true;

	while (waiting) {
		uint64_t now = vt_now_ns();
		bool news = false;

		waiting = false;
		for (size_t i = first; i < session->threads.n; i++) {
			struct vt_session_thread *thread = &session->threads.data[i];

			if (thread->phase != PHASE_WAITING || thread->why) {
				first += i == first;
				continue;
			}
			if (collect(thread))
				news = true;
			else if (now >= thread->deadline_ns)
				thread->why = "it did not stop in time";
			else
				waiting = true;
		}
		if (news)
			idle = 0;
		else if (waiting)
			pause_between(&idle);
	}
}

static bool has_new(const struct vt_session *session)
{
	for (size_t i = 0; i < session->threads.n; i++)
		if (session->threads.data[i].phase == PHASE_NEW)
			return true;
	return false;
}

/*
 * Threads that cannot be stopped at the moment get their time before any thread is stopped: the
 * others must not wait for them while stopped. Threads that appear from here on are dealt with as
 * they come.
 */
static struct vt_error *attach_to_all(struct stopping *stopping)
{
	uint64_t deadline = vt_now_ns() + stopping->deadline_ns;
	unsigned int idle = 0;

	VT_TRY(find_threads(stopping));
	for (;;) {
		VT_TRY(seize_all(stopping));
		if (!has_new(stopping->session) || vt_deadline_passed(deadline))
			return NULL;
		pause_between(&idle);
	}
}

/*
 * True when the process has no threads except those that we hold stopped, and the spared one, which
 * is there for as long as it is used. These can neither end nor
 * start others, so it is enough that their number is the number of all threads. The kernel adds
 * that number to the link count of /proc/PID/task, which is 2 for a directory
 * (fs/proc/base.c:proc_task_getattr()); listing the directory takes 100 times as long. False: not
 * known.
 */
static bool holds_all(const struct stopping *stopping)
{
	const struct vt_session *session = stopping->session;
	struct stat st;
	size_t n = 0;

	for (size_t i = 0; i < session->threads.n; i++) {
		const struct vt_session_thread *thread = &session->threads.data[i];

		n += thread->phase == PHASE_HELD;
		if (thread->phase != PHASE_HELD && thread->why != why_ended)
			return false;
	}
	n += stopping->spared != 0;
	return !fstat(stopping->task_dir, &st) && st.st_nlink == n + 2;
}

/* Rounds, until one brings no thread that has not been dealt with. */
static struct vt_error *stop_threads(struct stopping *stopping)
{
	struct vt_session *session = stopping->session;
	unsigned int idle = 0;

	VT_TRY(attach_to_all(stopping));
	for (int rounds = 0; rounds < MAX_ROUNDS;) {
		size_t before = session->threads.n;

		vt_fault_point("session-seized");
		interrupt_all(stopping);
		vt_fault_point("session-interrupted");
		collect_all(stopping);
		vt_fault_point("session-stopped");
		if (holds_all(stopping))
			return NULL;
		VT_TRY(find_threads(stopping));
		if (session->threads.n > before)
			rounds++;
		else if (!has_new(session))
			return NULL;
		else
			pause_between(&idle);
		VT_TRY(seize_all(stopping));
	}
	for (size_t i = 0; i < session->threads.n; i++)
		if (session->threads.data[i].phase == PHASE_NEW)
			give_up(&session->threads.data[i], "it started too late");
	return NULL;
}

static int compare_threads(const void *a, const void *b)
{
	const struct vt_session_thread *x = a, *y = b;

	return (x->tid > y->tid) - (x->tid < y->tid);
}

static void sort_threads(struct vt_session *session)
{
	struct vt_session_thread *threads = session->threads.data;
	size_t n = session->threads.n;

	if (n == 0)
		return;
	qsort(threads, n, sizeof(*threads), compare_threads);
	for (size_t i = 1; i < n; i++) {
		struct vt_session_thread main_thread = threads[i];

		if (main_thread.tid != session->pid)
			continue;
		memmove(threads + 1, threads, i * sizeof(*threads));
		threads[0] = main_thread;
		break;
	}
}

static void use_memory(struct vt_session *session, bool coherent)
{
	if (!session->live)
		return;
	vt_live_drop_cache(session->live);
	vt_live_set_coherent(session->live, coherent);
}

/* Nothing can change the memory of the process now. */
static bool is_all_stopped(const struct vt_session *session)
{
	for (size_t i = 0; i < session->threads.n; i++) {
		const struct vt_session_thread *thread = &session->threads.data[i];

		if (thread->phase != PHASE_HELD && thread->why != why_ended)
			return false;
	}
	return true;
}

static bool has_ended(const struct vt_session *session)
{
	for (size_t i = 0; i < session->threads.n; i++)
		if (session->threads.data[i].why != why_ended)
			return false;
	return true;
}

static struct vt_error *stop(struct vt_session *session, pid_t pid, struct vt_live *live,
			     uint64_t per_thread_deadline_ns, const struct vt_sleepers *sleepers,
			     pid_t spared)
{
	/* The source has that of the process that was meant, whoever has its number by now. */
	VT_CLOSE int own_dir = live ? -1 : vt_task_dir(pid);
	int task_dir = live ? vt_live_task_dir(live) : own_dir;
	struct stopping stopping = { .session = session,
				     .task_dir = task_dir,
				     .deadline_ns = per_thread_deadline_ns,
				     .sleepers = sleepers,
				     .spared = spared };
	struct vt_error *err;

	*session = (struct vt_session){ .pid = pid, .live = live };
	vt_session_settle();
	if (task_dir < 0)
		return vt_task_error(-task_dir, pid, "threads");
	guard();
	err = stop_threads(&stopping);
	vt_map_deinit(&stopping.known);
	if (!err && has_ended(session))
		err = vt_error_create(VT_ERR_GONE, "process %d ended", (int)pid);
	if (err) {
		vt_session_deinit(session);
		return err;
	}
	sort_threads(session);
	use_memory(session, is_all_stopped(session));
	return NULL;
}

struct vt_error *vt_session_stop_soon(struct vt_session *session, pid_t pid, struct vt_live *live,
				      uint64_t per_thread_deadline_ns,
				      const struct vt_sleepers *sleepers)
{
	return stop(session, pid, live, per_thread_deadline_ns, sleepers, 0);
}

struct vt_error *vt_session_stop_others(struct vt_session *session, pid_t pid, pid_t spared,
					struct vt_live *live, uint64_t per_thread_deadline_ns)
{
	return stop(session, pid, live, per_thread_deadline_ns, NULL, spared);
}

struct vt_error *vt_session_stop_all(struct vt_session *session, pid_t pid, struct vt_live *live,
				     uint64_t per_thread_deadline_ns)
{
	return stop(session, pid, live, per_thread_deadline_ns, NULL, 0);
}

bool vt_session_stands(const struct vt_session *session)
{
	for (size_t i = 0; i < session->threads.n; i++)
		if (!session->threads.data[i].stopped && session->threads.data[i].why != why_ended)
			return false;
	return true;
}

/*
 * The short way for nearly every thread: it is in the trap that our interrupt caused, which it
 * cannot leave by itself, and has nothing to restart. (One system call fewer per thread matters:
 * the target is stopped.)
 */
static bool detach(const struct vt_session_thread *thread)
{
	if (thread->stopped && thread->trapped && !is_interrupted(thread)) {
		vt_fault_point("session-detach");
		if (!ptrace(PTRACE_DETACH, thread->tid, NULL, NULL))
			return true;
	}
	return vt_stop_let_go(thread->tid, &held[thread->slot].asleep);
}

/*
 * The order in which threads are let go. A SIGCHLD is sent to the thread that started the child.
 * While that one is traced, the kernel does not drop the signal, though it is ignored by default
 * (kernel/signal.c: sig_ignored()), and wakes up any other thread for it (complete_signal()): one
 * that is on its own already, and waits in epoll_wait(), sees EINTR. So threads with children come
 * first, and calls that end with EINTR last: by then nobody's child can wake them up, also not that
 * of a thread that has become a parent since it was attached to. What is both a parent and in such
 * a call may be woken up by another thread's child, or wake up another such parent by its own.
 */
enum turn { PARENTS, OTHERS, INTERRUPTED_PARENTS, INTERRUPTED, N_TURNS };

static enum turn turn_of(const struct held *one)
{
	if (one->is_interrupted)
		return one->is_parent ? INTERRUPTED_PARENTS : INTERRUPTED;
	return one->is_parent ? PARENTS : OTHERS;
}

/* True if there was one. */
static bool release_all(struct vt_session *session, enum turn turn)
{
	bool any = false;

	for (size_t i = 0; i < session->threads.n; i++) {
		struct vt_session_thread *thread = &session->threads.data[i];

		if (thread->phase == PHASE_NEW || thread->phase == PHASE_OVER ||
		    turn_of(&held[thread->slot]) != turn)
			continue;
		any = true;
		thread->phase = PHASE_OVER;
		if (detach(thread))
			unhold(thread->slot);
		else
			held[thread->slot].owed = true;
	}
	return any;
}

void vt_session_resume(struct vt_session *session)
{
	bool any = false;

	for (enum turn turn = 0; turn < N_TURNS; turn++)
		any |= release_all(session, turn);
	if (any) {
		session->stop_end_ns = vt_now_ns();
		use_memory(session, false);
	}
	if (is_guarded && n_held > 0) {
		handle_children(true, NULL);
		(void)vt_session_settle(); /* lets go of threads that stopped before this */
	} else {
		unguard_if_none_held();
	}
}

/* A thread that has stopped since we looked counts, too. */
static bool is_one_ready(void)
{
	VT_CLOSE int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (int i = 0; i < n_held; i++) {
		pid_t tid = held[i].tid;
		char state = tid && held[i].owed ? vt_task_state(proc, tid) : 0;

		if (state == 'R' || state == 't' || state == 'T')
			return true;
	}
	return false;
}

/* Threads that are owed stop within moments, or as soon as they get a processor. */
static bool is_worth_waiting(uint64_t begin)
{
	return !vt_deadline_passed(begin + SETTLE_NS) ||
	       (!vt_deadline_passed(begin + READY_NS) && is_one_ready());
}

void vt_session_deinit(struct vt_session *session)
{
	uint64_t begin = vt_now_ns();
	unsigned int idle = 0;

	vt_session_resume(session);
	while (vt_session_settle() && is_worth_waiting(begin))
		pause_between(&idle);
	vt_vec_deinit(&session->threads);
}

/* True when none of them is held any more. It may have interrupted anything, so no entry moves. */
static bool let_go_of_turn(enum turn turn)
{
	bool all = true;

	for (int i = n_held - 1; i >= 0; i--) {
		pid_t tid = held[i].tid;

		if (!tid || turn_of(&held[i]) != turn)
			continue;
		held[i].owed = true;
		if (vt_stop_let_go(tid, &held[i].asleep))
			held[i].tid = 0;
		else
			all = false;
	}
	return all;
}

static bool let_all_go(void)
{
	bool all = true;

	for (enum turn turn = 0; turn < N_TURNS; turn++)
		all &= let_go_of_turn(turn);
	return all;
}

void vt_session_emergency_release(void)
{
	uint32_t *word = cleared_first;
	uint64_t begin = vt_now_ns();
	unsigned int idle = 0;
	int saved = errno;

	if (word)
		__atomic_store_n(word, 0, __ATOMIC_SEQ_CST);
	while (!let_all_go() && is_worth_waiting(begin))
		pause_between(&idle);
	errno = saved;
}
