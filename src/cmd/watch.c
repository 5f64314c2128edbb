/* SPDX-License-Identifier: Apache-2.0 */
/* vramtap watch PID --on-oom, or --grow: waits for something to happen to a process's memory. */
#include "cmd/watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "cmd/cmd.h"
#include "record/oom_file.h"

enum {
	KEY_ON_OOM = VT_KEY_COMMAND,
	KEY_GROW,
	KEY_EVERY,
	KEY_NO_OWNERS,
	KEY_READ_ONLY,
	KEY_THEN,
	KEY_HTML,
	KEY_EXEC,
	KEY_TIMEOUT,
	KEY_CHILDREN_OF,
	KEY_COUNT,
};

#define EVERY_NS (10 * VT_NS_PER_S)
#define MAX_DURATION_S (366L * 86400)

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "What to wait for:", 1 },
	{ "on-oom", KEY_ON_OOM, NULL, 0,
	  "A GPU allocation that runs out of memory: hold the thread for a moment, save what used "
	  "the memory, which code asked for more and where all threads were, then let the "
	  "exception go on",
	  0 },
	{ "grow", KEY_GROW, NULL, 0,
	  "Memory that is allocated and never freed: read the blocks repeatedly and name the "
	  "places that allocate more and more, and which memory outside PyTorch grows; threads are "
	  "stopped only if the blocks change all the time",
	  0 },
	{ "every", KEY_EVERY, "TIME", 0, "With --grow, the time between two looks (default 10s)",
	  0 },
	{ "no-owners", KEY_NO_OWNERS, NULL, 0,
	  "With --grow, do not look for the variables that hold more and more: no look stops the "
	  "threads for that",
	  0 },
	{ "read-only", KEY_READ_ONLY, NULL, 0,
	  "With --grow, run no code in the process: only PyTorch's memory is compared, not what "
	  "other libraries allocate",
	  0 },
	{ "children-of", KEY_CHILDREN_OF, "PID", 0,
	  "Watch this process and its descendants that use CUDA, also those that come later", 0 },
	{ NULL, 0, NULL, 0, "What to do then:", 2 },
	{ "then", KEY_THEN, "FILE", 0,
	  "Write the report to FILE as JSON: with --on-oom one per event (the second to FILE.2, "
	  "and so on; default: vramtap-oom-HOST-PID-TIME.json), with --grow the last one; - is "
	  "standard output, instead of the text",
	  0 },
	{ "html", KEY_HTML, "FILE", 0,
	  "Write a page with pictures of the report to FILE: with --on-oom one per event (the second "
	  "to FILE.2, and so on), with --grow the last one, and how the memory went over time",
	  0 },
	{ "exec", KEY_EXEC, "CMD", 0,
	  "With --on-oom, run CMD in the shell when a report is written. VRAMTAP_PID is the "
	  "process, VRAMTAP_REPORT the file",
	  0 },
	{ "count", KEY_COUNT, "N", 0,
	  "With --on-oom, end after N reports of all processes together (default: go on)", 0 },
	{ "timeout", KEY_TIMEOUT, "TIME", 0,
	  "End after this time, such as 30m, 12h or 7d (default: watch until the process ends)",
	  0 },
	{ 0 },
};

static void check_arguments(struct argp_state *state, struct vt_watch_options *args)
{
	if (!args->pids.n && !args->children_of)
		vt_missing_pid(state, args->output.json, "the PID is");
	if (!args->on_oom && !args->grow)
		argp_error(state, "give --on-oom, --grow, or both");
	if (args->count && !args->on_oom)
		argp_error(state, "--count goes with --on-oom");
	if (args->every_ns && !args->grow)
		argp_error(state, "--every goes with --grow");
	if (args->no_owners && !args->grow)
		argp_error(state, "--no-owners goes with --grow");
	if (args->read_only && !args->grow)
		argp_error(state, "--read-only goes with --grow");
	if (args->record.given && !args->on_oom)
		argp_error(state, VT_RECORD_OPTIONS " go with --on-oom");
	if (args->exec && !args->on_oom)
		argp_error(state, "--exec goes with --on-oom");
	if (args->output.json && args->then)
		argp_error(state,
			   "--then and --json exclude each other: both say where the report goes");
	if (!args->then)
		args->then = args->output.json;
	if (args->then && !*args->then)
		argp_error(state, "--then needs a file name");
	args->many = args->pids.n != 1 || args->children_of || (args->on_oom && args->grow);
	if (args->html && (!*args->html || !strcmp(args->html, "-")))
		argp_error(state, "--html needs a file name");
	if (args->html && args->many)
		argp_error(state, "--html goes with one process that is watched for one thing");
	vt_refuse_shared_file(state, "--html", args->html, args->output.json ? "--json" : "--then",
			      args->then);
	if (args->many && args->then && !strcmp(args->then, "-"))
		argp_error(state, "standard output has room for one report: give --then a file");
}

static void add_pid(struct argp_state *state, struct vt_watch_options *args, pid_t pid)
{
	pid_t *added;

	for (size_t i = 0; i < args->pids.n; i++)
		if (args->pids.data[i] == pid)
			return;
	if (args->pids.n == VT_WATCHERS_MAX / 2)
		argp_error(state, "at most %d processes can be watched", VT_WATCHERS_MAX / 2);
	added = vt_vec_append(&args->pids);
	if (added)
		*added = pid;
	else
		argp_failure(state, VT_EXIT_NOTHING, ENOMEM, "PID");
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct vt_watch_options *args = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &args->output;
		state->child_inputs[1] = &args->record;
		return 0;
	case KEY_ON_OOM:
		args->on_oom = true;
		return 0;
	case KEY_GROW:
		args->grow = true;
		return 0;
	case KEY_EVERY:
		args->every_ns = vt_parse_time(state, "--every", arg, MAX_DURATION_S);
		return 0;
	case KEY_NO_OWNERS:
		args->no_owners = true;
		return 0;
	case KEY_READ_ONLY:
		args->read_only = true;
		return 0;
	case KEY_THEN:
		args->then = arg;
		return 0;
	case KEY_HTML:
		args->html = arg;
		return 0;
	case KEY_EXEC:
		args->exec = arg;
		return 0;
	case KEY_TIMEOUT:
		args->timeout_ns = vt_parse_time(state, "--timeout", arg, MAX_DURATION_S);
		return 0;
	case ARGP_KEY_ARG:
		add_pid(state, args, vt_parse_pid(state, arg));
		return 0;
	case KEY_CHILDREN_OF:
		args->children_of = vt_parse_pid(state, arg);
		return 0;
	case KEY_COUNT:
		args->count = (uint32_t)vt_parse_number(state, "--count", arg, 1, 1000000);
		return 0;
	case ARGP_KEY_END:
		check_arguments(state, args);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_child children[] = { { &vt_output_argp, 0, NULL, 0 },
					      { &vt_record_argp, 0, NULL, 3 },
					      { 0 } };

static const struct argp argp = {
	.options = options,
	.parser = parse_option,
	.children = children,
	.args_doc = "PID... --on-oom\nPID... --grow",
	.doc = "Watch the GPU memory of live processes: --on-oom catches the next out-of-memory "
	       "errors, --grow finds what allocates memory and never frees it. The process goes on "
	       "as it would have.\v"
	       "Watching ends after --timeout or --count, when all processes have ended, or on a signal (Ctrl-C). It "
	       "leaves the process's recorder as it was. Exit status: 0 it happened, and "
	       "everything was saved; 1 the same, but something is missing (it says what and why); "
	       "2 nothing could be learned; 3 not permitted (the message says what would allow "
	       "it); 4 it did not happen; 64 wrong usage.",
};

/* Said at once, and not when there is a report after a night. */
static struct vt_error *check_directory(const char *file)
{
	VT_FREE char *directory = strdup(file);
	char *slash = directory ? strrchr(directory, '/') : NULL;
	struct stat st;

	if (!directory)
		return &vt_enomem;
	/* What is no regular file is written to as it is. */
	if (!strcmp(file, "-") ||
	    (!stat(file, &st) && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)))
		return NULL;
	if (slash)
		slash[slash == directory] = '\0';
	if (!stat(file, &st) && S_ISDIR(st.st_mode))
		return vt_error_create_os(EISDIR, "cannot write the report to %s", file);
	if (access(slash ? directory : ".", W_OK | X_OK))
		return vt_error_create_os(errno, "cannot write the report to %s", file);
	return NULL;
}

static struct vt_error *check_output(const struct vt_watch_options *args)
{
	struct vt_error *err;

	if (args->then && args->many && !vt_oom_pattern_is_valid(args->then))
		return vt_error_create(
			VT_ERR_NOTFOUND,
			"in %s, a percent sign is one of %%h (the host), %%p (the process), %%t (the time) and %%%%",
			args->then);
	if (args->html)
		VT_TRY(check_directory(args->html));
	if (args->then)
		return args->many ? vt_oom_pattern_check(args->then) : check_directory(args->then);
	if (!args->on_oom)
		return NULL;
	err = vt_oom_pattern_check(VT_OOM_FILE_PATTERN);
	if (!err)
		return NULL;

	struct vt_error *with_remedy = vt_error_create_os(
		err->errnum,
		"reports are written to the current directory, unless --then names a file");

	vt_error_destroy(err);
	return with_remedy;
}

/* ---- many ---- */

static uint64_t end_of(const struct vt_watch_options *args)
{
	return args->timeout_ns ? vt_now_ns() + args->timeout_ns : UINT64_MAX;
}

/* In a process of its own. */
static int watch_one(void *arg, pid_t pid, int mode, struct vt_watchers_shared *shared)
{
	struct vt_watch_options mine = *(const struct vt_watch_options *)arg;

	mine.pid = pid;
	mine.shared = shared;
	mine.timeout_ns = 0; /* it is told when to end */
	return mine.on_oom && mode == 0 ? vt_watch_oom(&mine) : vt_watch_grow(&mine);
}

static void say_line(const char *text)
{
	fprintf(stderr, "vramtap: %s\n", text);
}

static void say_quietly(const char *text)
{
	(void)text;
}

static int watch_many(struct vt_watch_options *args)
{
	const struct vt_watchers watchers = {
		.pids = args->pids.data,
		.n_pids = args->pids.n,
		.children_of = args->children_of,
		.until_ns = end_of(args),
		.count = args->count,
		.watch = watch_one,
		.n_modes = args->on_oom + args->grow,
		.arg = args,
		.ended = vt_watch_ended,
		.say = args->output.quiet ? say_quietly : say_line,
	};
	int status = VT_EXIT_NOTHING;
	struct vt_error *err;

	args->output_lock = vt_watchers_lock_create();
	vt_watch_catch_signals();
	err = vt_watchers_run(&watchers, &status);
	if (err)
		status = vt_exit_with(err);
	vt_error_destroy(err);
	return status;
}

static int watch(struct vt_watch_options *args)
{
	VT_ERROR struct vt_error *err = check_output(args);

	if (err)
		return vt_exit_with(err);
	args->pid = args->pids.n ? args->pids.data[0] : 0;
	return args->many ? watch_many(args) :
	       args->grow ? vt_watch_grow(args) :
			    vt_watch_oom(args);
}

int vt_cmd_watch(int argc, char **argv)
{
	struct vt_watch_options args = { .collect = { .want = VT_WANT_ALL,
						      .budget_ns = 5 * VT_NS_PER_S } };
	int status;

	vt_parse_command(&argp, argc, argv, 0, &args);
	vt_output_begin(&args.output);
	if (!args.every_ns)
		args.every_ns = EVERY_NS;
	status = watch(&args);
	vt_vec_deinit(&args.pids);
	return status;
}
