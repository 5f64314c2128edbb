/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking NCCL's RAS, in a process of its own beside the workers: it waits until all threads run again, asks one process of
 * each job, keeps the words in the directory, and sends what it understands of them as the document of a job without members.
 */
#include "cmd/triage_ras.h"

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
#include "cmd/cmd.h"
#include "cmd/triage_gate.h"
#include "report/writer.h"

#define MAX_DOCUMENT ((size_t)64 << 20)
#define TIME_PART 4                       /* of the time for all */
#define MAX_TIME_NS (15 * VT_NS_PER_S)
/*
 * RAS waits longer for other processes than it is told, and runs in a loop, until it has waited, when its client goes away meanwhile: so
 * it gets more of a short time.
 */
#define MIN_TIME_NS (7 * VT_NS_PER_S)
#define LARGE_PART 2
#define READING_NS (2 * VT_NS_PER_S)      /* for reading an answer, after the time for getting it */
#define ENDING_NS (500 * VT_NS_PER_MS)    /* for saying what there is, or for being gone when it is killed */
#define MAX_ASKED 8                       /* jobs on one host */
#define SOON_NS (250 * VT_NS_PER_MS)      /* before it is asked again */
#define AGAIN_TIMES 2                     /* as long as the first time, if need be, */
#define AGAIN_SPARE_NS (500 * VT_NS_PER_MS) /* and that */

struct vt_triage_ras {
	pid_t pid;
	int fd;
	struct vt_gate *gate;
	uint64_t time_ns, deadline_ns;
};

struct asking {
	const struct vt_suspects *suspects;
	const struct vt_triage_options *options;
	uint64_t deadline_ns;
	struct vt_job job;
	const struct vt_suspect *asked[MAX_ASKED];
	size_t n_asked;
};

static void note(struct vt_job *job, const char *why)
{
	vt_job_diag(job, VT_DIAG_NOTE, "ras", "NCCL's RAS was not asked: %s", why);
}

/* ---- the process that asks ---- */

/* What was started together is of one job. */
static bool is_same_job(const struct vt_label *a, const struct vt_label *b)
{
	return !strcmp(a->job, b->job) && a->world_size == b->world_size && a->ppid == b->ppid;
}

static bool was_asked(const struct asking *a, const struct vt_suspect *rank)
{
	for (size_t i = 0; i < a->n_asked; i++)
		if (is_same_job(&a->asked[i]->label, &rank->label))
			return true;
	return a->n_asked == MAX_ASKED;
}

/* The name that it gets in the directory, NULL when it cannot be kept there. */
static const char *keep(struct asking *a, const struct vt_ras_answer *answer)
{
	char number[16] = "";

	if (a->n_asked)
		snprintf(number, sizeof(number), "-%zu", a->n_asked + 1);

	const char *form = answer->json ? "json" : "txt";
	const char *name = vt_triage_harmless(vt_arena_printf(&a->job.arena, "nccl-ras-%s%s.%s", a->suspects->host, number, form));
	const char *path = name ? vt_arena_printf(&a->job.arena, "%s/%s", a->options->directory, name) : NULL;
	int fd = path ? open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
	VT_FCLOSE FILE *file = fd < 0 ? NULL : fdopen(fd, "w");

	if (!file || fwrite(answer->text.data, 1, answer->text.n, file) != answer->text.n || fflush(file)) {
		vt_job_diag(&a->job, VT_DIAG_NOTE, "ras", "what NCCL's RAS said is not saved: %s", strerror(errno));
		return NULL;
	}
	return name;
}

/* Into job, as the last one. */
static struct vt_error *add_answer(struct vt_job *job, const struct asking *a, const struct vt_ras_place *place,
				   const struct vt_ras_answer *answer, const char *file)
{
	struct vt_ras asked = {
		.host = a->suspects->host, .address = place->name, .pid = answer->pid, .understood = answer->whole, .file = file
	};

	if (vt_job_add_ras(job, &asked, vt_str_get(&answer->text), answer->text.n))
		return NULL;
	return vt_error_create(VT_ERR_NOMEM, "not enough memory here");
}

static void replace(struct vt_ras_answer *answer, struct vt_ras_answer *by)
{
	vt_str_deinit(&answer->text);
	*answer = *by;
	*by = (struct vt_ras_answer){ 0 };
}

/* A question more, which takes about as long as the first one did; false when there is no time, or no whole answer. */
static bool ask_after(const struct asking *a, const struct vt_ras_place *place, uint64_t pause_ns, uint64_t took_ns,
		      struct vt_ras_answer *answer)
{
	struct vt_ras_answer next = { 0 };
	bool answered = false;

	if (vt_now_ns() + pause_ns + AGAIN_TIMES * took_ns + AGAIN_SPARE_NS < a->deadline_ns) {
		vt_sleep_ns(pause_ns);
		vt_error_destroy(vt_ras_ask(a->suspects, place, a->deadline_ns, &next));
		answered = next.whole;
	}
	if (answered)
		replace(answer, &next);
	vt_str_deinit(&next.text);
	return answered;
}

/*
 * Ranks that go on have launched different numbers for a moment, all the time. So they are asked again: soon, by which most jobs that
 * are well are known, and after as long as others may wait. answer becomes the last one; false: it is the first one yet.
 */
static bool ask_again(const struct asking *a, const struct vt_ras_place *place, uint64_t took_ns, const struct vt_ras *first,
		      struct vt_ras_answer *answer)
{
	static const uint64_t pauses_ns[] = { SOON_NS, VT_LATE_MS * VT_NS_PER_MS - SOON_NS };
	bool some_stay = true;
	size_t i;

	for (i = 0; i < sizeof(pauses_ns) / sizeof(pauses_ns[0]) && some_stay; i++) {
		VT_CLEANUP(vt_job_deinit) struct vt_job next;

		vt_job_init(&next);
		if (!ask_after(a, place, pauses_ns[i], took_ns, answer))
			break;

		VT_ERROR struct vt_error *err = add_answer(&next, a, place, answer, NULL);

		some_stay = !err && vt_ras_compare(&next.ras.data[0], first);
	}
	return i > 0;
}

static struct vt_error *ask(struct asking *a, const struct vt_ras_place *place)
{
	VT_CLEANUP(vt_job_deinit) struct vt_job first;
	struct vt_ras_answer answer = { 0 };
	uint64_t begin_ns = vt_now_ns();
	struct vt_error *err;

	vt_job_init(&first);
	if (place->foreign)
		return vt_error_create(VT_ERR_BUSY, "at %s a process listens, too, that is not of the job", place->name);
	err = vt_ras_ask(a->suspects, place, a->deadline_ns, &answer);
	if (!err)
		err = add_answer(&first, a, place, &answer, NULL);
	if (!err) {
		const struct vt_ras *before = &first.ras.data[0];
		bool again = answer.whole && vt_ras_differs(before) && ask_again(a, place, vt_now_ns() - begin_ns, before, &answer);

		if (!answer.whole)
			vt_job_diag(&a->job, VT_DIAG_NOTE, "ras", "the answer of NCCL's RAS at %s did not come to its end",
				    place->name);
		err = add_answer(&a->job, a, place, &answer, keep(a, &answer));
		if (!err && again)
			vt_ras_compare(&a->job.ras.data[a->job.ras.n - 1], before);
		a->asked[a->n_asked++] = place->rank;
	}
	vt_str_deinit(&answer.text);
	return err;
}

static const char *why_nobody(const struct vt_ras_places *places)
{
	if (places->n_hidden == places->n_ranks)
		return "it is not permitted to see on which sockets the ranks listen";
	if (places->n_off == places->n_ranks)
		return "it is turned off (NCCL_RAS_ENABLE=0)";
	return "no rank listens for it (NCCL has it from 2.24 on, and communicators begin it)";
}

static void ask_all(struct asking *a)
{
	VT_CLEANUP(vt_ras_places_deinit) struct vt_ras_places places = { 0 };
	VT_ERROR struct vt_error *err = vt_ras_find(a->suspects, &places);

	if (err)
		note(&a->job, err->message);
	else if (places.n_ranks && !places.list.n)
		note(&a->job, why_nobody(&places));
	for (size_t i = 0; i < places.list.n; i++) {
		VT_ERROR struct vt_error *failed = was_asked(a, places.list.data[i].rank) ? NULL : ask(a, &places.list.data[i]);

		if (failed)
			vt_job_diag(&a->job, VT_DIAG_NOTE, "ras", "NCCL's RAS says nothing: %s", failed->message);
	}
}

_Noreturn static void work(const struct vt_suspects *suspects, const struct vt_triage_options *options,
			   const struct vt_triage_ras *ras, pid_t parent, int out)
{
	static const struct vt_writer_options plain = { 0 };
	struct asking a = { .suspects = suspects, .options = options };
	struct vt_error *err;
	FILE *file;

	if (!vt_triage_settle_in(options, parent, out) || !vt_gate_wait(ras->gate, ras->deadline_ns))
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

/* ---- as the parent sees it ---- */

static void destroy(struct vt_triage_ras *ras)
{
	if (ras->fd >= 0)
		close(ras->fd);
	vt_gates_destroy(ras->gate, 1);
	free(ras);
}

static uint64_t time_for(uint64_t all_ns)
{
	uint64_t part = all_ns / TIME_PART, large = all_ns / LARGE_PART;

	if (part >= MIN_TIME_NS)
		return part < MAX_TIME_NS ? part : MAX_TIME_NS;
	return large < MIN_TIME_NS ? large : MIN_TIME_NS;
}

struct vt_triage_ras *vt_triage_ras_start(const struct vt_suspects *suspects, const struct vt_triage_options *options,
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
	ras->gate = vt_gates_create(1);
	if (!ras->gate || pipe2(pipes, O_CLOEXEC)) {
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
	if (ras && !vt_gate_is_open(ras->gate))
		vt_gate_open(ras->gate);
}

/* Until the end of what it says; false when that does not come. */
static bool hear(const struct vt_triage_ras *ras, const sigset_t *mask, struct vt_str *text)
{
	uint64_t own_ns = ras->gate->opened_ns + ras->time_ns + READING_NS;
	uint64_t until = own_ns < ras->deadline_ns ? own_ns : ras->deadline_ns;
	struct pollfd fd = { .fd = ras->fd, .events = POLLIN };
	char buf[65536];

	while (text->n < MAX_DOCUMENT && !text->failed) {
		uint64_t now = vt_now_ns(), left = now < until ? until - now : 0;
		struct timespec timeout = { .tv_sec = (time_t)(left / VT_NS_PER_S), .tv_nsec = (long)(left % VT_NS_PER_S) };
		ssize_t n;

		if (ppoll(&fd, 1, &timeout, mask) <= 0)
			return false;
		n = read(ras->fd, buf, sizeof(buf));
		if (n <= 0)
			return n == 0;
		vt_str_addn(text, buf, (size_t)n);
	}
	return false;
}

/* It has read what hostile processes sent, and speaks for RAS only. */
static bool add_document(const char *text, struct vt_job *job)
{
	const char *document = strstr(text, "{\n");
	VT_CLEANUP(vt_job_deinit) struct vt_job own;
	VT_ERROR struct vt_error *err = NULL;

	vt_job_init(&own);
	if (!document)
		return false;
	err = vt_job_load_text(&own, document, strlen(document), "");
	if (err || own.members.n)
		return false;
	err = vt_job_load_text(job, document, strlen(document), "");
	return !err;
}

/* What hangs in the kernel is gone when that lets it go. */
static void end(const struct vt_triage_ras *ras)
{
	uint64_t until = vt_now_ns() + ENDING_NS;

	kill(ras->pid, SIGKILL);
	while (waitpid(ras->pid, NULL, WNOHANG) == 0 && !vt_deadline_passed(until))
		vt_sleep_ns(VT_NS_PER_MS);
}

void vt_triage_ras_finish(struct vt_triage_ras *ras, bool give_up, const sigset_t *mask, struct vt_job *job)
{
	struct vt_str text = { 0 };

	if (!ras)
		return;
	if (give_up || !hear(ras, mask, &text) || !add_document(vt_str_get(&text), job))
		note(job, give_up ? "vramtap was interrupted" : "that took too long, or failed");
	end(ras);
	vt_str_deinit(&text);
	destroy(ras);
}
