/* SPDX-License-Identifier: Apache-2.0 */
/* vramtap report PID */
#include <argp.h>
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "cmd/cmd.h"
#include "cmd/collect.h"
#include "cmd/progress.h"
#include "report/writer.h"
#include "target/session.h"

enum {
	KEY_JSON = 256,
	KEY_BLOCKS,
	KEY_THREADS,
	KEY_READ_ONLY,
	KEY_ALLOW_RESUME,
	KEY_TIMEOUT,
	KEY_COLOR,
	KEY_WIDTH,
	KEY_ASCII,
};

#define MIN_COLUMNS 40
#define MAX_COLUMNS 500
#define MAX_TIMEOUT_S 3600

enum color_mode { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER };

struct arguments {
	pid_t pid;
	const char *json; /* NULL no JSON, "-" standard output */
	enum color_mode color;
	bool quiet;
	struct vt_collect_options collect;
	struct vt_writer_options writer;
};

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "What is shown:", 1 },
	{ "blocks", KEY_BLOCKS, NULL, 0, "List every block of the caching allocator", 0 },
	{ "threads", KEY_THREADS, "WHICH", 0,
	  "groups (default): threads with equal stacks together, long stacks shortened; all: every thread, every frame", 0 },
	{ "json", KEY_JSON, "FILE", 0, "Write everything as JSON to FILE; - is standard output, then there is no text", 0 },
	{ NULL, 0, NULL, 0, "How the process is treated:", 2 },
	{ "read-only", KEY_READ_ONLY, NULL, 0, "Run no code in the process", 0 },
	{ "allow-resume", KEY_ALLOW_RESUME, NULL, 0,
	  "A process that is stopped (SIGSTOP, job control) may be continued for a moment to run the helper", 0 },
	{ "timeout", KEY_TIMEOUT, "SECONDS", 0, "How long to try to get inside, and to wait for each answer (default 5)", 0 },
	{ NULL, 0, NULL, 0, "How it is shown:", 3 },
	{ "color", KEY_COLOR, "WHEN", 0, "auto (default: on a terminal, unless NO_COLOR is set), always or never", 0 },
	{ "width", KEY_WIDTH, "COLUMNS", 0, "Width of the text (default: of the terminal, else 100)", 0 },
	{ "ascii", KEY_ASCII, NULL, 0, "Only ASCII characters", 0 },
	{ "quiet", 'q', NULL, 0, "No progress on the terminal", 0 },
	{ 0 },
};

static long parse_number(struct argp_state *state, const char *what, const char *text, long min, long max)
{
	char *end;

	errno = 0;
	long value = strtol(text, &end, 10);

	if (errno || end == text || *end || value < min || value > max)
		argp_error(state, "%s must be a number from %ld to %ld, not \"%s\"", what, min, max, text);
	return value;
}

static enum color_mode parse_color(struct argp_state *state, const char *text)
{
	static const char *const names[] = { [COLOR_AUTO] = "auto", [COLOR_ALWAYS] = "always", [COLOR_NEVER] = "never" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(text, names[i]))
			return (enum color_mode)i;
	argp_error(state, "--color takes auto, always or never, not \"%s\"", text);
	return COLOR_AUTO;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct arguments *args = state->input;

	switch (key) {
	case KEY_JSON:
		args->json = arg;
		return 0;
	case KEY_BLOCKS:
		args->writer.all_blocks = true;
		return 0;
	case KEY_THREADS:
		if (strcmp(arg, "all") != 0 && strcmp(arg, "groups") != 0)
			argp_error(state, "--threads takes groups or all, not \"%s\"", arg);
		args->writer.all_threads = !strcmp(arg, "all");
		return 0;
	case KEY_READ_ONLY:
		args->collect.read_only = true;
		return 0;
	case KEY_ALLOW_RESUME:
		args->collect.allow_resume = true;
		return 0;
	case KEY_TIMEOUT:
		args->collect.budget_ns =
			(uint64_t)parse_number(state, "--timeout", arg, 1, MAX_TIMEOUT_S) * VT_NS_PER_S;
		return 0;
	case KEY_COLOR:
		args->color = parse_color(state, arg);
		return 0;
	case KEY_WIDTH:
		args->writer.columns = (int)parse_number(state, "--width", arg, MIN_COLUMNS, MAX_COLUMNS);
		return 0;
	case KEY_ASCII:
		args->writer.ascii = true;
		return 0;
	case 'q':
		args->quiet = true;
		return 0;
	case ARGP_KEY_ARG:
		if (state->arg_num > 0)
			argp_error(state, "one PID is expected");
		args->pid = (pid_t)parse_number(state, "PID", arg, 1, 1 << 30);
		return 0;
	case ARGP_KEY_END:
		if (!args->pid)
			argp_error(state, "which process? A PID is missing");
		if (args->collect.read_only && args->collect.allow_resume)
			argp_error(state, "--read-only and --allow-resume exclude each other");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse_option,
	.args_doc = "PID",
	.doc = "Reports what holds the GPU memory of a live process and where its threads are.\v" VT_EXIT_CODES_DOC,
};

/* The locale's character set without setlocale(): a static program has no locale data. */
static bool utf8_locale(void)
{
	static const char *const variables[] = { "LC_ALL", "LC_CTYPE", "LANG" };

	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		const char *value = getenv(variables[i]);

		if (value && *value)
			return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
	}
	return false;
}

static void adapt_to_terminal(struct arguments *args)
{
	struct winsize size;
	bool terminal = isatty(STDOUT_FILENO);
	const char *no_color = getenv("NO_COLOR");

	if (!args->writer.columns && terminal && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_col)
		args->writer.columns = size.ws_col < MIN_COLUMNS ? MIN_COLUMNS :
				       size.ws_col > MAX_COLUMNS ? MAX_COLUMNS :
								   size.ws_col;
	args->writer.colour = args->color == COLOR_ALWAYS ||
			      (args->color == COLOR_AUTO && terminal && !(no_color && *no_color));
	if (!utf8_locale() && terminal)
		args->writer.ascii = true;
}

/* Nothing is owed to the target when we die: this only says so, and goes at once. */
static void on_interrupt(int signo)
{
	static const char text[] = "\r\033[Kvramtap: interrupted; the process was released\n";
	ssize_t ignored;

	vt_session_emergency_release();
	ignored = write(STDERR_FILENO, isatty(STDERR_FILENO) ? text : text + 4, sizeof(text) - 1 -
										(isatty(STDERR_FILENO) ? 0 : 4));
	(void)ignored;
	_exit(128 + signo);
}

static void catch_interrupts(void)
{
	struct sigaction action = { .sa_handler = on_interrupt };

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	/* Job control must not stop us while the target's threads are stopped: they would stay so. */
	signal(SIGTSTP, SIG_IGN);
	signal(SIGTTOU, SIG_IGN);
	signal(SIGTTIN, SIG_IGN);
}

static struct vt_error *write_json_to(const struct vt_model *model, const struct vt_writer_options *options_,
				      const char *path, const char *mode)
{
	FILE *file = fopen(path, mode);

	if (!file)
		return vt_error_create_os(errno, "cannot write %s", path);

	struct vt_error *err = vt_writer_json.write(model, options_, file);

	if (fclose(file) && !err)
		err = vt_error_create_os(errno, "cannot write %s", path);
	return err;
}

/*
 * Writes to a file beside and renames it: a reader never sees half a report. Only a regular file is replaced so; a device, a
 * pipe or a link is written to as it is (renaming over /dev/null would put a file in its place).
 */
static struct vt_error *write_json_file(const struct vt_model *model, const struct vt_writer_options *options_,
					const char *path)
{
	VT_FREE char *temporary = NULL;
	struct stat st;

	if (!lstat(path, &st) && !S_ISREG(st.st_mode))
		return write_json_to(model, options_, path, "we");
	if (asprintf(&temporary, "%s.%d.tmp", path, getpid()) < 0) {
		temporary = NULL;
		return &vt_enomem;
	}

	struct vt_error *err = write_json_to(model, options_, temporary, "wxe");

	if (!err && rename(temporary, path))
		err = vt_error_create_os(errno, "cannot rename %s to %s", temporary, path);
	if (err)
		unlink(temporary);
	return err;
}

static struct vt_error *write_stdout(const struct vt_report_writer *writer, const struct vt_model *model,
				     const struct vt_writer_options *options_)
{
	VT_TRY(writer->write(model, options_, stdout));
	if (fflush(stdout) || ferror(stdout))
		return vt_error_create_os(errno, "cannot write the report");
	return NULL;
}

static struct vt_error *write_report(const struct vt_model *model, const struct arguments *args)
{
	if (args->json && !strcmp(args->json, "-"))
		return write_stdout(&vt_writer_json, model, &args->writer);

	/* A file that cannot be written must not cost the text: the process may be another one by the next try. */
	struct vt_error *json_err = args->json ? write_json_file(model, &args->writer, args->json) : NULL;
	struct vt_error *err = write_stdout(&vt_writer_text, model, &args->writer);

	if (!json_err)
		return err;
	vt_error_destroy(err);
	return json_err;
}

int vt_cmd_report(int argc, char **argv)
{
	struct arguments args = { .collect.budget_ns = 5 * VT_NS_PER_S };
	struct vt_model model;

	argp_err_exit_status = VT_EXIT_USAGE;
	argp_parse(&argp, argc, argv, 0, NULL, &args);
	adapt_to_terminal(&args);
	catch_interrupts();
	vt_progress_enable(!args.quiet);
	vt_model_init(&model);

	VT_ERROR struct vt_error *err = vt_collect_process(args.pid, &args.collect, &model);

	vt_progress_end();
	if (!err)
		err = write_report(&model, &args);

	int status = err ? vt_cmd_fail(err) : (int)model.completeness;

	vt_model_deinit(&model);
	return status;
}
