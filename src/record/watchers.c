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
#include "record/loaded.h"
#include "target/children.h"
#include "target/proc.h"

#define POLL_NS (50 * VT_NS_PER_MS)
/* Between two looks for new descendants: the maps of each that does not use CUDA are read. */
#define SEARCH_NS (500 * VT_NS_PER_MS)
#define MAX_DESCENDANTS 1024

/* A process that is watched, or was. */
struct watched {
	pid_t pid;
	uint64_t start_ticks;
	pid_t workers[2]; /* by mode; 0: none, or it has ended */
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

	while (lock >= 0 && fcntl(lock, F_SETLKW, &whole) && errno == EINTR)
		;
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
	s->n_workers++;
}

static bool same_process(const struct watched *w, pid_t pid)
{
	const struct vt_proc proc = { .pid = w->pid, .start_ticks = w->start_ticks };

	return w->pid == pid && (!w->start_ticks || vt_proc_is_alive(&proc));
}

static bool is_known(const struct state *s, pid_t pid)
{
	for (size_t i = 0; i < s->watched.n; i++)
		if (same_process(&s->watched.data[i], pid))
			return true;
	return false;
}

static uint64_t start_of(pid_t pid)
{
	struct vt_proc proc = { 0 };
	VT_ERROR struct vt_error *err = vt_proc_init(&proc, pid);
	uint64_t ticks = err ? 0 : proc.start_ticks;

	vt_proc_deinit(&proc);
	return ticks;
}

static struct vt_error *watch_process(struct state *s, pid_t pid)
{
	struct watched *w = vt_vec_append(&s->watched);

	if (!w)
		return &vt_enomem;
	*w = (struct watched){ .pid = pid, .start_ticks = start_of(pid) };
	for (int mode = 0; mode < s->options->n_modes; mode++)
		start_worker(s, w, mode);
	return NULL;
}

/* Forgets those that are over: in a job that starts many processes they would be ever more. */
static void forget_ended(struct state *s)
{
	size_t kept = 0;

	for (size_t i = 0; i < s->watched.n; i++) {
		struct watched w = s->watched.data[i];

		if (w.workers[0] || w.workers[1] || same_process(&w, w.pid))
			s->watched.data[kept++] = w;
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

static struct vt_error *consider(struct state *s, pid_t pid)
{
	if (is_known(s, pid) || !vt_record_has_library(pid, "libcuda.so"))
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
	bool whole = true;
	size_t n;

	if (!pids)
		return &vt_enomem;
	forget_ended(s);
	VT_TRY(consider(s, s->options->children_of));
	n = vt_children_list(s->options->children_of, pids, MAX_DESCENDANTS, &whole);
	for (size_t i = 0; i < n; i++)
		VT_TRY(consider(s, pids[i]));
	if (!whole)
		say_once(s, &s->said_untold,
			 "not all descendants can be told: processes may be missing");
	return NULL;
}

/* ---- until the end ---- */

static void note_end(struct state *s, pid_t worker, int status)
{
	int code = WIFEXITED(status) ? WEXITSTATUS(status) : VT_EXIT_NOTHING;

	for (size_t i = 0; i < s->watched.n; i++)
		for (int mode = 0; mode < 2; mode++)
			if (s->watched.data[i].workers[mode] == worker)
				s->watched.data[i].workers[mode] = 0;
	s->n_workers--;
	s->codes[code <= VT_EXIT_NO_EVENT ? code : VT_EXIT_NOTHING] = true;
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

/* Not as a zombie, nor with another's number. */
static bool root_is_there(struct state *s)
{
	struct vt_proc proc = { 0 };
	VT_ERROR struct vt_error *err = vt_proc_init(&proc, s->options->children_of);
	bool there = !err && proc.state != 'Z' && proc.state != 'X';

	if (!s->root_ticks)
		s->root_ticks = proc.start_ticks;
	there = there && proc.start_ticks == s->root_ticks;
	vt_proc_deinit(&proc);
	return there;
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
			s->root_is_there = root_is_there(s);
			if (s->root_is_there)
				VT_TRY(search(s));
			s->next_search_ns = vt_now_ns() + SEARCH_NS;
		}
		reap(s);
		if (!s->n_workers && !waits_for_more(s))
			return NULL;
		vt_sleep_ns(POLL_NS);
	}
}

/* It happened somewhere; else the worst that kept us from seeing it. */
static int status_of(const struct state *s)
{
	const bool *codes = s->codes;
	bool failed = codes[VT_EXIT_PARTIAL] || codes[VT_EXIT_NOTHING] ||
		      codes[VT_EXIT_NOT_PERMITTED];

	if (codes[VT_EXIT_COMPLETE] || codes[VT_EXIT_PARTIAL])
		return failed ? VT_EXIT_PARTIAL : VT_EXIT_COMPLETE;
	if (codes[VT_EXIT_NO_EVENT] || !failed)
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
	if (!err)
		*status = status_of(&s);
	vt_vec_deinit(&s.watched);
	munmap(s.shared, sizeof(*s.shared));
	return err;
}
