/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker process reads one process: harm from hostile data (unbounded memory, a read that never
 * returns, bytes that make us crash) ends here. The worker may be killed at any moment; the kernel
 * then releases what it holds.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/ends.h"
#include "base/sandbox.h"
#include "base/exit.h"
#include "base/null.h"
#include "base/progress.h"
#include "triage/collect.h"
#include "triage/latch.h"
#include "triage/moved.h"
#include "report/save.h"
#include "report/writer.h"
#include "target/absent.h"
#include "target/proc.h"
#include "target/session.h"
#include "job/json/json.h"

#define MAX_MEMORY ((size_t)4 << 30)    /* a report of two million blocks takes 1 GiB */
#define MAX_FILE ((rlim_t)1 << 30)      /* of its JSON */
#define OTHERS_NS (1 * VT_NS_PER_S)     /* for a process outside the job, which keeps running */
#define LATE_NS (10 * VT_NS_PER_MS)     /* after the others: worth mentioning */
#define OWNERS_MOST ((uint64_t)3 << 30) /* of our memory: some of it is used, parts stay below */
#define MAX_PAGE ((size_t)12 << 20) /* bytes of a report for a page: no page has room for more */
#define MAX_PAGE_BLOCKS 400000      /* of such a report */
#define MAX_TRIES 3                 /* of a process that calls exec at that moment */
#define RETRY_NS (5 * VT_NS_PER_MS)
#define WRITING_NS (2 * VT_NS_PER_S) /* after the CUDA debugger, for what is written */

struct worker {
	struct vt_suspect *suspect;
	const struct vt_triage_options *options;
	const struct vt_worker_setup *setup;
	struct vt_model model;
	bool ready; /* it has passed the start */
	uint64_t late_ns;
	struct vt_moved moved;
	bool have_moved; /* has_moved is known */
	int has_moved;
};

/* ---- environment of the worker ---- */

/* Async-signal-safe. The parent reports what happened. */
static void on_interrupt(int signo)
{
	vt_session_emergency_release();
	_exit(128 + signo);
}

static void catch_signals(void)
{
	sigset_t set;

	vt_ends_fill(&set);
	vt_ends_handle(on_interrupt, NULL);
	signal(SIGALRM, SIG_DFL);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static void lower(int resource, rlim_t value)
{
	struct rlimit limit;

	if (getrlimit(resource, &limit) ||
	    (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur <= value))
		return;
	limit.rlim_cur = value;
	(void)setrlimit(resource, &limit);
}

/* Its standard error (why it gave up) goes to its row, not to the terminal. */
bool vt_triage_settle_in(const struct vt_triage_options *options, pid_t parent, int errors)
{
	int null = vt_open_null(O_CLOEXEC);

	if (options->directory_lock >= 0)
		close(options->directory_lock);
	vt_progress_enable(false);
	catch_signals();
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) || getppid() != parent)
		return false;
	vt_be_first_to_go();
	vt_limit_data(MAX_MEMORY, false);
	lower(RLIMIT_CORE, 0);
	lower(RLIMIT_FSIZE, MAX_FILE);
	lower(RLIMIT_CPU, (rlim_t)(options->timeout_ns / VT_NS_PER_S) + 1);
	return null >= 0 && dup2(null, STDIN_FILENO) >= 0 && dup2(null, STDOUT_FILENO) >= 0 &&
	       dup2(errors >= 0 ? errors : null, STDERR_FILENO) >= 0;
}

/* ---- together with the others ---- */

static void say(const struct worker *w, enum vt_phase phase)
{
	vt_phase_say(w->setup->phases, w->setup->number, phase);
}

static void wait_for_start(void *arg)
{
	struct worker *w = arg;

	if (w->ready)
		return;
	w->ready = true;
	if (vt_latch_is_open(w->setup->start))
		w->late_ns = vt_now_ns() - w->setup->start->opened_ns;
	say(w, VT_PHASE_READY);
	vt_latch_wait(w->setup->start, w->setup->deadline_ns);
}

static void wait_for_processor(void *arg)
{
	struct worker *w = arg;

	say(w, VT_PHASE_READ);
	if (w->ready)
		vt_moved_begin(&w->moved, w->suspect->label.pid);
	vt_latch_wait(w->setup->go, w->setup->deadline_ns);
}

static void say_that_it_waits(void *arg)
{
	say(arg, VT_PHASE_WAITS);
}

/* The main thread's state when the threads were stopped. */
static char state_then(const struct vt_model *model)
{
	for (size_t i = 0; i < model->threads.n; i++)
		if (model->threads.data[i].is_main)
			return model->threads.data[i].state;
	return '?';
}

static int has_moved(struct worker *w)
{
	if (!w->have_moved)
		w->has_moved =
			vt_moved_end(&w->moved, state_then(&w->model), w->setup->deadline_ns);
	w->have_moved = true;
	return w->has_moved;
}

/*
 * The debugger holds its process, and so those that wait for it on the network: whether they go on
 * is seen before, in all of them.
 */
static uint64_t wait_for_debugging(void *arg)
{
	struct worker *w = arg;
	uint64_t until_ns = w->setup->deadline_ns - WRITING_NS;

	vt_triage_correct_label(w->suspect, &w->model);
	if (w->suspect->label.role != VT_ROLE_RANK)
		return 0;
	(void)has_moved(w);
	say(w, VT_PHASE_ASKS);
	vt_latch_wait(w->setup->ask, until_ns);
	return until_ns;
}

/* ---- the report ---- */

static void choose_options(const struct worker *w, const struct vt_collect_together *together,
			   struct vt_collect_options *collect)
{
	const struct vt_label *label = &w->suspect->label;

	*collect = w->options->collect;
	collect->together = together;
	collect->lines_memo = w->setup->lines_memo;
	collect->ask_collectives = true;
	collect->owners &= vt_triage_has_owners(w->suspect);
	collect->usage_elsewhere = true;
	collect->fault_log = w->setup->fault_log;
	if (!w->options->inject || label->role != VT_ROLE_RANK || !w->suspect->uses_gpu)
		collect->touch = vt_touch_less(collect->touch, VT_TOUCH_STOP);
	collect->ledger = collect->touch == VT_TOUCH_INSIDE;
	if (w->suspect->core)
		collect->kernels_ns = 0;
	if (label->in_job)
		return;
	/* Nobody asked for it: it is only read. */
	collect->touch = VT_TOUCH_NOTHING;
	collect->want = VT_WANT_MEMORY;
	collect->together = NULL;
	collect->budget_ns = OTHERS_NS;
	collect->kernels_ns = 0;
}

/* Pids are reused. */
static struct vt_error *check_same(const struct vt_suspect *suspect)
{
	struct vt_thread_info info = { 0 };

	if (suspect->core)
		return NULL;
	/* It was named, but does not exist: a process with its pid now is another one. */
	if (!suspect->label.start_ticks)
		return vt_absent_error(suspect->label.pid);

	VT_ERROR struct vt_error *err =
		vt_thread_info_read(&info, suspect->label.pid, suspect->label.pid);

	if (err || info.start_ticks == suspect->label.start_ticks)
		return NULL;
	return vt_error_create(VT_ERR_GONE, "it has ended, and another process now has its pid");
}

/* During exec a process has no memory for a moment, and looks as if it were gone. */
static bool is_still_there(const struct vt_suspect *suspect)
{
	struct vt_thread_info info = { 0 };
	VT_ERROR struct vt_error *err =
		vt_thread_info_read(&info, suspect->label.pid, suspect->label.pid);

	return !err && info.start_ticks == suspect->label.start_ticks && info.state != 'Z' &&
	       info.state != 'X';
}

static struct vt_error *collect(struct worker *w, const struct vt_subject *subject,
				const struct vt_collect_options *options)
{
	struct vt_error *err = vt_collect_report(subject, options, &w->model);

	for (int tries = 1; err && err->code == VT_ERR_GONE && tries < MAX_TRIES &&
			    !w->suspect->core && is_still_there(w->suspect);
	     tries++) {
		vt_error_destroy(err);
		vt_model_deinit(&w->model);
		vt_model_init(&w->model);
		vt_sleep_ns(RETRY_NS);
		err = vt_collect_report(subject, options, &w->model);
	}
	return err;
}

static struct vt_error *examine_suspect(struct worker *w)
{
	const struct vt_collect_together together = { .wait = wait_for_start,
						      .released = wait_for_processor,
						      .waits = say_that_it_waits,
						      .debug = wait_for_debugging,
						      .arg = w,
						      .owners_until_ns = w->setup->owners_until_ns,
						      .owners_most = OWNERS_MOST,
						      .at_once = w->setup->at_once };
	struct vt_collect_options options;
	struct vt_subject subject = {
		.origin = w->suspect->core ? &vt_origin_core : &vt_origin_process,
		.pid = w->suspect->core ? 0 : w->suspect->label.pid,
		.core = w->suspect->core,
		.paths = w->options->paths,
	};

	choose_options(w, &together, &options);
	/* No worker waits for these, and they take nothing from those that start together. */
	if (w->suspect->core || !w->suspect->label.in_job)
		wait_for_processor(w);
	VT_TRY(check_same(w->suspect));
	VT_TRY(collect(w, &subject, &options));
	if (w->late_ns >= LATE_NS)
		vt_model_diag(
			&w->model, VT_DIAG_NOTE, VT_STAGE_STACKS, "late",
			"its threads were stopped %.0f ms after those of the other processes: preparing took longer",
			(double)w->late_ns / VT_NS_PER_MS);
	return NULL;
}

/* What cannot be written must not cost what is known. */
static const char *save(struct worker *w)
{
	const struct vt_writer_options options = { 0 };
	const char *path;

	if (!w->options->directory)
		return NULL;
	path = vt_arena_printf(&w->model.arena, "%s/%s", w->options->directory, w->suspect->file);

	VT_ERROR struct vt_error *err =
		path ? vt_save(vt_write_report_json, &w->model, &options, path) : &vt_enomem;

	if (!err)
		return w->suspect->file;
	vt_model_diag(&w->model, VT_DIAG_MISSING, VT_STAGE_FILES, vt_error_code_name(err->code),
		      "its report was not saved: %s", err->message);
	if (w->model.completeness == VT_COMPLETE)
		w->model.completeness = VT_PARTIAL;
	return NULL;
}

/* This is known even about a process that could not be read. */
static char state_now(const struct vt_suspect *suspect)
{
	struct vt_thread_info info = { 0 };
	VT_ERROR struct vt_error *err =
		vt_thread_info_read(&info, suspect->label.pid, suspect->label.pid);

	return !err && info.start_ticks == suspect->label.start_ticks && info.state ? info.state :
										      '?';
}

static void complete_member(struct worker *w, const struct vt_error *why, const char *file,
			    struct vt_member *member)
{
	member->file = file;
	member->moved = why ? -1 : has_moved(w);
	/* A thread that polls for a GPU runs, whether it hangs or not. */
	if (member->moved < 0 && !why && w->model.kernels.works)
		member->moved = 1;
	if (why && !w->suspect->core)
		member->process_state = state_now(w->suspect);
}

/* The text of its report for a page; n: 0 none. What is too large for a page is left out. */
static char *write_page(const struct worker *w, size_t *n)
{
	static const struct vt_writer_options options = { 0 };
	char *text = NULL;
	FILE *out;

	*n = 0;
	if (!w->options->page || w->model.n_blocks > MAX_PAGE_BLOCKS)
		return NULL;
	out = open_memstream(&text, n);
	if (!out)
		return NULL;

	VT_ERROR struct vt_error *err = w->options->page(&w->model, &options, out);

	if (fclose(out) || err || *n > MAX_PAGE)
		*n = 0;
	return text;
}

/* A page without it is better than no document. */
static void send_page(const struct worker *w, FILE *out)
{
	size_t n;
	VT_FREE char *text = write_page(w, &n);

	if (n) {
		fputc('\0', out);
		fwrite(text, 1, n, out);
	}
}

static struct vt_error *send(struct worker *w, const struct vt_error *why, const char *file)
{
	static const struct vt_writer_options options = { .compact = true };
	FILE *out = fdopen(w->setup->out, "w");
	struct vt_job job;
	struct vt_error *err;

	if (!out)
		return vt_error_create_os(errno, "the result cannot be sent");
	vt_job_init(&job);
	job.tool_version = PACKAGE_VERSION;
	if (!vt_job_add(&job, &w->suspect->label, why ? NULL : &w->model,
			why ? why->message : NULL))
		return &vt_enomem;
	complete_member(w, why, file, &job.members.data[0]);
	err = vt_write_job_json(&job, &options, out);
	if (!err && !why)
		send_page(w, out);
	if (fclose(out) && !err)
		err = vt_error_create_os(errno, "the result cannot be sent");
	vt_job_deinit(&job);
	return err;
}

_Noreturn void vt_triage_work(struct vt_suspect *suspect, const struct vt_triage_options *options,
			      const struct vt_worker_setup *setup)
{
	struct worker w = { .suspect = suspect, .options = options, .setup = setup };
	const char *file = NULL;
	int status;

	if (!vt_triage_settle_in(options, setup->parent, setup->errors))
		_exit(VT_EXIT_NOTHING);
	vt_model_init(&w.model);

	struct vt_error *err = examine_suspect(&w);

	if (!err) {
		vt_triage_correct_label(suspect, &w.model);
		file = save(&w);
	}
	status = !err                           ? (int)w.model.completeness :
		 err->code == VT_ERR_PERMISSION ? VT_EXIT_NOT_PERMITTED :
						  VT_EXIT_NOTHING;
	err = send(&w, err, file);
	/* The memory is freed with the process; releasing a large report would take a while. */
	_exit(err ? vt_exit_with(err) : status);
}
