/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vramtap watch PID --on-oom: saves a report of the moment of each event (record/oom_catch.h).
 * Files are written after the thread that ran out of memory goes on.
 */
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "base/vec.h"
#include "cmd/cmd.h"
#include "cmd/documents.h"
#include "base/progress.h"
#include "record/loaded.h"
#include "record/oom_catch.h"
#include "record/oom_file.h"
#include "record/target.h"
#include "cmd/watch.h"
#include "report/html/html.h"
#include "report/writer.h"

/* A program that runs out of memory all the time would fill the disk. */
#define MAX_REPORTS 100
#define MAX_COMMANDS 16
/* Between two looks for PyTorch, if it was not there. */
#define FIRST_TRY_NS (100 * VT_NS_PER_MS)
#define LAST_TRY_NS (2 * VT_NS_PER_S)
#define COMMAND_POLL_NS (10 * VT_NS_PER_MS)

struct watch {
	struct vt_watch_options *options;
	bool was_on; /* recording was on before; */
	bool begun;  /* that is known, and if it was not, it may be on now because of us */
	struct vt_catch caught;
	char who[128];                /* "python3 (4711)", escaped */
	bool without_torch;           /* its allocator is not recorded yet */
	uint64_t try_ns, next_try_ns; /* for that */
	size_t n_reports;
	int status;             /* the worst of them */
	VT_VEC(pid_t) commands; /* that run */
};

/* ---- what is done with a report ---- */

/* FILE, FILE.2, FILE.3; "-" stays. */
static char *numbered_name(const struct watch *w, const char *file)
{
	char *name;

	if (w->n_reports <= 1 || !strcmp(file, "-"))
		return strdup(file);
	return asprintf(&name, "%s.%zu", file, w->n_reports) < 0 ? NULL : name;
}

static struct vt_error *save_page(const struct watch *w, const struct vt_model *model)
{
	VT_FREE char *path = numbered_name(w, w->options->html);

	return path ? vt_output_file(&w->options->output, vt_write_report_html, model, path) :
		      &vt_enomem;
}

static struct vt_error *save_then(const struct watch *w, const struct vt_model *model,
				  struct vt_oom_saved *saved)
{
	struct vt_output output = w->options->output;
	char *path = numbered_name(w, w->options->then);
	struct vt_error *err;

	if (!path)
		return &vt_enomem;
	output.json = path;
	err = vt_output_json(&output, vt_write_report_json, model);
	if (err)
		free(path);
	else
		saved->json = path;
	return err;
}

/* The moment does not come again: unless told otherwise, there is a file. */
static struct vt_error *save_report(const struct watch *w, const struct vt_model *model,
				    struct vt_oom_saved *saved)
{
	const char *then = w->options->then;
	const struct vt_oom_file file = { .pattern = then ? then : VT_OOM_FILE_PATTERN,
					  .pid = w->options->pid,
					  .add_pid = w->options->many,
					  .text = w->options->output.writer };

	return then && !w->options->many ? save_then(w, model, saved) :
					   vt_oom_save(&file, model, saved);
}

/* Where there is JSON on standard output there is no text. */
static bool shows_text(const struct watch *w)
{
	return !w->options->then || strcmp(w->options->then, "-") != 0;
}

static struct vt_error *print_text(const struct watch *w, const struct vt_model *model,
				   const struct vt_oom_saved *saved)
{
	struct vt_writer_hints hints = vt_hints_command_line;
	struct vt_output output = w->options->output;

	hints.json = saved->json ? saved->json : "not saved";
	output.writer.hints = &hints;
	if (w->n_reports > 1 || w->options->many)
		putchar('\n');
	return vt_output_text(&output, vt_write_report_text, model);
}

static char **add_environment(const char *const *added, size_t n_added)
{
	size_t n = 0, kept = 0;
	char **env;

	while (environ[n])
		n++;
	env = calloc(n + n_added + 1, sizeof(*env));
	if (!env)
		return NULL;
	for (size_t i = 0; i < n; i++)
		if (strncmp(environ[i], "VRAMTAP_PID=", 12) != 0 &&
		    strncmp(environ[i], "VRAMTAP_REPORT=", 15) != 0)
			env[kept++] = environ[i];
	for (size_t i = 0; i < n_added; i++)
		env[kept++] = (char *)added[i];
	return env;
}

/* With signals as a program expects them. */
static int spawn_shell(const char *command, char **env, pid_t *pid)
{
	char *argv[] = { "sh", "-c", (char *)command, NULL };
	posix_spawnattr_t attributes;
	sigset_t signals;
	int ret = posix_spawnattr_init(&attributes);

	if (ret)
		return ret;
	sigemptyset(&signals);
	posix_spawnattr_setsigmask(&attributes, &signals);
	for (int signo = 1; signo < SIGRTMIN; signo++)
		if (signo != SIGKILL && signo != SIGSTOP)
			sigaddset(&signals, signo);
	posix_spawnattr_setsigdefault(&attributes, &signals);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	ret = posix_spawn(pid, "/bin/sh", NULL, &attributes, argv, env);
	posix_spawnattr_destroy(&attributes);
	return ret;
}

/* It runs beside us: the next event may come at any time. */
static struct vt_error *run_command(struct watch *w, const char *path)
{
	VT_FREE char *pid_variable = NULL, *report_variable = NULL;
	pid_t *pid;
	int ret;

	if (w->commands.n >= MAX_COMMANDS)
		return vt_error_create(VT_ERR_BUSY,
				       "the command was not run: %d earlier ones are still running",
				       MAX_COMMANDS);
	if (asprintf(&pid_variable, "VRAMTAP_PID=%d", (int)w->options->pid) < 0) {
		pid_variable = NULL;
		return &vt_enomem;
	}
	if (asprintf(&report_variable, "VRAMTAP_REPORT=%s", path) < 0) {
		report_variable = NULL;
		return &vt_enomem;
	}

	const char *const added[] = { pid_variable, report_variable };
	VT_FREE char **env = add_environment(added, 2);

	pid = env ? vt_vec_append(&w->commands) : NULL;
	if (!pid)
		return &vt_enomem;
	ret = spawn_shell(w->options->exec, env, pid);
	if (ret) {
		w->commands.n--;
		return vt_error_create_os(ret, "cannot run /bin/sh");
	}
	return NULL;
}

static void reap_commands(struct watch *w, int flags)
{
	size_t kept = 0;

	for (size_t i = 0; i < w->commands.n; i++) {
		pid_t pid = w->commands.data[i];
		pid_t ret = waitpid(pid, NULL, flags);

		if (ret == 0 || (ret < 0 && errno == EINTR))
			w->commands.data[kept++] = pid;
	}
	w->commands.n = kept;
}

/* ---- one event ---- */

static void say(const struct watch *w, const char *text)
{
	if (!w->options->output.quiet)
		fprintf(stderr, "vramtap: %s\n", text);
}

static void say_about(const struct watch *w, const char *text)
{
	struct vt_str line = { 0 };

	vt_str_addf(&line, "%s: %s", w->who, text);
	say(w, vt_str_get(&line));
	vt_str_deinit(&line);
}

static void say_saved(const struct watch *w, const struct vt_oom_saved *saved)
{
	struct vt_str text = { 0 };

	if (saved->instead)
		vt_str_addf(&text, "%s; ", saved->instead->message);
	vt_str_addf(&text, "%s: out of memory; the report of that moment is %s", w->who,
		    saved->json);
	say(w, vt_str_get(&text));
	vt_str_deinit(&text);
}

/* The text is printed whatever becomes of the file. */
static struct vt_error *save(struct watch *w, const struct vt_model *model)
{
	struct vt_oom_saved saved = { 0 };
	struct vt_error *err = save_report(w, model, &saved), *text_err = NULL;
	struct vt_error *page_err = w->options->html ? save_page(w, model) : NULL;

	vt_watchers_lock(w->options->output_lock);
	if (shows_text(w))
		text_err = print_text(w, model, &saved);
	vt_watchers_unlock(w->options->output_lock);
	if (!err && shows_text(w))
		say_saved(w, &saved);
	if (!err && w->options->exec)
		err = run_command(w, saved.json);
	vt_oom_saved_deinit(&saved);
	vt_keep_error(&err, page_err);
	vt_keep_error(&err, text_err);
	return err;
}

static void finish_event(struct watch *w, const struct vt_model *model, struct vt_error *err)
{
	int status;

	w->n_reports++;
	if (!err)
		err = save(w, model);
	if (w->options->shared)
		__atomic_add_fetch(&w->options->shared->events, 1, __ATOMIC_RELAXED);
	status = err ? vt_exit_with(err) : (int)model->completeness;
	w->status = status > w->status ? status : w->status;
	vt_error_destroy(err);
}

/* ---- until the end ---- */

typedef struct vt_error *with_target_fn(struct watch *w, struct vt_record_target *target);

/* The target is opened, and locked, only as long as this takes. */
static struct vt_error *with_target(struct watch *w, with_target_fn *f)
{
	struct vt_record_target *target = calloc(1, sizeof(*target));
	struct vt_error *err;

	if (!target)
		return &vt_enomem;
	err = f(w, target);
	vt_progress_end();
	vt_record_close(target);
	free(target);
	return err;
}

/* NULL: go on. */
static struct vt_error *collect_moment(struct watch *w)
{
	struct vt_error *err, *why = NULL;
	struct vt_model model;
	bool caught;

	vt_model_init(&model);
	err = vt_catch_look(&w->caught, &model, &caught, &why);
	if (caught)
		finish_event(w, &model, why);
	vt_model_deinit(&model);
	reap_commands(w, WNOHANG);
	return err;
}

static bool has_enough(const struct watch *w)
{
	return w->options->count && w->n_reports >= w->options->count;
}

/* PyTorch may come later than we did. */
static struct vt_error *complete(struct watch *w, struct vt_record_target *target)
{
	VT_TRY(vt_record_open(target, w->options->pid, w->options->collect.budget_ns));
	if (!vt_record_is_on(target))
		return NULL;
	VT_TRY(vt_record_complete(target));
	w->without_torch = target->no_torch[0];
	if (!w->without_torch)
		say_about(w, "PyTorch's own errors are caught from now on");
	return NULL;
}

static void complete_later(struct watch *w)
{
	if (!w->without_torch || !vt_deadline_passed(w->next_try_ns))
		return;
	w->try_ns = w->try_ns < LAST_TRY_NS ? w->try_ns * 2 : LAST_TRY_NS;
	if (vt_record_has_library(w->options->pid, "libc10_cuda"))
		vt_error_destroy(with_target(w, complete));
	w->next_try_ns = vt_now_ns() + w->try_ns;
}

/* Why it ended is no error: there is nothing to be done about it. */
static void watch(struct watch *w)
{
	uint64_t until = w->options->timeout_ns ? vt_now_ns() + w->options->timeout_ns : UINT64_MAX;

	for (bool over = false; !over && w->n_reports < MAX_REPORTS;) {
		/* What has happened until then is saved all the same. */
		over = vt_watch_ended() || vt_now_ns() >= until || has_enough(w);

		VT_ERROR struct vt_error *err = collect_moment(w);

		if (err) {
			vt_exit_with(err);
			/* Should it be on again, it is somebody else's, or another process's. */
			if (err->code == VT_ERR_INTERRUPTED || err->code == VT_ERR_GONE)
				w->begun = false;
			return;
		}
		if (!over)
			complete_later(w);
		if (!over)
			vt_sleep_ns(VT_CATCH_POLL_NS);
	}
	if (w->n_reports == MAX_REPORTS)
		say_about(w, "ended: the maximum number of events was saved");
}

/* ---- the recorder ---- */

static void name_process(struct watch *w, const struct vt_record_target *target)
{
	const char *name = target->process.proc.name;
	struct vt_str who = { 0 };

	vt_str_add_escaped(&who, name, strlen(name));
	vt_str_addf(&who, " (%d)", (int)target->process.proc.pid);
	snprintf(w->who, sizeof(w->who), "%s", vt_str_get(&who));
	vt_str_deinit(&who);
}

/* "python3 (4711): armed; recording was switched on for it" */
static void say_armed(const struct watch *w, const struct vt_record_target *target)
{
	struct vt_str text = { 0 };

	vt_str_addf(&text, "%s: armed, waiting for memory to run out; recording %s", w->who,
		    !w->was_on               ? "is on until this ends" :
		    w->options->record.given ? "was on already, with settings of its own" :
					       "was on already");
	if (target->no_torch[0]) {
		vt_str_add(&text, "; PyTorch's own errors are not caught: ");
		vt_str_add_escaped(&text, target->no_torch, strlen(target->no_torch));
	}
	say(w, vt_str_get(&text));
	vt_str_deinit(&text);
}

static struct vt_error *begin(struct watch *w, struct vt_record_target *target)
{
	VT_TRY(vt_record_open(target, w->options->pid, w->options->collect.budget_ns));
	w->was_on = vt_record_is_on(target) && !vt_record_was_unhooked(target);
	w->begun = true;
	VT_TRY(w->was_on ? vt_record_complete(target) :
			   vt_record_on(target, &w->options->record.request));
	VT_TRY(vt_catch_begin(&w->caught, target));
	name_process(w, target);
	vt_progress_end();
	say_armed(w, target);
	w->without_torch = target->no_torch[0];
	w->try_ns = FIRST_TRY_NS;
	return NULL;
}

static struct vt_error *end(struct watch *w, struct vt_record_target *target)
{
	uint64_t kept;

	VT_TRY(vt_record_open(target, w->options->pid, w->options->collect.budget_ns));
	if (w->was_on || !vt_record_is_on(target))
		return NULL;
	VT_TRY(vt_record_off(target, &kept));
	if (kept)
		return vt_error_create(
			VT_ERR_NOTFOUND,
			"recording is off, but its memory was not given back: %s; vramtap record %d off does, later",
			target->not_inside, (int)w->options->pid);
	return NULL;
}

/* The signal may mean that there were enough events, of all processes. */
static bool waits_for_commands(const struct watch *w)
{
	const struct vt_watchers_shared *shared = w->options->shared;

	return !vt_watch_ended() || (shared && __atomic_load_n(&shared->finish, __ATOMIC_RELAXED));
}

/* Recording is left as it was found. That the process has ended is no news. */
static void clean_up(struct watch *w)
{
	struct vt_error *err = NULL;

	vt_catch_end(&w->caught);
	if (w->begun && !w->was_on)
		err = with_target(w, end);
	if (err && err->code != VT_ERR_GONE)
		vt_exit_with(err);
	vt_error_destroy(err);
	while (w->commands.n && waits_for_commands(w)) {
		reap_commands(w, WNOHANG);
		vt_sleep_ns(COMMAND_POLL_NS);
	}
	vt_vec_deinit(&w->commands);
}

int vt_watch_oom(struct vt_watch_options *options)
{
	struct watch w = { .options = options,
			   .caught = { .pid = options->pid, .collect = options->collect } };
	VT_ERROR struct vt_error *err = NULL;

	vt_watch_catch_signals();
	err = with_target(&w, begin);
	if (!err)
		watch(&w);
	clean_up(&w);
	if (err)
		return vt_exit_with(err);
	return w.n_reports ? w.status : VT_EXIT_NO_EVENT;
}
