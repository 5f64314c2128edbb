/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks NCCL's RAS, in a separate process beside the workers: it waits until all threads run again,
 * asks one process of each job, saves the answer in the directory, and sends what it understands of
 * it as the document of a job without members.
 */
#include "triage/ras.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/exit.h"
#include "base/progress.h"
#include "triage/latch.h"
#include "report/writer.h"
#include "job/json/json.h"
#include "job/ras/ras.h"

#define MAX_DOCUMENT ((size_t)64 << 20)
#define TIME_PART 4 /* of the time for all */
#define MAX_TIME_NS (15 * VT_NS_PER_S)
/*
 * RAS waits longer for other processes than it is told, and if its client disconnects before that,
 * it busy-loops until then: so it gets a larger part of a short time.
 */
#define MIN_TIME_NS (7 * VT_NS_PER_S)
#define LARGE_PART 2
#define READING_NS (2 * VT_NS_PER_S)   /* for reading an answer, after the time for getting it */
#define ENDING_NS (500 * VT_NS_PER_MS) /* to send what there is, or to end when killed */
#define MAX_ASKED 8                    /* jobs on one host */
#define SOON_NS (250 * VT_NS_PER_MS)   /* before it is asked again */
#define MAX_READ_NS (READING_NS / 4)   /* with more for an answer, no second question */

struct vt_triage_ras {
	pid_t pid;
	int fd;
	struct vt_latch *latch;
	uint64_t time_ns, deadline_ns;
};

/* A job that was asked. Its answers are in the document, by index. */
struct asked {
	const struct vt_ras_listener *listener;
	struct vt_ras_answer answer;  /* the last valid one */
	const struct vt_label *label; /* of the process that gave the first one; NULL unknown */
	size_t first, last;
	uint64_t took_ns; /* the first time */
	bool differs;     /* ranks may be behind only for a moment: worth asking again */
};

struct asking {
	const struct vt_suspects *suspects;
	const struct vt_triage_options *options;
	uint64_t deadline_ns;
	struct vt_job job;
	struct asked asked[MAX_ASKED];
	size_t n_asked;
};

static void note(struct vt_job *job, const char *why)
{
	vt_job_diag(job, VT_DIAG_NOTE, "ras", "NCCL's RAS was not asked: %s", why);
}

/* ---- the process that asks ---- */

/* Processes that were started together belong to one job. */
static bool is_same_job(const struct vt_label *a, const struct vt_label *b)
{
	return !strcmp(a->job, b->job) && a->world_size == b->world_size && a->ppid == b->ppid;
}

static bool was_asked(const struct asking *a, const struct vt_suspect *rank)
{
	for (size_t i = 0; i < a->n_asked; i++)
		if (is_same_job(&a->asked[i].listener->rank->label, &rank->label))
			return true;
	return a->n_asked == MAX_ASKED;
}

static const struct vt_label *label_of(const struct asking *a, pid_t pid)
{
	for (size_t i = 0; i < a->suspects->list.n; i++)
		if (a->suspects->list.data[i].label.pid == pid)
			return &a->suspects->list.data[i].label;
	return NULL;
}

/* Its file name in the directory, NULL if it cannot be saved. */
static const char *keep_answer(struct asking *a, const struct vt_ras_answer *answer, size_t nth)
{
	char number[24] = "";

	if (!a->options->directory)
		return NULL;
	if (nth)
		snprintf(number, sizeof(number), "-%zu", nth + 1);

	const char *form = answer->json ? "json" : "txt";
	const char *name = vt_triage_harmless(vt_arena_printf(&a->job.arena, "nccl-ras-%s%s.%s",
							      a->suspects->host, number, form));
	const char *path =
		name ? vt_arena_printf(&a->job.arena, "%s/%s", a->options->directory, name) : NULL;
	int fd = path ? open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
	VT_FCLOSE FILE *file = fd < 0 ? NULL : fdopen(fd, "w");

	if (!file || fwrite(answer->text.data, 1, answer->text.n, file) != answer->text.n ||
	    fflush(file)) {
		vt_job_diag(&a->job, VT_DIAG_NOTE, "ras",
			    "the answer of NCCL's RAS was not saved: %s", strerror(errno));
		return NULL;
	}
	return name;
}

/* Adds it to the document, as the last one. */
static bool add_answer(struct asking *a, const struct vt_ras_listener *listener,
		       const struct vt_ras_answer *answer)
{
	const struct vt_ras from = { .host = a->suspects->host,
				     .address = listener->name,
				     .pid = answer->pid,
				     .understood = answer->whole };

	return vt_job_add_ras(&a->job, &from, vt_str_get(&answer->text), answer->text.n);
}

static struct vt_error *ask(struct asking *a, const struct vt_ras_listener *listener)
{
	struct asked *asked = &a->asked[a->n_asked];
	uint64_t begin_ns = vt_now_ns(), read_ns;

	if (listener->foreign)
		return vt_error_create(VT_ERR_BUSY,
				       "%s is also listened on by a process outside this job",
				       listener->name);
	*asked =
		(struct asked){ .listener = listener, .first = a->job.ras.n, .last = a->job.ras.n };

	VT_ERROR struct vt_error *err =
		vt_ras_ask(a->suspects, listener, a->deadline_ns, &asked->answer);

	asked->took_ns = vt_now_ns() - begin_ns;
	if (!err && !add_answer(a, listener, &asked->answer))
		err = vt_error_create(VT_ERR_NOMEM, "not enough memory here");
	if (err) {
		vt_str_deinit(&asked->answer.text);
		return vt_steal(err);
	}
	read_ns = vt_now_ns() - begin_ns - asked->took_ns;
	asked->label = label_of(a, asked->answer.pid);
	asked->differs = asked->answer.whole && read_ns < MAX_READ_NS &&
			 vt_ras_differs(&a->job.ras.data[asked->first]);
	a->n_asked++;
	return NULL;
}

/* ---- asked again ---- */

/* About the same job, complete, and with as much content. */
static bool is_as_good(const struct asking *a, const struct asked *asked,
		       const struct vt_ras_answer *answer)
{
	const struct vt_ras *first = &a->job.ras.data[asked->first],
			    *next = &a->job.ras.data[a->job.ras.n - 1];
	const struct vt_label *label = label_of(a, answer->pid);

	return answer->whole && next->understood && next->communicators >= first->communicators &&
	       asked->label && label && is_same_job(label, asked->label);
}

/*
 * The new answer replaces the last one unless it is worse. RAS waits as long as it is told, and may
 * wait longer (vt_ras_least_ns()): with less time left it is not asked.
 */
static void repeat(struct asking *a, struct asked *asked)
{
	struct vt_ras_answer next = { 0 };
	uint64_t now = vt_now_ns(), own_ns = now + 2 * asked->took_ns + vt_ras_least_ns();

	asked->differs = false;
	if (own_ns > a->deadline_ns)
		return;

	VT_ERROR struct vt_error *err = vt_ras_ask(a->suspects, asked->listener, own_ns, &next);
	size_t had = a->job.ras.n;

	if (!err && add_answer(a, asked->listener, &next) && is_as_good(a, asked, &next)) {
		vt_str_deinit(&asked->answer.text);
		asked->answer = next;
		next = (struct vt_ras_answer){ 0 };
		asked->last = had;
		asked->differs = vt_ras_compare(&a->job.ras.data[asked->last],
						&a->job.ras.data[asked->first]);
	} else if (a->job.ras.n > had) {
		vt_job_drop_ras(&a->job, had);
	}
	vt_str_deinit(&next.text);
}

static bool any_differs(const struct asking *a)
{
	for (size_t i = 0; i < a->n_asked; i++)
		if (a->asked[i].differs)
			return true;
	return false;
}

/*
 * Running ranks always differ for a moment in the number of launched operations. So they are asked
 * again: soon, which is enough for most healthy jobs, and once more after VT_LATE_MS.
 */
static void ask_again(struct asking *a)
{
	static const uint64_t after_ns[] = { SOON_NS, VT_LATE_MS * VT_NS_PER_MS };
	uint64_t begin_ns = vt_now_ns();

	for (size_t k = 0; k < sizeof(after_ns) / sizeof(after_ns[0]) && any_differs(a); k++) {
		uint64_t now = vt_now_ns();

		if (begin_ns + after_ns[k] + vt_ras_least_ns() > a->deadline_ns)
			return;
		if (begin_ns + after_ns[k] > now)
			vt_sleep_ns(begin_ns + after_ns[k] - now);
		for (size_t i = 0; i < a->n_asked; i++)
			if (a->asked[i].differs)
				repeat(a, &a->asked[i]);
	}
}

static bool is_last(const struct asking *a, size_t index)
{
	for (size_t i = 0; i < a->n_asked; i++)
		if (a->asked[i].last == index)
			return true;
	return false;
}

/* The last answer of each job stays, and is saved. */
static void settle(struct asking *a)
{
	for (size_t i = 0; i < a->n_asked; i++) {
		struct asked *asked = &a->asked[i];

		if (!asked->answer.whole)
			vt_job_diag(&a->job, VT_DIAG_NOTE, "ras",
				    "the answer of NCCL's RAS at %s is incomplete",
				    asked->listener->name);
		a->job.ras.data[asked->last].file = keep_answer(a, &asked->answer, i);
		vt_str_deinit(&asked->answer.text);
	}
	for (size_t k = a->job.ras.n; k-- > 0;)
		if (!is_last(a, k))
			vt_job_drop_ras(&a->job, k);
}

static const char *why_nobody(const struct vt_ras_listeners *listeners)
{
	if (listeners->n_hidden == listeners->n_ranks)
		return "not permitted to see which sockets the ranks listen on";
	if (listeners->n_off == listeners->n_ranks)
		return "it is turned off (NCCL_RAS_ENABLE=0)";
	return "no rank listens (RAS needs NCCL 2.24 or later, and starts with the first communicator)";
}

static void ask_all(struct asking *a)
{
	VT_CLEANUP(vt_ras_listeners_deinit) struct vt_ras_listeners listeners = { 0 };
	VT_ERROR struct vt_error *err = vt_ras_find(a->suspects, &listeners);

	if (err)
		note(&a->job, err->message);
	else if (listeners.n_ranks && !listeners.list.n)
		note(&a->job, why_nobody(&listeners));
	for (size_t i = 0; i < listeners.list.n; i++) {
		VT_ERROR struct vt_error *failed = was_asked(a, listeners.list.data[i].rank) ?
							   NULL :
							   ask(a, &listeners.list.data[i]);

		if (failed)
			vt_job_diag(&a->job, VT_DIAG_NOTE, "ras", "NCCL's RAS did not answer: %s",
				    failed->message);
	}
	ask_again(a);
	settle(a);
}

_Noreturn static void work(const struct vt_suspects *suspects,
			   const struct vt_triage_options *options, const struct vt_triage_ras *ras,
			   pid_t parent, int out)
{
	static const struct vt_writer_options plain = { 0 };
	struct asking a = { .suspects = suspects, .options = options };
	struct vt_error *err;
	FILE *file;

	if (!vt_triage_settle_in(options, parent, -1) ||
	    !vt_latch_wait(ras->latch, ras->deadline_ns))
		_exit(VT_EXIT_NOTHING);
	a.deadline_ns = vt_now_ns() + ras->time_ns;
	if (a.deadline_ns > ras->deadline_ns - ENDING_NS)
		a.deadline_ns = ras->deadline_ns - ENDING_NS;
	vt_job_init(&a.job);
	ask_all(&a);
	file = fdopen(out, "w");
	err = file ? vt_write_job_json(&a.job, &plain, file) : &vt_enomem;
	_exit(err || fclose(file) ? VT_EXIT_NOTHING : VT_EXIT_COMPLETE);
}

/* ---- for the parent ---- */

static void destroy(struct vt_triage_ras *ras)
{
	if (ras->fd >= 0)
		close(ras->fd);
	vt_latches_destroy(ras->latch, 1);
	free(ras);
}

static uint64_t time_for(uint64_t all_ns)
{
	uint64_t part = all_ns / TIME_PART, large = all_ns / LARGE_PART;

	if (part >= MIN_TIME_NS)
		return part < MAX_TIME_NS ? part : MAX_TIME_NS;
	return large < MIN_TIME_NS ? large : MIN_TIME_NS;
}

struct vt_triage_ras *vt_triage_ras_start(const struct vt_suspects *suspects,
					  const struct vt_triage_options *options,
					  uint64_t deadline_ns)
{
	struct vt_triage_ras *ras = options->ras ? calloc(1, sizeof(*ras)) : NULL;
	pid_t parent = getpid();
	int pipes[2];

	if (!ras)
		return NULL;
	ras->fd = -1;
	ras->deadline_ns = deadline_ns;
	ras->time_ns = time_for(options->timeout_ns);
	ras->latch = vt_latches_create(1);
	if (!ras->latch || pipe2(pipes, O_CLOEXEC)) {
		destroy(ras);
		return NULL;
	}
	ras->fd = pipes[0];
	ras->pid = fork();
	if (ras->pid == 0) {
		close(pipes[0]);
		work(suspects, options, ras, parent, pipes[1]);
	}
	close(pipes[1]);
	if (ras->pid > 0)
		return ras;
	destroy(ras);
	return NULL;
}

void vt_triage_ras_go(struct vt_triage_ras *ras)
{
	if (ras && !vt_latch_is_open(ras->latch))
		vt_latch_open(ras->latch);
}

/* It writes, or ends, when it has all answers. */
bool vt_triage_ras_is_over(const struct vt_triage_ras *ras)
{
	struct pollfd fd = { .fd = ras ? ras->fd : -1, .events = POLLIN };

	return !ras || poll(&fd, 1, 0) > 0;
}

/* Reads to the end of its document; false if there is no end in time. */
static bool hear(const struct vt_triage_ras *ras, const sigset_t *mask,
		 const volatile sig_atomic_t *interrupted, struct vt_str *text)
{
	uint64_t own_ns = ras->latch->opened_ns + ras->time_ns + READING_NS;
	uint64_t until = own_ns < ras->deadline_ns ? own_ns : ras->deadline_ns;
	struct pollfd fd = { .fd = ras->fd, .events = POLLIN };
	char buf[65536];

	while (text->n < MAX_DOCUMENT && !text->failed) {
		uint64_t now = vt_now_ns(), left = now < until ? until - now : 0;
		struct timespec timeout = { .tv_sec = (time_t)(left / VT_NS_PER_S),
					    .tv_nsec = (long)(left % VT_NS_PER_S) };
		ssize_t n;

		int ready = ppoll(&fd, 1, &timeout, mask);

		/* Other signals are no request to stop: SIGALRM of the progress display. */
		if (ready < 0 && errno == EINTR && !*interrupted)
			continue;
		if (ready <= 0)
			return false;
		n = read(ras->fd, buf, sizeof(buf));
		if (n <= 0)
			return n == 0;
		vt_str_addn(text, buf, (size_t)n);
	}
	return false;
}

/* It has read bytes from hostile processes, and speaks for RAS only. */
static bool add_document(const struct vt_str *text, struct vt_job *job)
{
	const char *document = vt_str_get(text);
	VT_CLEANUP(vt_job_deinit) struct vt_job own;
	VT_ERROR struct vt_error *err = NULL;

	vt_job_init(&own);
	err = vt_job_load_text(&own, document, text->n, "");
	if (err || own.members.n)
		return false;
	err = vt_job_load_text(job, document, text->n, "");
	return !err;
}

/* A process that hangs in the kernel ends when it returns from there. */
static void end(const struct vt_triage_ras *ras)
{
	uint64_t until = vt_now_ns() + ENDING_NS;

	kill(ras->pid, SIGKILL);
	while (waitpid(ras->pid, NULL, WNOHANG) == 0 && !vt_deadline_passed(until))
		vt_sleep_ns(VT_NS_PER_MS);
}

void vt_triage_ras_finish(struct vt_triage_ras *ras, bool give_up, const sigset_t *mask,
			  const volatile sig_atomic_t *interrupted, struct vt_job *job)
{
	struct vt_str text = { 0 };

	if (!ras)
		return;
	vt_progress("waiting for NCCL's RAS");
	if (give_up || !hear(ras, mask, interrupted, &text) || !add_document(&text, job))
		note(job, give_up || *interrupted ? "vramtap was interrupted" :
						    "that took too long, or failed");
	end(ras);
	vt_str_deinit(&text);
	destroy(ras);
}
