/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The injector is killed in every state of the protocol, into programs that notice everything
 * (tests/targets/victim.c):
 *
 * - before and after each of its system calls that can change something (all of what it does to the
 *   process is done by these, and by words in the shared file, which have fault points);
 * - with the borrowed thread before each instruction of the stub;
 * - with the helper's thread, and the one that maps the memory file, before each of theirs.
 *
 * Each time the victim must be unharmed, and the next injector must get as far; after each series
 * one must come to its end. The second and third need --enable-fault-points.
 *
 * By default an instruction that is passed many times (a loop) counts the first and the last time,
 * and the threads that are borrowed take turns. With VRAMTAP_SOAK every time counts, and every
 * system call, of each thread.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "functional/victims.h"
#include "inject/image.h"
#include "inject/inject.h"
#include "inject/space.h"
#include "inject/step.h"

/* Between two looks at the victim. */
#define BATCH 8

/* More than any of the three threads runs in the stub before it waits for vramtap. */
#define MANY_INSTRUCTIONS 450

/*
 * Whose system calls are interrupted: one for each way in which the kernel continues them (SYS,
 * NOHAND, RESTART_BLOCK, EINTR), and those that compare all registers.
 */
static const char *const borrowed[] = {
	"probe-sleep", "probe-wake",       "pipe", "select",
	"epoll",       "interrupted-read", "poll", "probe-timeout"
};

#define N_BORROWED (sizeof(borrowed) / sizeof(borrowed[0]))

static struct victim victim;
static bool soak;
static int n_kills, n_injections, n_failed;
static uint64_t begin_ns;

static double seconds(void)
{
	return (double)(vt_now_ns() - begin_ns) / 1e9;
}

struct run {
	pid_t pid;
	int out; /* the report */
	int log; /* offsets of instructions */
	const char *thread;
};

/* The end of the log has this number in the injector. */
#define LOG_FD 60

static void start(struct run *run, size_t thread, const char *fault, bool traced)
{
	pid_t tid;
	int out[2], log[2];

	run->thread = borrowed[thread % N_BORROWED];
	tid = victim_thread(&victim, run->thread);
	if (pipe2(out, O_CLOEXEC) || pipe2(log, O_CLOEXEC))
		exit(99);
	fflush(stdout);
	run->pid = fork();
	if (run->pid == 0) {
		dup2(log[1], LOG_FD);
		if (traced) {
			ptrace(PTRACE_TRACEME, 0, NULL, NULL);
			raise(SIGSTOP);
		}
		injector(victim.pid, tid, fault, out[1]);
	}
	close(out[1]);
	close(log[1]);
	run->out = out[0];
	run->log = log[0];
	n_injections++;
}

/* When it has ended. One that was not killed has done its work, unless that is impossible. */
static void finish(struct run *run, bool killed, bool impossible)
{
	struct report report = { 0 };
	bool fine = read(run->out, &report, sizeof(report)) == sizeof(report) && report.created &&
		    report.called;

	close(run->out);
	close(run->log);
	n_kills += killed;
	if (!fine && !killed && !impossible) {
		printf("# FAILED: thread %s: %s\n", run->thread,
		       report.created ? "the helper's answer was not the right one" :
					report.message);
		n_failed++;
	}
}

/* Every now and then. False ends everything: there is no victim any more. */
static bool look(size_t i, const char *what)
{
	return (i + 1) % BATCH != 0 || is_unharmed(&victim, what);
}

/* One that nobody kills must come to its end. */
static bool next_works(const char *what)
{
	struct run run;

	start(&run, 0, NULL, false);
	waitpid(run.pid, NULL, 0);
	finish(&run, false, false);
	return is_unharmed(&victim, what);
}

/* System calls */

/* Calls that change nothing outside of vramtap. */
static bool only_looks(uint64_t nr)
{
	static const int nrs[] = {
		SYS_read,
		SYS_pread64,
		SYS_open,
		SYS_openat,
		SYS_readlink,
		SYS_readlinkat,
		SYS_getdents64,
		SYS_fstat,
		SYS_newfstatat,
		SYS_lseek,
		SYS_getrandom,
		SYS_process_vm_readv,
		SYS_nanosleep,
		SYS_sched_yield,
		SYS_clock_gettime,
		SYS_clock_nanosleep,
		SYS_brk,
		SYS_access,
		SYS_poll,
		SYS_getpid,
		SYS_prlimit64,
		SYS_fcntl,
		SYS_mprotect,
		SYS_madvise,
		SYS_rt_sigprocmask,
		SYS_rseq,
		SYS_set_robust_list,
		SYS_mlock,
	};

	for (size_t i = 0; i < sizeof(nrs) / sizeof(nrs[0]); i++)
		if (nr == (uint64_t)nrs[i])
			return true;
	return false;
}

/* The nth time that this call begins or has ended; of ptrace() the request tells calls apart. */
struct state {
	uint64_t nr, request;
	bool ended;
	size_t nth;
};

#define MAX_STATES 8192

struct states {
	struct state all[MAX_STATES];
	size_t n;
};

static bool is_same_call(const struct state *a, const struct state *b)
{
	return a->nr == b->nr && a->request == b->request && a->ended == b->ended;
}

/* Numbers and adds the state in which a thread of the injector has just stopped. */
static const struct state *add_state(struct states *states, const struct state *now)
{
	struct state *state = &states->all[states->n++];

	if (states->n == MAX_STATES)
		exit(97);
	*state = *now;
	for (size_t i = 0; i + 1 < states->n; i++)
		state->nth += is_same_call(&states->all[i], now);
	return state;
}

/* The call at which a thread of the injector is stopped. False: it is none that counts. */
static bool read_state(pid_t tid, bool is_main, struct state *state)
{
	static struct state last[2]; /* of the injector, and of its thread */
	struct __ptrace_syscall_info info;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, tid, (void *)sizeof(info), &info) <= 0)
		return false;
	*state = last[is_main];
	state->ended = info.op != PTRACE_SYSCALL_INFO_ENTRY;
	if (!state->ended) {
		*state = (struct state){ .nr = info.entry.nr };
		if (state->nr == SYS_ptrace)
			state->request = info.entry.args[0];
		last[is_main] = *state;
	}
	return soak || !only_looks(state->nr);
}

/*
 * Runs the traced injector until it is in this state (NULL: to its end), and kills it there. False:
 * it never was. *states are those in which it has been.
 */
static bool kill_in_state(const struct run *run, const struct state *wanted, struct states *states)
{
	bool reached = false;
	int status;

	states->n = 0;
	waitpid(run->pid, &status, 0);
	ptrace(PTRACE_SETOPTIONS, run->pid, NULL,
	       (void *)(PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL));
	ptrace(PTRACE_SYSCALL, run->pid, NULL, NULL);
	for (;;) {
		pid_t pid = waitpid(-1, &status, __WALL | __WNOTHREAD);
		struct state now;
		int sig;

		if (pid == victim.pid) {
			printf("# DIED: status 0x%x\n", (unsigned int)status);
			harm.died++;
			victim.pid = 0;
		}
		if (pid < 0 || (pid == run->pid && !WIFSTOPPED(status)))
			return reached;
		if (!WIFSTOPPED(status))
			continue;
		sig = WSTOPSIG(status);
		if (sig == (SIGTRAP | 0x80) && !reached && read_state(pid, pid == run->pid, &now)) {
			const struct state *state = add_state(states, &now);

			if (wanted && is_same_call(state, wanted) && state->nth == wanted->nth) {
				reached = true;
				kill(run->pid, SIGKILL);
				continue;
			}
		}
		if (status >> 16 || sig == (SIGTRAP | 0x80) || sig == SIGTRAP || sig == SIGSTOP)
			sig = 0;
		ptrace(PTRACE_SYSCALL, pid, NULL, (void *)(long)sig);
	}
}

/* Tries a few times: searches and waits need more calls in one run than in another. */
static bool kill_once(const struct state *wanted, size_t thread)
{
	static struct states states;
	bool killed = false;

	for (int i = 0; i < 3 && !killed && victim.pid; i++) {
		struct run run;

		start(&run, thread + (size_t)(soak ? 0 : i), NULL, true);
		killed = kill_in_state(&run, wanted, &states);
		finish(&run, killed, false);
	}
	return killed;
}

static bool kill_at_calls(size_t thread)
{
	static struct states all;
	size_t n = 0, missed = 0;
	struct run run;

	start(&run, thread, NULL, true);
	kill_in_state(&run, NULL, &all);
	finish(&run, false, false);
	for (size_t i = 0; i < all.n; i++) {
		const struct state *state = &all.all[i];
		char what[80];

		snprintf(what, sizeof(what), "a kill %s call %zu of %llu (%llx)",
			 state->ended ? "after" : "before", state->nth,
			 (unsigned long long)state->nr, (unsigned long long)state->request);
		if (kill_once(state, soak ? thread : i))
			n++;
		else
			missed++;
		if (!victim.pid || !look(i, what))
			return false;
	}
	printf("# vramtap killed before and after its system calls: %zu states, %zu not met again (%.1f s)\n",
	       n, missed, seconds());
	if (n < all.n * 9 / 10) {
		printf("# FAILED: these are too many\n");
		n_failed++;
	}
	return next_works("kills at system calls");
}

#ifdef VT_FAULT_POINTS
/* Instructions of the stub */

#define MAX_PATH (1 << 16)

struct path {
	uint16_t offsets[MAX_PATH]; /* in the order in which they were executed */
	size_t n;
};

static size_t read_log(int fd, uint16_t *offsets, size_t max)
{
	size_t n = 0;
	ssize_t got;

	while (n < max * sizeof(*offsets) &&
	       (got = read(fd, (char *)offsets + n, max * sizeof(*offsets) - n)) > 0)
		n += (size_t)got;
	return n / sizeof(*offsets);
}

/* Whether this passage is one of those at which vramtap is killed. */
static bool counts(const struct path *path, size_t i)
{
	bool first = true, last = true;

	if (soak)
		return true;
	for (size_t k = 0; k < path->n; k++) {
		first &= k >= i || path->offsets[k] != path->offsets[i];
		last &= k <= i || path->offsets[k] != path->offsets[i];
	}
	return first || last;
}

/*
 * One way to lead a thread to the nth instruction of the stub and kill vramtap there, if it has not
 * ended by itself (the helper's last instructions are those after that). True when it came there.
 * *path is what the thread executed.
 */
struct leading {
	const char *what;
	bool (*lead)(const struct leading *leading, size_t thread, size_t nth, struct path *path);
	const char *point; /* where it begins */
	const char *who;   /* "borrowed", "helper", "file" */
	/* how much address space the victim may have beyond what it has; 0: as much as it likes */
	uint64_t room;
	uint64_t
		stack; /* of the helper's thread: another size than that of those that libc keeps */
	size_t most;   /* how many instructions it is about; 0: all */
};

/* vramtap itself does both (src/inject/step.c). */
static bool lead_inside(const struct leading *leading, size_t thread, size_t nth, struct path *path)
{
	struct run run;
	char fault[64];
	int status;
	bool killed;

	snprintf(fault, sizeof(fault), "step:%s:%s:%zu:%d", leading->point, leading->who, nth,
		 LOG_FD);
	start(&run, thread, fault, false);
	path->n = read_log(run.log, path->offsets, MAX_PATH);
	waitpid(run.pid, &status, 0);
	killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
	finish(&run, killed, leading->room != 0);
	return killed;
}

static uint64_t stub_address(void)
{
	static uint64_t addr;
	struct vt_modules modules = { 0 };
	struct vt_maps maps = { 0 };
	struct vt_live *live = NULL;
	bool present = false;

	if (addr)
		return addr;
	if (vt_maps_init(&maps, victim.pid) || vt_modules_init(&modules, victim.pid, &maps) ||
	    vt_live_create(victim.pid, &live) ||
	    vt_space_for_stub(&modules, live, vt_stub_blob, vt_stub_size(), &addr, &present) ||
	    !present)
		exit(99);
	vt_live_destroy(live);
	vt_modules_deinit(&modules);
	vt_maps_deinit(&maps);
	return addr;
}

static bool read_task(pid_t tid, const char *name, char *text, size_t size)
{
	char path[80];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", (int)victim.pid, (int)tid, name);

	VT_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);

	text[n > 0 ? n : 0] = '\0';
	return n > 0;
}

#define MAX_TIDS 256

struct tids {
	pid_t all[MAX_TIDS];
	size_t n;
};

static void list_threads(struct tids *tids)
{
	const struct dirent *entry;
	char path[64];

	tids->n = 0;
	snprintf(path, sizeof(path), "/proc/%d/task", (int)victim.pid);

	VT_CLOSEDIR DIR *dir = opendir(path);

	while (dir && tids->n < MAX_TIDS && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			tids->all[tids->n++] = (pid_t)atoi(entry->d_name);
}

static bool has_thread(const struct tids *tids, pid_t tid)
{
	for (size_t i = 0; i < tids->n; i++)
		if (tids->all[i] == tid)
			return true;
	return false;
}

static bool is_ours(pid_t tid)
{
	char text[64];

	return read_task(tid, "comm", text, sizeof(text)) && !strcmp(text, "vramtap\n");
}

static bool is_in_futex(pid_t tid)
{
	char text[256];

	return read_task(tid, "syscall", text, sizeof(text)) && !strncmp(text, "202 ", 4);
}

/*
 * The helper's thread of the session that has just begun, or the one that maps its memory file.
 * Those of earlier sessions, in *before, may still be on their way out. The new helper has started
 * the other and waits for it in futex(), or will in a moment: only when one of the two is there is
 * it certain which is which. 0: not yet.
 */
static pid_t new_thread(const struct tids *before, bool helper)
{
	pid_t waits = 0, other = 0;
	struct tids now;

	list_threads(&now);
	for (size_t i = 0; i < now.n; i++) {
		pid_t tid = now.all[i];

		if (has_thread(before, tid) || !is_ours(tid))
			continue;
		if (is_in_futex(tid))
			waits = tid;
		else
			other = tid;
	}
	if (!waits || !other)
		return 0;
	return helper ? waits : other;
}

/* Stops a thread of the victim. */
static void seize(pid_t tid)
{
	int status;

	if (tid && !ptrace(PTRACE_SEIZE, tid, NULL, NULL) &&
	    !ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) && waitpid(tid, &status, __WALL) == tid)
		return;
	printf("# FAILED: thread %d of the session could not be stopped: %m\n", (int)tid);
	exit(98);
}

/* vramtap stops before it sends its word to the two threads; the test steps one of them. */
static bool lead_from_outside(const struct leading *leading, size_t thread, size_t nth,
			      struct path *path)
{
	struct vt_steps steps = { .stub = stub_address(), .nth = nth };
	bool helper = !strcmp(leading->who, "helper");
	struct tids before;
	bool reached = false, killed = false;
	struct run run;
	char fault[64];
	int log[2], status;

	if (pipe2(log, O_CLOEXEC))
		exit(99);
	list_threads(&before);
	steps.log = log[1];
	snprintf(fault, sizeof(fault), "stop:%s", leading->point);
	start(&run, thread, fault, false);
	if (waitpid(run.pid, &status, WUNTRACED) == run.pid && WIFSTOPPED(status)) {
		for (int i = 0; i < 1000 && !steps.tid; i++) {
			steps.tid = new_thread(&before, helper);
			usleep(1000);
		}
		seize(steps.tid);
		kill(run.pid, SIGCONT);
		reached = vt_step(&steps) == VT_STEP_REACHED;
		if (reached) {
			kill(run.pid, SIGKILL);
			waitpid(run.pid, &status, 0);
			killed = WIFSIGNALED(status);
			ptrace(PTRACE_DETACH, steps.tid, NULL, NULL);
		} else {
			waitpid(run.pid, &status, 0);
		}
	}
	close(log[1]);
	path->n = read_log(log[0], path->offsets, MAX_PATH);
	close(log[0]);
	finish(&run, killed, false);
	return reached;
}

static const struct leading leadings[] = {
	{ "the borrowed thread", lead_inside, "masked", "borrowed", 0, 0, 0 },
	/* until it blocks them itself */
	{ "the borrowed thread, its signals not blocked yet", lead_inside, "committed", "borrowed",
	  0, 0, 16 },
	{ "the borrowed thread, no room for the region", lead_inside, "masked", "borrowed",
	  64 << 10, 0, 0 },
	{ "the borrowed thread, no room for a stack", lead_inside, "masked", "borrowed", 1 << 20,
	  8 << 20, 0 },
	{ "the helper's thread, until it waits", lead_inside, "masked", "helper", 0, 0, 0 },
	{ "the file's thread, until it waits", lead_inside, "masked", "file", 0, 0, 120 },
	{ "the file's thread, from vramtap's word on", lead_from_outside, "inject.ready-to-go",
	  "file", 0, 0, 0 },
	{ "the helper's thread, from vramtap's word on", lead_from_outside, "inject.ready-to-go",
	  "helper", 0, 0, 0 },
};

/* A limit that the victim's own threads get on with. */
static void limit_room(uint64_t room)
{
	char path[64], text[64] = "";
	struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };

	snprintf(path, sizeof(path), "/proc/%d/statm", (int)victim.pid);

	VT_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (room && fd >= 0 && read(fd, text, sizeof(text) - 1) > 0)
		limit.rlim_cur = strtoull(text, NULL, 10) * 4096 + room;
	prlimit(victim.pid, RLIMIT_AS, &limit, NULL);
}

static int count(const bool *flags, size_t n)
{
	int set = 0;

	for (size_t i = 0; i < n; i++)
		set += flags[i];
	return set;
}

static bool covered[4096];

/* False: there is no victim any more. */
static bool kill_along(const struct leading *leading, size_t thread, int *states, bool *here)
{
	static struct path all, path;
	size_t done = 0;
	char what[160];

	leading->lead(leading, thread, MANY_INSTRUCTIONS, &all);
	for (size_t i = 0; i < all.n && i < MANY_INSTRUCTIONS; i++) {
		if (!counts(&all, i) || (leading->most && !soak && i >= leading->most))
			continue;
		if (leading->lead(leading, soak ? thread : done, i, &path) && path.n == i + 1) {
			++*states;
			covered[path.offsets[i]] = here[path.offsets[i]] = true;
		}
		snprintf(what, sizeof(what), "%s: instruction %zu, at 0x%x of the stub",
			 leading->what, i, path.n ? path.offsets[path.n - 1] : 0);
		if (!look(done++, what))
			return false;
	}
	return true;
}

static bool kill_at_instructions(void)
{
	for (size_t i = 0; i < sizeof(leadings) / sizeof(leadings[0]); i++) {
		const struct leading *leading = &leadings[i];
		bool here[sizeof(covered)] = { false }, fine = true;
		int states = 0;

		/* Threads of those before must be gone. */
		if (leading->room || leading->lead == lead_from_outside)
			count_leaks(&victim);
		limit_room(leading->room);
		helper_stack = leading->stack;
		for (size_t thread = 0; fine && thread < (soak ? N_BORROWED : 1); thread++)
			fine = kill_along(leading, thread, &states, here);
		limit_room(0);
		helper_stack = 0;
		if (!fine || !next_works(leading->what))
			return false;
		printf("# %s: vramtap gone before %d instructions, %d times (%.1f s)\n",
		       leading->what, count(here, sizeof(here)), states, seconds());
		if (!states) {
			printf("# FAILED: never\n");
			n_failed++;
		}
	}
	printf("# instructions of the stub before which vramtap was gone: %d",
	       count(covered, sizeof(covered)));
	if (getenv("VT_STUB_INSTRUCTIONS"))
		printf(" of %s", getenv("VT_STUB_INSTRUCTIONS"));
	printf("\n");
	return true;
}
#endif

int main(void)
{
	const char *directory = getenv("VRAMTAP_BUILD_DIR"), *wanted = getenv("VRAMTAP_SOAK");
	char path[512];
	const char *const argv[] = { path, NULL };
	bool fine;

	snprintf(path, sizeof(path), "%s/tests/targets/victim", directory ? directory : ".");
	begin_ns = vt_now_ns();
	soak = wanted && atoi(wanted) > 0;
	start_victim(&victim, argv);
	if (!is_ready(&victim))
		return 99;
	fine = true;
	for (size_t thread = 0; fine && thread < (soak ? N_BORROWED : 1); thread++)
		fine = kill_at_calls(thread);
#ifdef VT_FAULT_POINTS
	fine = fine && kill_at_instructions();
#endif
	if (fine)
		count_leaks(&victim);
	printf("# %d injections, %d of them killed, %d failed, %.1f s; ", n_injections, n_kills,
	       n_failed, seconds());
	print_harm();
	printf("\n");
	end_victim(&victim);
	return is_any_harm() || n_failed;
}
