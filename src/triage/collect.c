/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parent of the workers: starts them together, gives them processors for the rest, takes in
 * their results, and ends those that do not finish.
 */
#include "triage/collect.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "base/exit.h"
#include "base/progress.h"
#include "triage/latch.h"
#include "triage/ras.h"
#include "walk/native/lines_memo.h"
#include "job/json/json.h"

#define MAX_WORKERS 1024                /* at once; more processes than that are read in turns */
#define MIN_WORKERS 8                   /* tried even if limits are lower */
#define FILES_EACH 2                    /* our ends of a worker's pipes */
#define OWN_FILES 64                    /* our other files; a worker has its own only */
#define LOT 32                          /* stopped at once per processor: each takes 0.2 ms */
#define LOT_NS (50 * VT_NS_PER_MS)      /* the longest wait of the next lot for a hanging one */
#define MAX_DOCUMENT ((size_t)64 << 20) /* bytes of one */
#define PATIENCE_NS (2 * VT_NS_PER_S)   /* prepared workers wait this long for the next one */
#define PATIENCE_PART 4                 /* but never longer than this part of the time for all */
#define ENDING_NS (500 * VT_NS_PER_MS)  /* for a killed worker to end: it may be in the kernel */
#define UNDISTURBED_NS (200 * VT_NS_PER_MS) /* for capturing, before names are resolved */
#define HOLDING_NS (12 * VT_NS_PER_S)       /* to hold a process: a watchdog ends it after 10 s */
#define LOOK_NS (1 * VT_NS_PER_S)           /* the interval of that check */
#define POLL_ENDING_MS 2

enum phase {
	PHASE_PREPARING,
	PHASE_READY, /* waits at the start */
	PHASE_CAPTURING,
	PHASE_READ, /* waits for a processor */
	PHASE_WORKING,
	PHASE_WAITING, /* for another worker; will end soon */
	PHASE_ENDING,  /* its pipe is closed */
	PHASE_OVER,
};

struct worker {
	struct vt_suspect *suspect;
	int *status;
	pid_t pid;
	int fd;        /* its document; -1 complete */
	int errors;    /* its standard error; -1 none */
	uint32_t said; /* the last value of vt_phase_of() */
	enum phase phase;
	struct vt_latch *go;
	uint64_t capturing_ns; /* PHASE_CAPTURING: its begin */
	uint64_t end_ns;       /* PHASE_ENDING: the end of the wait for it */
	struct vt_str document;
	const char *why; /* ours: why it was ended; NULL it ended by itself */
};

struct party {
	const struct vt_triage_options *options;
	struct vt_lines_memo *lines_memo; /* NULL none */
	struct vt_job *job;
	struct worker *workers;
	size_t n;
	struct vt_latch *latches; /* the start of each lot, and one for each worker */
	size_t n_lots, n_started; /* lots */
	struct vt_phases phases;
	struct vt_triage_ras *ras; /* NULL: RAS is not asked */
	size_t n_processors;
	uint64_t begin_ns, deadline_ns;
	uint64_t last_ready_ns; /* the last progress before the start */
	sigset_t mask;          /* while waiting: the user's signals are not blocked */
};

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signo)
{
	interrupted = signo;
}

/* ---- starting ---- */

/* The most workers that may run at once. */
static size_t allow_many_files(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files))
		return MIN_WORKERS;
	files.rlim_cur = files.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &files);
	if (files.rlim_max >= FILES_EACH * MAX_WORKERS + OWN_FILES)
		return MAX_WORKERS;
	if (files.rlim_max <= FILES_EACH * MIN_WORKERS + OWN_FILES)
		return MIN_WORKERS;
	return (size_t)(files.rlim_max - OWN_FILES) / FILES_EACH;
}

static size_t count_processors(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) ? 1 : (size_t)CPU_COUNT(&set);
}

/* Workers are in the order of their importance, so that ranks are in the first lot. */
static struct vt_latch *start_of(const struct party *party, const struct worker *worker)
{
	return &party->latches[(size_t)(worker - party->workers) / (LOT * party->n_processors)];
}

static void close_pipes(struct worker *worker)
{
	if (worker->fd >= 0)
		close(worker->fd);
	if (worker->errors >= 0)
		close(worker->errors);
	worker->fd = worker->errors = -1;
}

/* Closes our ends in the worker: of its own pipes and of earlier workers' pipes. */
static _Noreturn void be_worker(struct party *party, const struct worker *worker,
				const struct vt_worker_setup *setup)
{
	for (size_t i = 0; i <= setup->number; i++)
		close_pipes(&party->workers[i]);
	close(party->phases.wake[0]);
	vt_triage_work(worker->suspect, party->options, setup);
}

/* Keeps our end and returns the worker's; -1 on failure. */
static int open_pipe(int flags, int *ours)
{
	int pipes[2];

	if (pipe2(pipes, O_CLOEXEC | flags))
		return -1;
	*ours = pipes[0];
	return pipes[1];
}

/* On failure, worker->why has the reason. */
static bool start_worker(struct party *party, struct worker *worker)
{
	struct vt_worker_setup setup = {
		.parent = getpid(),
		.start = start_of(party, worker),
		.go = worker->go,
		.deadline_ns = party->deadline_ns,
		.lines_memo = party->lines_memo,
		.phases = &party->phases,
		.number = (size_t)(worker - party->workers),
	};

	/* Its standard error is read only after its end, so writes must not block. */
	setup.out = open_pipe(0, &worker->fd);
	setup.errors = setup.out < 0 ? -1 : open_pipe(O_NONBLOCK, &worker->errors);
	worker->pid = setup.errors < 0 ? -1 : fork();
	if (worker->pid == 0)
		be_worker(party, worker, &setup);
	if (worker->pid < 0)
		worker->why = setup.errors < 0 ? "there are too many open files here" :
						 "no process could be started for it here";
	if (setup.out >= 0)
		close(setup.out);
	if (setup.errors >= 0)
		close(setup.errors);
	if (worker->pid < 0) {
		close_pipes(worker);
		return false;
	}
	worker->phase = PHASE_PREPARING;
	(void)fcntl(worker->fd, F_SETFL, O_NONBLOCK);
	return true;
}

/* ---- events ---- */

static size_t count(const struct party *party, enum phase phase)
{
	size_t n = 0;

	for (size_t i = 0; i < party->n; i++)
		n += party->workers[i].phase == phase;
	return n;
}

static void end_worker(struct worker *worker, int signo, const char *why)
{
	if (worker->phase == PHASE_OVER)
		return;
	kill(worker->pid, signo);
	if (!worker->why)
		worker->why = why;
}

static void begin_capturing(struct worker *worker)
{
	worker->phase = PHASE_CAPTURING;
	worker->capturing_ns = vt_now_ns();
}

/* A worker reached a new phase. */
static void hear(struct party *party, struct worker *worker)
{
	if (worker->said == VT_PHASE_READY && worker->phase == PHASE_PREPARING) {
		worker->phase = PHASE_READY;
		if (vt_latch_is_open(start_of(party, worker)))
			begin_capturing(worker);
		party->last_ready_ns = vt_now_ns();
	} else if (worker->said == VT_PHASE_READ) {
		worker->phase = PHASE_READ;
	} else if (worker->said == VT_PHASE_WAITS && worker->phase == PHASE_WORKING) {
		worker->phase = PHASE_WAITING;
	}
}

static void hear_all(struct party *party)
{
	vt_phases_woken(&party->phases);
	for (size_t i = 0; i < party->n; i++) {
		struct worker *worker = &party->workers[i];
		uint32_t said = vt_phase_of(&party->phases, i);

		if (worker->phase >= PHASE_ENDING || said == worker->said)
			continue;
		worker->said = said;
		hear(party, worker);
	}
}

static void read_worker(struct party *party, struct worker *worker)
{
	char buf[65536];
	ssize_t n;

	while ((n = read(worker->fd, buf, sizeof(buf))) > 0) {
		vt_str_addn(&worker->document, buf, (size_t)n);
		if (worker->document.n > MAX_DOCUMENT || worker->document.failed)
			end_worker(worker, SIGKILL, "there is too much to be said of it");
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	close(worker->fd);
	worker->fd = -1;
	worker->phase = PHASE_ENDING;
	worker->end_ns = vt_now_ns() + ENDING_NS;
	party->last_ready_ns = vt_now_ns();
}

/* ---- results ---- */

/* The first line of the worker's standard error; false: none. */
static bool last_words(const struct worker *worker, char *buf, size_t size)
{
	static const char prefix[] = "vramtap: ";
	char said[256] = "";
	const char *line = said;

	if (worker->errors < 0 || read(worker->errors, said, sizeof(said) - 1) <= 0)
		return false;
	if (!strncmp(said, prefix, sizeof(prefix) - 1))
		line += sizeof(prefix) - 1;
	snprintf(buf, size, "%.*s", (int)strcspn(line, "\n"), line);
	return *buf;
}

static const char *why_nothing(const struct worker *worker, int wait_status, char *buf, size_t size)
{
	if (worker->why)
		return worker->why;
	if (interrupted)
		return "vramtap was interrupted";
	if (WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGXCPU)
		snprintf(buf, size, "looking at it takes too long");
	else if (WIFSIGNALED(wait_status))
		snprintf(buf, size, "vramtap's process for it was ended by signal %d (%s)",
			 WTERMSIG(wait_status), strsignal(WTERMSIG(wait_status)));
	else if (!last_words(worker, buf, size))
		snprintf(buf, size, "vramtap's process for it ended with status %d",
			 WEXITSTATUS(wait_status));
	return buf;
}

/*
 * A hostile process may have taken over the worker that read it: the worker speaks for that process
 * only.
 */
static bool add_document(struct party *party, const struct worker *worker)
{
	const struct vt_suspect *suspect = worker->suspect;
	const struct vt_str *text = &worker->document;
	VT_ERROR struct vt_error *err = vt_job_load_one(party->job, vt_str_get(text), text->n,
							suspect->core ? 0 : suspect->label.pid);

	return !err;
}

static void finish(struct party *party, struct worker *worker, int wait_status)
{
	bool whole = WIFEXITED(wait_status) && !worker->why;
	char buf[256];

	if (worker->phase == PHASE_OVER)
		return;
	worker->phase = PHASE_OVER;
	if (whole && add_document(party, worker)) {
		*worker->status = WEXITSTATUS(wait_status);
	} else {
		*worker->status = VT_EXIT_NOTHING;
		(void)vt_job_add(party->job, &worker->suspect->label, NULL,
				 why_nothing(worker, wait_status, buf, sizeof(buf)));
	}
	close_pipes(worker);
	vt_str_deinit(&worker->document);
}

static void reap(struct party *party)
{
	for (size_t i = 0; i < party->n; i++) {
		struct worker *worker = &party->workers[i];
		int status = 0;

		if (worker->phase != PHASE_ENDING)
			continue;
		if (waitpid(worker->pid, &status, WNOHANG) != 0)
			finish(party, worker, status);
		else if (vt_deadline_passed(worker->end_ns))
			end_worker(worker, SIGKILL, "vramtap's process for it does not end");
		if (worker->phase == PHASE_ENDING && vt_deadline_passed(worker->end_ns + ENDING_NS))
			finish(party, worker, 0); /* it hangs in the kernel, and ends there */
	}
}

/* ---- next steps ---- */

static uint64_t patience(const struct party *party)
{
	uint64_t part = party->options->timeout_ns / PATIENCE_PART;

	return part < PATIENCE_NS ? part : PATIENCE_NS;
}

/*
 * When the ready workers start without the missing ones. Each new one extends the time for the
 * rest, up to a limit.
 */
static uint64_t start_by(const struct party *party)
{
	uint64_t for_next = party->last_ready_ns + patience(party);
	uint64_t for_all = party->begin_ns + party->options->timeout_ns / PATIENCE_PART;

	return for_next < for_all ? for_next : for_all;
}

static void start_lot(struct party *party)
{
	struct vt_latch *start = &party->latches[party->n_started++];

	vt_latch_open(start);
	for (size_t i = 0; i < party->n; i++)
		if (party->workers[i].phase == PHASE_READY &&
		    start_of(party, &party->workers[i]) == start)
			begin_capturing(&party->workers[i]);
}

static bool is_lot_over(const struct party *party)
{
	return !count(party, PHASE_CAPTURING) ||
	       vt_deadline_passed(party->latches[party->n_started - 1].opened_ns + LOT_NS);
}

/*
 * All workers are prepared before the first lot starts; late ones go alone. A process stays stopped
 * while others are read beside it: stopping all processes of a large job at once would take too
 * long.
 */
static void start_if_ready(struct party *party)
{
	if (!party->n_started &&
	    (!count(party, PHASE_READY) ||
	     (count(party, PHASE_PREPARING) && !vt_deadline_passed(start_by(party)))))
		return;
	while (party->n_started < party->n_lots && (!party->n_started || is_lot_over(party)))
		start_lot(party);
}

static bool is_starting(const struct party *party)
{
	return party->n_started < party->n_lots &&
	       count(party, PHASE_PREPARING) + count(party, PHASE_READY);
}

static bool is_capturing(const struct party *party)
{
	return count(party, PHASE_CAPTURING) &&
	       !vt_deadline_passed(
		       party->latches[party->n_started ? party->n_started - 1 : 0].opened_ns +
		       UNDISTURBED_NS);
}

/*
 * Resolving names takes processor time and memory (the symbols of PyTorch's libraries), so at most
 * one worker per processor does it; and none before the start, or while others still hold their
 * processes, unless those hang.
 */
static void give_processors(struct party *party)
{
	size_t working = count(party, PHASE_WORKING);

	if (is_starting(party) || is_capturing(party))
		return;
	for (size_t i = 0; i < party->n && working < party->n_processors; i++) {
		struct worker *worker = &party->workers[i];

		if (worker->phase != PHASE_READ)
			continue;
		worker->phase = PHASE_WORKING;
		vt_latch_open(worker->go);
		working++;
	}
}

static void end_all(struct party *party, int signo, const char *why)
{
	for (size_t i = 0; i < party->n; i++)
		end_worker(&party->workers[i], signo, why);
}

static int time_to_wait_ms(const struct party *party)
{
	uint64_t now = vt_now_ns(), until = party->deadline_ns;

	if (count(party, PHASE_ENDING) || is_capturing(party))
		return POLL_ENDING_MS;
	if (!party->n_started && count(party, PHASE_READY) && start_by(party) < until)
		until = start_by(party);
	if (count(party, PHASE_CAPTURING) && now + LOOK_NS < until)
		until = now + LOOK_NS;
	return until <= now ? POLL_ENDING_MS : (int)((until - now) / VT_NS_PER_MS) + 1;
}

static struct vt_error *wait_for_news(struct party *party, struct pollfd *fds)
{
	int ms = time_to_wait_ms(party);
	struct timespec timeout = { .tv_sec = ms / 1000,
				    .tv_nsec = ms % 1000 * (long)VT_NS_PER_MS };

	for (size_t i = 0; i < party->n; i++)
		fds[i] = (struct pollfd){ .fd = party->workers[i].fd, .events = POLLIN };
	fds[party->n] = (struct pollfd){ .fd = party->phases.wake[0], .events = POLLIN };
	if (ppoll(fds, party->n + 1, &timeout, &party->mask) < 0) {
		if (errno != EINTR)
			return vt_error_create_os(errno, "cannot wait for the results");
		return NULL;
	}
	if (fds[party->n].revents)
		hear_all(party);
	for (size_t i = 0; i < party->n; i++)
		if (party->workers[i].fd >= 0 && fds[i].revents)
			read_worker(party, &party->workers[i]);
	return NULL;
}

/*
 * A worker that is itself stopped or frozen keeps its process stopped; killing it makes the kernel
 * release the process.
 */
static void end_those_that_hold(struct party *party)
{
	for (size_t i = 0; i < party->n; i++) {
		struct worker *worker = &party->workers[i];

		if (worker->phase == PHASE_CAPTURING &&
		    vt_deadline_passed(worker->capturing_ns + HOLDING_NS))
			end_worker(worker, SIGKILL, "its threads could not be read in time");
	}
}

/* The first request lets workers release what they hold; if they are killed, the kernel does it. */
static void end_if_due(struct party *party, uint64_t *killing_ns)
{
	if (*killing_ns) {
		if (vt_deadline_passed(*killing_ns))
			end_all(party, SIGKILL, NULL);
		/* A worker that hangs in the kernel ends when it returns from there. */
		for (size_t i = 0; i < party->n && vt_deadline_passed(*killing_ns + ENDING_NS); i++)
			finish(party, &party->workers[i], 0);
		return;
	}
	if (interrupted)
		end_all(party, SIGTERM, "vramtap was interrupted");
	else if (vt_deadline_passed(party->deadline_ns))
		end_all(party, SIGTERM, "the time was over before it was looked at (--timeout)");
	else
		return;
	*killing_ns = vt_now_ns() + ENDING_NS;
}

static struct vt_error *run(struct party *party)
{
	VT_FREE struct pollfd *fds = calloc(party->n + 1, sizeof(*fds));
	uint64_t killing_ns = 0;

	if (!fds)
		return &vt_enomem;
	while (count(party, PHASE_OVER) < party->n) {
		end_if_due(party, &killing_ns);
		end_those_that_hold(party);
		start_if_ready(party);
		give_processors(party);
		if (!is_starting(party) && !count(party, PHASE_CAPTURING))
			vt_triage_ras_go(party->ras);
		VT_TRY(wait_for_news(party, fds));
		reap(party);
	}
	return NULL;
}

/* A worker that limits on files and processes keep from starting now comes in the next turn. */
static void start_all(struct party *party, struct vt_suspect *suspects, int *status)
{
	size_t n_started = 0;

	for (size_t i = 0; i < party->n; i++) {
		struct worker *worker = &party->workers[i];

		*worker = (struct worker){
			.suspect = &suspects[i],
			.status = &status[i],
			.fd = -1,
			.errors = -1,
			.go = &party->latches[party->n_lots + i],
		};
		if (!interrupted && start_worker(party, worker)) {
			n_started++;
			continue;
		}
		if (!interrupted && n_started) {
			party->n = i;
			return;
		}
		worker->why = worker->why ? worker->why : "vramtap was interrupted";
		finish(party, worker, 0);
	}
}

/* A turn: as many processes as can be read together. */
static struct vt_error *take_turn(struct party *party, struct vt_suspect *suspects, int *status)
{
	size_t lot = LOT * party->n_processors, n_lots = (party->n + lot - 1) / lot,
	       n_latches = n_lots + party->n;
	VT_FREE struct worker *workers = calloc(party->n, sizeof(*workers));
	struct vt_error *err;

	party->latches = workers ? vt_latches_create(n_latches) : NULL;
	if (!party->latches)
		return &vt_enomem;
	if (!vt_phases_init(&party->phases, party->n)) {
		err = vt_error_create_os(errno, "cannot look at several processes");
		vt_latches_destroy(party->latches, n_latches);
		return err;
	}
	party->workers = workers;
	party->n_lots = n_lots;
	party->n_started = 0;
	party->begin_ns = party->last_ready_ns = vt_now_ns();
	start_all(party, suspects, status);
	err = run(party);
	if (err)
		end_all(party, SIGKILL, NULL);
	vt_phases_deinit(&party->phases);
	vt_latches_destroy(party->latches, n_latches);
	return err;
}

/* The user's signals arrive only while we wait; workers start with them blocked. */
static void catch_signals(struct sigaction *before, sigset_t *mask)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	struct sigaction action = { .sa_handler = on_interrupt };
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		sigaddset(&set, signals[i]);
		sigaction(signals[i], &action, &before[i]);
	}
	sigprocmask(SIG_BLOCK, &set, mask);
}

struct vt_error *vt_triage_collect(struct vt_suspects *suspects,
				   const struct vt_triage_options *options, struct vt_job *job,
				   int *status, int *signo)
{
	struct party party = {
		.options = options,
		.job = job,
		.n_processors = count_processors(),
		.deadline_ns = vt_now_ns() + options->timeout_ns,
	};
	struct sigaction before[4];
	struct vt_error *err = NULL;
	size_t at_once;

	at_once = allow_many_files();
	party.lines_memo = vt_lines_memo_create();
	interrupted = 0;
	catch_signals(before, &party.mask);
	party.ras = vt_triage_ras_start(suspects, options, party.deadline_ns);
	vt_progress("collecting from all processes");
	for (size_t first = 0; !err && first < suspects->list.n; first += party.n) {
		party.n = suspects->list.n - first < at_once ? suspects->list.n - first : at_once;
		err = take_turn(&party, &suspects->list.data[first], &status[first]);
	}
	vt_triage_ras_go(party.ras);
	vt_triage_ras_finish(party.ras, err || interrupted, &party.mask, &interrupted, job);
	vt_progress_end();
	sigaction(SIGINT, &before[0], NULL);
	sigaction(SIGTERM, &before[1], NULL);
	sigaction(SIGHUP, &before[2], NULL);
	sigaction(SIGQUIT, &before[3], NULL);
	sigprocmask(SIG_SETMASK, &party.mask, NULL);
	vt_lines_memo_destroy(party.lines_memo);
	*signo = interrupted;
	return err;
}
