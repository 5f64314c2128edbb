/* SPDX-License-Identifier: Apache-2.0 */
#include "record/watchers.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/exit.h"
#include "base/vec.h"
#include "collect/watchdog.h"
#include "record/loaded.h"
#include "target/children.h"
#include "target/proc.h"
#include "target/processes_probe.h"

#define POLL_NS (50 * VT_NS_PER_MS)
/* Between two looks for new descendants: the maps of each that does not use CUDA are read. */
#define SEARCH_NS (500 * VT_NS_PER_MS)
#define MAX_DESCENDANTS 1024
/* Those whose memory blocks are left out; one can begin to, just then. */
#define WATCHDOG_NS (60 * VT_NS_PER_S)
#define LOCK_NS (3 * VT_NS_PER_S)
#define LOCK_POLL_NS (2 * VT_NS_PER_MS)
/* A descendant that could not be watched is tried again after 1, 4, 16 and 64 s. */
#define MAX_TRIES 5
#define RETRY_NS (1 * VT_NS_PER_S)
#define RETRY_SHIFT 2

/* A process that is watched, or was. */
struct watched {
	pid_t pid;
	uint64_t start_ticks;
	pid_t workers[2];      /* by mode; 0: none, or it has ended */
	unsigned int tries[2]; /* by mode, of this program */
	int failed[2];         /* the exit code of the last one; 0: it did not fail */
	uint64_t retry_ns[2];
	uint64_t program; /* another one after exec(); 0: not known */
};

struct state {
	const struct vt_watchers *options;
	struct vt_watchers_shared *shared;
	VT_VEC(struct watched) watched;
	size_t n_workers;
	bool told_to_end, said_many, said_untold;
	bool codes[VT_EXIT_NO_EVENT + 1]; /* that workers ended with */
	bool root_is_there;               /* the process whose descendants are watched */
	uint64_t root_ticks, next_search_ns;
};

/* ---- the lock ---- */

int vt_watchers_lock_create(void)
{
	return memfd_create("vramtap-output", MFD_CLOEXEC);
}

/* A POSIX lock is a process's, also on a descriptor that it inherited, and ends with it. */
static void set_lock(int lock, short type)
{
	struct flock whole = { .l_type = type, .l_whence = SEEK_SET };

	/* Whoever has it may write to a pipe that nobody reads. */
	uint64_t until = vt_now_ns() + LOCK_NS;

	while (lock >= 0 && fcntl(lock, F_SETLK, &whole) && !vt_deadline_passed(until) &&
	       (errno == EINTR || errno == EAGAIN || errno == EACCES))
		vt_sleep_ns(LOCK_POLL_NS);
}

void vt_watchers_lock(int lock)
{
	set_lock(lock, F_WRLCK);
}

void vt_watchers_unlock(int lock)
{
	set_lock(lock, F_UNLCK);
}

/* ---- workers ---- */

/*
 * In a group of its own: a Ctrl-C reaches it through us alone, and once. Without us it ends as by a
 * signal, and leaves the process as it was.
 */
static _Noreturn void work(const struct state *s, pid_t parent, pid_t pid, int mode)
{
	int status;

	setpgid(0, 0);
	if (prctl(PR_SET_PDEATHSIG, SIGTERM) || getppid() != parent)
		_exit(VT_EXIT_NOTHING);
	status = s->options->watch(s->options->arg, pid, mode, s->shared);
	fflush(NULL);
	_exit(status);
}

static void start_worker(struct state *s, struct watched *w, int mode)
{
	pid_t parent = getpid(), worker;

	fflush(NULL);
	worker = fork();
	if (worker == 0)
		work(s, parent, w->pid, mode);
	if (worker < 0) {
		VT_ERROR struct vt_error *err = vt_error_create_os(errno, "cannot fork");

		vt_exit_with(err);
		s->codes[VT_EXIT_NOTHING] = true;
		return;
	}
	w->workers[mode] = worker;
	w->failed[mode] = 0;
	w->tries[mode]++;
	s->n_workers++;
}

static bool same_process(const struct watched *w, pid_t pid)
{
	const struct vt_proc proc = { .pid = w->pid, .start_ticks = w->start_ticks };

	return w->pid == pid && (!w->start_ticks || vt_proc_is_alive(&proc));
}

static struct watched *find(const struct state *s, pid_t pid)
{
	for (size_t i = 0; i < s->watched.n; i++)
		if (same_process(&s->watched.data[i], pid))
			return &s->watched.data[i];
	return NULL;
}

/* Of the main thread. What is read here does not wait for the process's memory map. */
static uint64_t start_of(pid_t pid)
{
	struct vt_thread_info info = { 0 };
	VT_ERROR struct vt_error *err = vt_thread_info_read(&info, pid, pid);

	return err ? 0 : info.start_ticks;
}

static struct vt_error *watch_process(struct state *s, pid_t pid)
{
	struct watched *w = vt_vec_append(&s->watched);

	if (!w)
		return &vt_enomem;
	*w = (struct watched){ .pid = pid,
			       .start_ticks = start_of(pid),
			       .program = vt_record_program(pid) };
	for (int mode = 0; mode < s->options->n_modes; mode++)
		start_worker(s, w, mode);
	return NULL;
}

/* Nobody tries again. */
static void count_failures(struct state *s, const struct watched *w)
{
	for (int mode = 0; mode < 2; mode++)
		if (w->failed[mode])
			s->codes[w->failed[mode]] = true;
}

/* Forgets those that are over: in a job that starts many processes they would be ever more. */
static void forget_ended(struct state *s)
{
	size_t kept = 0;

	for (size_t i = 0; i < s->watched.n; i++) {
		struct watched w = s->watched.data[i];

		if (w.workers[0] || w.workers[1] || same_process(&w, w.pid))
			s->watched.data[kept++] = w;
		else
			count_failures(s, &w);
	}
	s->watched.n = kept;
}

/* ---- descendants ---- */

static void say_once(const struct state *s, bool *said, const char *text)
{
	if (!*said)
		s->options->say(text);
	*said = true;
}

/* 0: not known. */
static pid_t parent_of(pid_t pid)
{
	struct vt_proc proc = { 0 };
	VT_ERROR struct vt_error *err = vt_proc_init(&proc, pid);
	pid_t parent = err ? 0 : proc.ppid;

	vt_proc_deinit(&proc);
	return parent;
}

static bool is_among(pid_t pid, const pid_t *pids, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (pids[i] == pid)
			return true;
	return false;
}

/*
 * fork() copies the library, so a loader worker has it and does not use it: the driver's own thread
 * proves a use. A program that loaded it by itself has it elsewhere than its parent has.
 */
static bool uses_cuda(const struct state *s, pid_t pid, const pid_t *others, size_t n_others)
{
	uint64_t at = vt_record_library_at(pid, "libcuda.so");
	pid_t parent;

	if (!at || pid == s->options->children_of || vt_proc_has_driver_thread(pid))
		return at;
	parent = parent_of(pid);
	return (parent == s->options->children_of || is_among(parent, others, n_others)) &&
	       vt_record_library_at(parent, "libcuda.so") != at;
}

static bool is_due(const struct watched *w, int mode)
{
	return !w->workers[mode] && w->failed[mode] && w->tries[mode] < MAX_TRIES &&
	       vt_deadline_passed(w->retry_ns[mode]);
}

static bool has_another_program(const struct watched *w)
{
	uint64_t program = vt_record_program(w->pid);

	return w->program && program && program != w->program;
}

static void try_again(struct state *s, struct watched *w, const pid_t *others, size_t n_others)
{
	bool another = !w->workers[0] && !w->workers[1] && has_another_program(w);
	bool due[2] = { another || is_due(w, 0), another || is_due(w, 1) };

	if (!(due[0] || due[1]) || !uses_cuda(s, w->pid, others, n_others))
		return;
	if (another)
		*w = (struct watched){ .pid = w->pid,
				       .start_ticks = w->start_ticks,
				       .program = vt_record_program(w->pid) };
	for (int mode = 0; mode < s->options->n_modes; mode++)
		if (due[mode] && s->n_workers < VT_WATCHERS_MAX)
			start_worker(s, w, mode);
}

static struct vt_error *consider(struct state *s, pid_t pid, const pid_t *others, size_t n_others)
{
	struct watched *known = find(s, pid);

	if (known) {
		try_again(s, known, others, n_others);
		return NULL;
	}
	if (!uses_cuda(s, pid, others, n_others))
		return NULL;
	if (s->n_workers + (size_t)s->options->n_modes > VT_WATCHERS_MAX) {
		say_once(s, &s->said_many,
			 "no more processes are watched at one time: further ones are left out");
		return NULL;
	}
	return watch_process(s, pid);
}

static struct vt_error *search(struct state *s)
{
	VT_FREE pid_t *pids = calloc(MAX_DESCENDANTS, sizeof(*pids));
	bool whole = true, root_blocks = false;
	size_t n;

	if (!pids)
		return &vt_enomem;
	forget_ended(s);
	vt_processes_probe(&s->options->children_of, 1, &root_blocks);
	n = vt_children_list(s->options->children_of, pids, MAX_DESCENDANTS, &whole);
	if (!root_blocks)
		VT_TRY(consider(s, s->options->children_of, pids, n));
	for (size_t i = 0; i < n; i++)
		VT_TRY(consider(s, pids[i], pids, n));
	if (!whole)
		say_once(s, &s->said_untold,
			 "not all descendants can be told: processes may be missing");
	return NULL;
}

/* ---- until the end ---- */

static void note_code(struct state *s, struct watched *w, int mode, int code)
{
	w->workers[mode] = 0;
	s->n_workers--;
	if (code != VT_EXIT_NOTHING && code != VT_EXIT_NOT_PERMITTED) {
		s->codes[code] = true;
		return;
	}
	w->failed[mode] = code;
	w->retry_ns[mode] = vt_now_ns() + (RETRY_NS << (RETRY_SHIFT * (w->tries[mode] - 1)));
}

/* It can also be a late child of a search. */
static void note_end(struct state *s, pid_t worker, int status)
{
	int code = WIFEXITED(status) ? WEXITSTATUS(status) : VT_EXIT_NOTHING;

	code = code <= VT_EXIT_NO_EVENT ? code : VT_EXIT_NOTHING;
	for (size_t i = 0; i < s->watched.n; i++)
		for (int mode = 0; mode < 2; mode++)
			if (s->watched.data[i].workers[mode] == worker)
				note_code(s, &s->watched.data[i], mode, code);
}

static void reap(struct state *s)
{
	int status;
	pid_t worker;

	while (s->n_workers && (worker = waitpid(-1, &status, WNOHANG)) > 0)
		note_end(s, worker, status);
}

/* Once each: a second signal would not let them clean up. */
static void tell_to_end(struct state *s)
{
	/* What they started may end by itself, unless the user wants to end it. */
	__atomic_store_n(&s->shared->finish, !s->options->ended(), __ATOMIC_RELAXED);
	for (size_t i = 0; i < s->watched.n && !s->told_to_end; i++)
		for (int mode = 0; mode < 2; mode++)
			if (s->watched.data[i].workers[mode])
				kill(s->watched.data[i].workers[mode], SIGTERM);
	s->told_to_end = true;
}

static bool is_over(const struct state *s)
{
	uint32_t events = __atomic_load_n(&s->shared->events, __ATOMIC_RELAXED);

	return s->options->ended() || vt_deadline_passed(s->options->until_ns) ||
	       (s->options->count && events >= s->options->count);
}

/* Descendants may come as long as the process is there. */
static bool waits_for_more(const struct state *s)
{
	return !s->told_to_end && s->root_is_there;
}

/* The main thread may have ended before the others. */
static bool runs(pid_t pid)
{
	struct vt_thread_info info = { 0 };
	VT_ERROR struct vt_error *err = vt_thread_info_read(&info, pid, vt_proc_view(pid));

	return !err && info.state != 'Z' && info.state != 'X';
}

/* Not as a zombie, nor with another's number. */
static bool root_is_there(struct state *s)
{
	uint64_t ticks = start_of(s->options->children_of);

	if (!s->root_ticks)
		s->root_ticks = ticks;
	return ticks && ticks == s->root_ticks && runs(s->options->children_of);
}

static struct vt_error *watch(struct state *s)
{
	s->root_is_there = s->options->children_of != 0;
	for (size_t i = 0; i < s->options->n_pids; i++)
		VT_TRY(watch_process(s, s->options->pids[i]));
	for (;;) {
		if (is_over(s))
			tell_to_end(s);
		if (waits_for_more(s) && vt_deadline_passed(s->next_search_ns)) {
			vt_watchdog_arm(WATCHDOG_NS, s->options->children_of,
					"its descendants are looked at");
			s->root_is_there = root_is_there(s);
			if (s->root_is_there)
				VT_TRY(search(s));
			vt_watchdog_disarm();
			s->next_search_ns = vt_now_ns() + SEARCH_NS;
		}
		reap(s);
		if (!s->n_workers && !waits_for_more(s))
			return NULL;
		vt_sleep_ns(POLL_NS);
	}
}

/* It happened somewhere; else what kept us from seeing it in any; else it did not. */
static int status_of(const struct state *s)
{
	const bool *codes = s->codes;
	bool failed = codes[VT_EXIT_PARTIAL] || codes[VT_EXIT_NOTHING] ||
		      codes[VT_EXIT_NOT_PERMITTED];

	if (codes[VT_EXIT_COMPLETE] || codes[VT_EXIT_PARTIAL])
		return failed ? VT_EXIT_PARTIAL : VT_EXIT_COMPLETE;
	if (!failed)
		return VT_EXIT_NO_EVENT;
	return codes[VT_EXIT_NOT_PERMITTED] ? VT_EXIT_NOT_PERMITTED : VT_EXIT_NOTHING;
}

struct vt_error *vt_watchers_run(const struct vt_watchers *watchers, int *status)
{
	struct state s = { .options = watchers };
	struct vt_error *err;

	s.shared = mmap(NULL, sizeof(*s.shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			-1, 0);
	if (s.shared == MAP_FAILED)
		return vt_error_create_os(errno, "cannot map memory");
	err = watch(&s);
	if (err) {
		tell_to_end(&s);
		while (s.n_workers && !watchers->ended()) {
			reap(&s);
			vt_sleep_ns(POLL_NS);
		}
	}
	for (size_t i = 0; i < s.watched.n; i++)
		count_failures(&s, &s.watched.data[i]);
	if (!err)
		*status = status_of(&s);
	vt_vec_deinit(&s.watched);
	munmap(s.shared, sizeof(*s.shared));
	return err;
}
