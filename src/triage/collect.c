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
#include "base/ends.h"
#include "base/str.h"
#include "base/exit.h"
#include "base/progress.h"
#include "collect/faults_job.h"
#include "collect/usage.h"
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
#define MAX_PAGES ((size_t)128 << 20)   /* bytes of reports for a page, all together */
#define PATIENCE_NS (2 * VT_NS_PER_S)   /* prepared workers wait this long for the next one */
#define PATIENCE_PART 4                 /* but never longer than this part of the time for all */
#define ENDING_NS (500 * VT_NS_PER_MS)  /* for a killed worker to end: it may be in the kernel */
#define UNDISTURBED_NS (200 * VT_NS_PER_MS) /* for capturing, before names are resolved */
#define HOLDING_NS (12 * VT_NS_PER_S)       /* to hold a process: a watchdog ends it after 10 s */
#define OWNERS_PART 2                       /* of the time for all: then none looks for owners */
#define LOOK_NS (1 * VT_NS_PER_S)           /* the interval of that check */
#define POLL_ENDING_MS 2
#define MAX_ASKING 32               /* debuggers at once; no machine has more devices */
#define ASKING_PART 2               /* of the time for all: then they ask, whatever others do */
#define TURN_NS (20 * VT_NS_PER_MS) /* the interval of looks whether they may */
#define USAGE_NS \
	(500 * VT_NS_PER_MS) /* after all else: NVML has had the time for its first answer */

enum phase {
	PHASE_PREPARING,
	PHASE_READY, /* waits at the start */
	PHASE_CAPTURING,
	PHASE_READ, /* waits for a processor */
	PHASE_WORKING,
	PHASE_WAITING, /* for another worker; will end soon */
	PHASE_TO_ASK,  /* the CUDA debugger: it waits until that disturbs nobody */
	PHASE_ASKING,
	PHASE_ENDING, /* its pipe is closed */
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
	struct vt_latch *go, *ask;
	uint64_t capturing_ns; /* PHASE_CAPTURING: its begin */
	uint64_t end_ns;       /* PHASE_ENDING: the end of the wait for it */
	struct vt_str document;
	const char *why; /* ours: why it was ended; NULL it ended by itself */
};

struct workers {
	const struct vt_triage_options *options;
	struct vt_lines_memo *lines_memo; /* NULL none */
	struct vt_fault_log *fault_log;   /* the same */
	struct vt_job *job;
	struct worker *list;
	size_t n;
	struct vt_latch *latches; /* the start of each lot, and two for each worker */
	size_t n_lots, n_started; /* lots */
	struct vt_phases phases;
	struct vt_triage_ras *ras; /* NULL: RAS is not asked */
	struct vt_usage *asker;    /* NULL none; after RAS, whose process has nothing of it */
	size_t n_processors;
	unsigned int n_with_owners;
	uint64_t begin_ns, deadline_ns, owners_until_ns;
	uint64_t last_ready_ns; /* the last progress before the start */
	size_t n_pages;         /* bytes of all vt_member.page */
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
static struct vt_latch *start_of(const struct workers *workers, const struct worker *worker)
{
	return &workers->latches[(size_t)(worker - workers->list) / (LOT * workers->n_processors)];
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
static _Noreturn void be_worker(struct workers *workers, const struct worker *worker,
				const struct vt_worker_setup *setup)
{
	for (size_t i = 0; i <= setup->number; i++)
		close_pipes(&workers->list[i]);
	close(workers->phases.wake[0]);
	vt_usage_forget(workers->asker);
	vt_triage_work(worker->suspect, workers->options, setup);
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
static bool start_worker(struct workers *workers, struct worker *worker)
{
	struct vt_worker_setup setup = {
		.parent = getpid(),
		.start = start_of(workers, worker),
		.go = worker->go,
		.ask = worker->ask,
		.deadline_ns = workers->deadline_ns,
		.owners_until_ns = workers->owners_until_ns,
		.at_once = workers->n_with_owners,
		.lines_memo = workers->lines_memo,
		.fault_log = workers->fault_log,
		.phases = &workers->phases,
		.number = (size_t)(worker - workers->list),
	};

	/* Its standard error is read only after its end, so writes must not block. */
	setup.out = open_pipe(0, &worker->fd);
	setup.errors = setup.out < 0 ? -1 : open_pipe(O_NONBLOCK, &worker->errors);
	worker->pid = setup.errors < 0 ? -1 : fork();
	if (worker->pid == 0)
		be_worker(workers, worker, &setup);
	if (worker->pid < 0)
		worker->why = setup.errors < 0 ? "vramtap has too many open files" :
						 "vramtap could not start a process for it";
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

static size_t count(const struct workers *workers, enum phase phase)
{
	size_t n = 0;

	for (size_t i = 0; i < workers->n; i++)
		n += workers->list[i].phase == phase;
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
static void hear(struct workers *workers, struct worker *worker)
{
	if (worker->said == VT_PHASE_READY && worker->phase == PHASE_PREPARING) {
		worker->phase = PHASE_READY;
		if (vt_latch_is_open(start_of(workers, worker)))
			begin_capturing(worker);
		workers->last_ready_ns = vt_now_ns();
	} else if (worker->said == VT_PHASE_READ) {
		worker->phase = PHASE_READ;
	} else if (worker->said == VT_PHASE_WAITS && worker->phase == PHASE_WORKING) {
		worker->phase = PHASE_WAITING;
	} else if (worker->said == VT_PHASE_ASKS) {
		worker->phase = PHASE_TO_ASK;
	}
}

static void hear_all(struct workers *workers)
{
	vt_phases_woken(&workers->phases);
	for (size_t i = 0; i < workers->n; i++) {
		struct worker *worker = &workers->list[i];
		uint32_t said = vt_phase_of(&workers->phases, i);

		if (worker->phase >= PHASE_ENDING || said == worker->said)
			continue;
		worker->said = said;
		hear(workers, worker);
	}
}

static void read_worker(struct workers *workers, struct worker *worker)
{
	char buf[65536];
	ssize_t n;

	while ((n = read(worker->fd, buf, sizeof(buf))) > 0) {
		vt_str_addn(&worker->document, buf, (size_t)n);
		if (worker->document.n > MAX_DOCUMENT || worker->document.failed)
			end_worker(worker, SIGKILL, "its result is too large");
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	close(worker->fd);
	worker->fd = -1;
	worker->phase = PHASE_ENDING;
	worker->end_ns = vt_now_ns() + ENDING_NS;
	workers->last_ready_ns = vt_now_ns();
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
		snprintf(buf, size, "reading it takes too long");
	else if (WIFSIGNALED(wait_status))
		snprintf(buf, size, "vramtap's process for it was killed by signal %d (%s)",
			 WTERMSIG(wait_status), strsignal(WTERMSIG(wait_status)));
	else if (!last_words(worker, buf, size))
		snprintf(buf, size, "vramtap's process for it exited with status %d",
			 WEXITSTATUS(wait_status));
	return buf;
}

/* The member that was added last. */
static struct vt_member *last_of(struct vt_job *job)
{
	return &job->members.data[job->members.n - 1];
}

/* For the page of the job: of the last member. */
static void keep_page(struct workers *workers, const char *text, size_t n)
{
	struct vt_job *job = workers->job;

	if (!workers->options->page || n > MAX_PAGES - workers->n_pages)
		return;
	workers->n_pages += n;
	vt_str_addn(&last_of(job)->page, text, n);
}

/*
 * A hostile process may have taken over the worker that read it: the worker speaks for that process
 * only.
 */
static bool add_document(struct workers *workers, const struct worker *worker, bool is_whole)
{
	const struct vt_suspect *suspect = worker->suspect;
	const char *text = vt_str_get(&worker->document);
	size_t n = worker->document.n, n_member = strnlen(text, n);
	VT_ERROR struct vt_error *err = vt_job_load_one(workers->job, text, n_member,
							suspect->core ? 0 : suspect->label.pid);

	if (!err && n_member < n && is_whole)
		keep_page(workers, text + n_member + 1, n - n_member - 1);
	return !err;
}

/*
 * A worker that has sent its whole member may be ended after that: a process with much memory can
 * take longer to end than anybody waits. An incomplete member is not JSON; whether the page behind
 * it is whole cannot be told.
 */
static void finish(struct workers *workers, struct worker *worker, int wait_status)
{
	bool by_itself = WIFEXITED(wait_status) && !worker->why;
	char buf[256];

	if (worker->phase == PHASE_OVER)
		return;
	if (worker->phase == PHASE_ENDING && worker->document.n <= MAX_DOCUMENT &&
	    !worker->document.failed && add_document(workers, worker, by_itself)) {
		*worker->status = by_itself ? WEXITSTATUS(wait_status) :
					      (int)last_of(workers->job)->completeness;
	} else {
		*worker->status = VT_EXIT_NOTHING;
		(void)vt_job_add(workers->job, &worker->suspect->label, NULL,
				 why_nothing(worker, wait_status, buf, sizeof(buf)));
	}
	worker->phase = PHASE_OVER;
	close_pipes(worker);
	vt_str_deinit(&worker->document);
}

static void reap(struct workers *workers)
{
	for (size_t i = 0; i < workers->n; i++) {
		struct worker *worker = &workers->list[i];
		int status = 0;

		if (worker->phase != PHASE_ENDING)
			continue;
		if (waitpid(worker->pid, &status, WNOHANG) != 0)
			finish(workers, worker, status);
		else if (vt_deadline_passed(worker->end_ns))
			end_worker(worker, SIGKILL, "vramtap's process for it does not end");
		if (worker->phase == PHASE_ENDING && vt_deadline_passed(worker->end_ns + ENDING_NS))
			finish(workers, worker, 0); /* it hangs in the kernel, and ends there */
	}
}

/* ---- next steps ---- */

static uint64_t patience(const struct workers *workers)
{
	uint64_t part = workers->options->timeout_ns / PATIENCE_PART;

	return part < PATIENCE_NS ? part : PATIENCE_NS;
}

/*
 * When the ready workers start without the missing ones. Each new one extends the time for the
 * rest, up to a limit.
 */
static uint64_t start_by(const struct workers *workers)
{
	uint64_t for_next = workers->last_ready_ns + patience(workers);
	uint64_t for_all = workers->begin_ns + workers->options->timeout_ns / PATIENCE_PART;

	return for_next < for_all ? for_next : for_all;
}

static void start_lot(struct workers *workers)
{
	struct vt_latch *start = &workers->latches[workers->n_started++];

	vt_latch_open(start);
	for (size_t i = 0; i < workers->n; i++)
		if (workers->list[i].phase == PHASE_READY &&
		    start_of(workers, &workers->list[i]) == start)
			begin_capturing(&workers->list[i]);
}

static bool is_lot_over(const struct workers *workers)
{
	return !count(workers, PHASE_CAPTURING) ||
	       vt_deadline_passed(workers->latches[workers->n_started - 1].opened_ns + LOT_NS);
}

/*
 * All workers are prepared before the first lot starts; late ones go alone. A process stays stopped
 * while others are read beside it: stopping all processes of a large job at once would take too
 * long.
 */
static void start_if_ready(struct workers *workers)
{
	if (!workers->n_started &&
	    (!count(workers, PHASE_READY) ||
	     (count(workers, PHASE_PREPARING) && !vt_deadline_passed(start_by(workers)))))
		return;
	while (workers->n_started < workers->n_lots &&
	       (!workers->n_started || is_lot_over(workers)))
		start_lot(workers);
}

static bool is_starting(const struct workers *workers)
{
	return workers->n_started < workers->n_lots &&
	       count(workers, PHASE_PREPARING) + count(workers, PHASE_READY);
}

static bool is_capturing(const struct workers *workers)
{
	return count(workers, PHASE_CAPTURING) &&
	       !vt_deadline_passed(
		       workers->latches[workers->n_started ? workers->n_started - 1 : 0].opened_ns +
		       UNDISTURBED_NS);
}

/*
 * Resolving names takes processor time and memory (the symbols of PyTorch's libraries), so at most
 * one worker per processor does it; and none before the start, or while others still hold their
 * processes, unless those hang.
 */
static void give_processors(struct workers *workers)
{
	size_t working = count(workers, PHASE_WORKING);

	if (is_starting(workers) || is_capturing(workers))
		return;
	for (size_t i = 0; i < workers->n && working < workers->n_processors; i++) {
		struct worker *worker = &workers->list[i];

		if (worker->phase != PHASE_READ)
			continue;
		worker->phase = PHASE_WORKING;
		vt_latch_open(worker->go);
		working++;
	}
}

/* Before they wait for one that hangs in vain, and for RAS. */
static uint64_t ask_by(const struct workers *workers)
{
	return workers->begin_ns + workers->options->timeout_ns / ASKING_PART;
}

static bool is_any_read(const struct workers *workers)
{
	for (size_t i = 0; i < workers->n; i++)
		if (workers->list[i].phase < PHASE_TO_ASK)
			return true;
	return false;
}

/*
 * The debugger holds a process for seconds: first all are read, and RAS has its answers from them.
 * Then all are held at the same time, which is best for ranks that wait for each other.
 */
static void let_ask(struct workers *workers)
{
	size_t asking = count(workers, PHASE_ASKING);

	if (!count(workers, PHASE_TO_ASK))
		return;
	if ((is_any_read(workers) || !vt_triage_ras_is_over(workers->ras)) &&
	    !vt_deadline_passed(ask_by(workers)))
		return;
	vt_progress("asking the CUDA debugger");
	for (size_t i = 0; i < workers->n && asking < MAX_ASKING; i++) {
		struct worker *worker = &workers->list[i];

		if (worker->phase != PHASE_TO_ASK)
			continue;
		worker->phase = PHASE_ASKING;
		vt_latch_open(worker->ask);
		asking++;
	}
}

static void end_all(struct workers *workers, int signo, const char *why)
{
	for (size_t i = 0; i < workers->n; i++)
		end_worker(&workers->list[i], signo, why);
}

static int time_to_wait_ms(const struct workers *workers)
{
	uint64_t now = vt_now_ns(), until = workers->deadline_ns;

	if (count(workers, PHASE_ENDING) || is_capturing(workers))
		return POLL_ENDING_MS;
	if (!workers->n_started && count(workers, PHASE_READY) && start_by(workers) < until)
		until = start_by(workers);
	if (count(workers, PHASE_CAPTURING) && now + LOOK_NS < until)
		until = now + LOOK_NS;
	if (count(workers, PHASE_TO_ASK) && now + TURN_NS < until)
		until = now + TURN_NS;
	return until <= now ? POLL_ENDING_MS : (int)((until - now) / VT_NS_PER_MS) + 1;
}

static struct vt_error *wait_for_news(struct workers *workers, struct pollfd *fds)
{
	int ms = time_to_wait_ms(workers);
	struct timespec timeout = { .tv_sec = ms / 1000,
				    .tv_nsec = ms % 1000 * (long)VT_NS_PER_MS };

	for (size_t i = 0; i < workers->n; i++)
		fds[i] = (struct pollfd){ .fd = workers->list[i].fd, .events = POLLIN };
	fds[workers->n] = (struct pollfd){ .fd = workers->phases.wake[0], .events = POLLIN };
	if (ppoll(fds, workers->n + 1, &timeout, &workers->mask) < 0) {
		if (errno != EINTR)
			return vt_error_create_os(errno, "cannot wait for the results");
		return NULL;
	}
	if (fds[workers->n].revents)
		hear_all(workers);
	for (size_t i = 0; i < workers->n; i++)
		if (workers->list[i].fd >= 0 && fds[i].revents)
			read_worker(workers, &workers->list[i]);
	return NULL;
}

/*
 * A worker that is itself stopped or frozen keeps its process stopped; killing it makes the kernel
 * release the process.
 */
static void end_those_that_hold(struct workers *workers)
{
	for (size_t i = 0; i < workers->n; i++) {
		struct worker *worker = &workers->list[i];

		if (worker->phase == PHASE_CAPTURING &&
		    vt_deadline_passed(worker->capturing_ns + HOLDING_NS))
			end_worker(worker, SIGKILL, "its threads could not be read in time");
	}
}

/* The first request lets workers release what they hold; if they are killed, the kernel does it. */
static void end_if_due(struct workers *workers, uint64_t *killing_ns)
{
	if (*killing_ns) {
		if (vt_deadline_passed(*killing_ns))
			end_all(workers, SIGKILL, NULL);
		/* A worker that hangs in the kernel ends when it returns from there. */
		for (size_t i = 0; i < workers->n && vt_deadline_passed(*killing_ns + ENDING_NS);
		     i++)
			finish(workers, &workers->list[i], 0);
		return;
	}
	if (interrupted)
		end_all(workers, SIGTERM, "vramtap was interrupted");
	else if (vt_deadline_passed(workers->deadline_ns))
		end_all(workers, SIGTERM, "the time (--timeout) ran out before it was read");
	else
		return;
	*killing_ns = vt_now_ns() + ENDING_NS;
}

static struct vt_error *run(struct workers *workers)
{
	VT_FREE struct pollfd *fds = calloc(workers->n + 1, sizeof(*fds));
	uint64_t killing_ns = 0;

	if (!fds)
		return &vt_enomem;
	while (count(workers, PHASE_OVER) < workers->n) {
		end_if_due(workers, &killing_ns);
		end_those_that_hold(workers);
		start_if_ready(workers);
		give_processors(workers);
		if (!is_starting(workers) && !count(workers, PHASE_CAPTURING))
			vt_triage_ras_go(workers->ras);
		let_ask(workers);
		VT_TRY(wait_for_news(workers, fds));
		reap(workers);
	}
	return NULL;
}

/* A worker that limits on files and processes keep from starting now comes in the next turn. */
static void start_all(struct workers *workers, struct vt_suspect *suspects, int *status)
{
	size_t n_started = 0;

	for (size_t i = 0; i < workers->n; i++) {
		struct worker *worker = &workers->list[i];

		*worker = (struct worker){
			.suspect = &suspects[i],
			.status = &status[i],
			.fd = -1,
			.errors = -1,
			.go = &workers->latches[workers->n_lots + 2 * i],
			.ask = &workers->latches[workers->n_lots + 2 * i + 1],
		};
		if (!interrupted && start_worker(workers, worker)) {
			n_started++;
			continue;
		}
		if (!interrupted && n_started) {
			workers->n = i;
			return;
		}
		worker->why = worker->why ? worker->why : "vramtap was interrupted";
		finish(workers, worker, 0);
	}
}

static unsigned int count_with_owners(const struct vt_suspect *suspects, size_t n)
{
	unsigned int count = 0;

	for (size_t i = 0; i < n; i++)
		count += vt_triage_has_owners(&suspects[i]);
	return count ? count : 1;
}

/* A turn: as many processes as can be read together. */
static struct vt_error *take_turn(struct workers *workers, struct vt_suspect *suspects, int *status)
{
	size_t lot = LOT * workers->n_processors, n_lots = (workers->n + lot - 1) / lot,
	       n_latches = n_lots + 2 * workers->n;
	VT_FREE struct worker *list = calloc(workers->n, sizeof(*list));
	struct vt_error *err;

	workers->latches = list ? vt_latches_create(n_latches) : NULL;
	if (!workers->latches)
		return &vt_enomem;
	if (!vt_phases_init(&workers->phases, workers->n)) {
		err = vt_error_create_os(errno, "cannot read several processes");
		vt_latches_destroy(workers->latches, n_latches);
		return err;
	}
	workers->list = list;
	workers->n_with_owners = count_with_owners(suspects, workers->n);
	workers->n_lots = n_lots;
	workers->n_started = 0;
	workers->begin_ns = workers->last_ready_ns = vt_now_ns();
	start_all(workers, suspects, status);
	err = run(workers);
	if (err)
		end_all(workers, SIGKILL, NULL);
	vt_phases_deinit(&workers->phases);
	vt_latches_destroy(workers->latches, n_latches);
	return err;
}

/* The user's signals arrive only while we wait; workers start with them blocked. */
static void catch_signals(struct sigaction *before, sigset_t *mask)
{
	sigset_t set;

	vt_ends_fill(&set);
	vt_ends_handle(on_interrupt, before);
	sigprocmask(SIG_BLOCK, &set, mask);
}

/* ---- who uses the devices ---- */

/* Those that the processes have open; a question would wake others up. */
static struct vt_usage *start_usage(const struct vt_suspects *suspects)
{
	uint64_t minors = 0;
	bool any = false;

	for (size_t i = 0; i < suspects->list.n; i++) {
		minors |= suspects->list.data[i].devices;
		any = any || (suspects->list.data[i].uses_gpu && !suspects->list.data[i].core);
	}
	return any ? vt_usage_start(minors, true) : NULL;
}

/* Once for all processes of the job. */
static void find_faults(const struct vt_suspects *suspects, const struct vt_fault_log *log,
			const struct vt_model_usage *usage, struct vt_job *job,
			struct vt_model_faults *faults)
{
	struct vt_fault_party *parties = calloc(suspects->list.n + 1, sizeof(*parties));
	size_t n = 0;

	for (size_t i = 0; i < suspects->list.n && parties; i++) {
		const struct vt_suspect *s = &suspects->list.data[i];

		if (s->uses_gpu && s->label.in_job && !s->core && s->label.start_ticks)
			parties[n++] =
				(struct vt_fault_party){ .pid = s->label.pid,
							 .start_ticks = s->label.start_ticks };
	}
	vt_collect_faults_of_job(parties, n, log, usage, &job->arena, faults);
	free(parties);
}

/* Once for all processes: the workers do not ask. The second answer is of the end. */
static void finish_usage(struct vt_usage *asker, const struct vt_suspects *suspects,
			 const struct vt_fault_log *log, struct vt_job *job)
{
	uint64_t deadline_ns = vt_now_ns() + USAGE_NS;
	struct vt_model_usage usage = { 0 };
	struct vt_model_faults faults = { .why = "" };
	struct vt_usage_reading first = { 0 };

	if (!asker)
		return;
	vt_usage_take(asker, deadline_ns, &first);
	if (first.outcome == VT_USAGE_COMPLETE && !first.state) {
		vt_usage_ask(asker);
		vt_collect_count(asker, deadline_ns, &first, 0, &job->arena, &usage);
	} else {
		vt_collect_count_none(&first, &job->arena, &usage);
	}
	if (usage.state == VT_COUNTED_LATE || usage.state == VT_COUNTED_REFUSED)
		vt_job_diag(job, VT_DIAG_NOTE, "usage-unknown",
			    "who else uses the devices is not known: %s", usage.why);
	find_faults(suspects, log, &usage, job, &faults);
	(void)vt_job_add_usage(job, suspects->host, suspects->system, &usage, &faults);
	vt_usage_reading_deinit(&first);
	vt_usage_stop(asker);
}

struct vt_error *vt_triage_collect(struct vt_suspects *suspects,
				   const struct vt_triage_options *options, struct vt_job *job,
				   int *status, int *signo)
{
	struct workers workers = {
		.options = options,
		.job = job,
		.n_processors = count_processors(),
		.deadline_ns = vt_now_ns() + options->timeout_ns,
		.owners_until_ns = vt_now_ns() + options->timeout_ns / OWNERS_PART,
	};
	struct sigaction before[VT_N_ENDS];
	struct vt_error *err = NULL;
	size_t at_once;

	at_once = allow_many_files();
	workers.lines_memo = vt_lines_memo_create();
	workers.fault_log = vt_fault_log_create();
	interrupted = 0;
	catch_signals(before, &workers.mask);
	workers.ras = vt_triage_ras_start(suspects, options, workers.deadline_ns);
	workers.asker = start_usage(suspects);
	vt_progress("collecting from all processes");
	for (size_t first = 0; !err && first < suspects->list.n; first += workers.n) {
		workers.n = suspects->list.n - first < at_once ? suspects->list.n - first : at_once;
		err = take_turn(&workers, &suspects->list.data[first], &status[first]);
	}
	vt_triage_ras_go(workers.ras);
	vt_triage_ras_finish(workers.ras, err || interrupted, &workers.mask, &interrupted, job);
	finish_usage(workers.asker, suspects, workers.fault_log, job);
	vt_progress_end();
	vt_ends_restore(before);
	sigprocmask(SIG_SETMASK, &workers.mask, NULL);
	vt_lines_memo_destroy(workers.lines_memo);
	vt_fault_log_destroy(workers.fault_log);
	*signo = interrupted;
	return err;
}
