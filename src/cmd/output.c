/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/output.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/ends.h"
#include "base/progress.h"
#include "base/str.h"
#include "base/terminal.h"
#include "target/session.h"

enum {
	KEY_JSON = 256,
	KEY_THREADS,
	KEY_COLOR,
	KEY_WIDTH,
	KEY_ASCII,
	KEY_PROMETHEUS,
};

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "Output:", VT_OUTPUT_GROUP },
	{ "json", KEY_JSON, "FILE", 0,
	  "Write everything as JSON to FILE; - is standard output, instead of the text", 0 },
	{ "color", KEY_COLOR, "WHEN", 0,
	  "auto (default: on a terminal, unless NO_COLOR is set or TERM is dumb), always or never",
	  0 },
	{ "width", KEY_WIDTH, "COLUMNS", 0, "Width of the text (default: the terminal's, else 100)",
	  0 },
	{ "ascii", KEY_ASCII, NULL, 0, "Use ASCII characters only", 0 },
	{ "quiet", 'q', NULL, 0, "Show no progress on the terminal", 0 },
	{ 0 },
};

static const char *const color_names[] = {
	[VT_COLOR_AUTO] = "auto",
	[VT_COLOR_ALWAYS] = "always",
	[VT_COLOR_NEVER] = "never",
	NULL,
};
static const char *const threads_names[] = {
	[VT_THREADS_GROUPS] = "groups",
	[VT_THREADS_ALL] = "all",
	[VT_THREADS_PYTHON] = "python",
	[VT_THREADS_MAIN] = "main",
	NULL,
};

/*
 * The index of text in names, NULL-terminated; anything else ends with a usage error that names the
 * option.
 */
static int parse_choice(struct argp_state *state, const char *option, const char *const *names,
			const char *text)
{
	char list[128] = "";
	size_t n = 0;

	for (int i = 0; names[i]; i++) {
		if (!strcmp(text, names[i]))
			return i;
		n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%s",
				      i == 0       ? "" :
				      names[i + 1] ? ", " :
						     " or ",
				      names[i]);
	}
	argp_error(state, "%s takes %s, not \"%s\"", option, list, text);
	return 0;
}

static error_t parse_format(int key, char *arg, struct argp_state *state)
{
	struct vt_output *output = state->input;

	switch (key) {
	case KEY_JSON:
		output->json = arg;
		return 0;
	case KEY_COLOR:
		output->color =
			(enum vt_color_mode)parse_choice(state, "--color", color_names, arg);
		return 0;
	case KEY_WIDTH:
		output->writer.columns =
			(int)vt_parse_number(state, "--width", arg, VT_MIN_COLUMNS, VT_MAX_COLUMNS);
		return 0;
	case KEY_ASCII:
		output->writer.ascii = true;
		return 0;
	case 'q':
		output->quiet = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp vt_format_argp = { .options = options, .parser = parse_format };

static error_t parse_threads(int key, char *arg, struct argp_state *state)
{
	struct vt_output *output = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = output;
		return 0;
	case KEY_THREADS:
		output->writer.threads =
			(enum vt_threads_shown)parse_choice(state, "--threads", threads_names, arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option threads_options[] = {
	{ "threads", KEY_THREADS, "WHICH", 0,
	  "groups (default): threads with equal stacks together, long stacks shortened; all: every "
	  "thread with every frame and all details; python: the same, for threads that run Python; "
	  "main: the same, for the main thread",
	  VT_OUTPUT_GROUP },
	{ 0 },
};
static const struct argp_child format_child[] = { { &vt_format_argp, 0, NULL, 0 }, { 0 } };

const struct argp vt_output_argp = { .options = threads_options,
				     .parser = parse_threads,
				     .children = format_child };

static bool is_standard(const char *file)
{
	return !strcmp(file, "-");
}

/* Where neither exists: whether both names are one in the same directory. */
static bool is_same_new_file(const char *a, const char *b)
{
	const char *slash_a = strrchr(a, '/'), *slash_b = strrchr(b, '/');
	VT_FREE char *directory_a = slash_a ? strndup(a, (size_t)(slash_a - a) + 1) : strdup(".");
	VT_FREE char *directory_b = slash_b ? strndup(b, (size_t)(slash_b - b) + 1) : strdup(".");
	struct stat st_a, st_b;

	if (!strcmp(a, b))
		return true;
	return directory_a && directory_b && !stat(directory_a, &st_a) &&
	       !stat(directory_b, &st_b) && st_a.st_dev == st_b.st_dev &&
	       st_a.st_ino == st_b.st_ino &&
	       !strcmp(slash_a ? slash_a + 1 : a, slash_b ? slash_b + 1 : b);
}

/* A regular file, whatever its names: all can write to one pipe, or to /dev/null. */
static bool is_same_file(const char *a, const char *b)
{
	struct stat st_a, st_b;
	bool has_a = !stat(a, &st_a), has_b = !stat(b, &st_b);

	if (has_a && has_b)
		return S_ISREG(st_a.st_mode) && st_a.st_dev == st_b.st_dev &&
		       st_a.st_ino == st_b.st_ino;
	return !has_a && !has_b && is_same_new_file(a, b);
}

void vt_refuse_shared_file(const struct argp_state *state, const char *option, const char *file,
			   const char *other_option, const char *other_file)
{
	if (!file || !other_file)
		return;
	if (is_standard(file) && is_standard(other_file))
		argp_error(state, "%s and %s cannot both write to standard output", option,
			   other_option);
	else if (!is_standard(file) && !is_standard(other_file) && is_same_file(file, other_file))
		argp_error(state, "%s and %s name the same file", option, other_option);
}

void vt_refuse_overwrite(const struct argp_state *state, const char *option, const char *output,
			 const char *input)
{
	if (output && !is_standard(output) && !is_standard(input) && is_same_file(output, input))
		argp_error(state, "%s would replace %s, which is to be read", option, input);
}

static error_t parse_prometheus(int key, char *arg, struct argp_state *state)
{
	struct vt_output *output = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = output;
		return 0;
	case KEY_PROMETHEUS:
		output->prometheus = arg;
		return 0;
	case ARGP_KEY_END:
		vt_refuse_shared_file(state, "--prometheus", output->prometheus, "--json",
				      output->json);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option prometheus_options[] = {
	{ "prometheus", KEY_PROMETHEUS, "FILE", 0,
	  "Write metrics for Prometheus to FILE, such as one with the ending .prom where "
	  "node_exporter's textfile collector looks; - is standard output, instead of the text",
	  VT_OUTPUT_GROUP },
	{ 0 },
};

const struct argp vt_prometheus_argp = { .options = prometheus_options,
					 .parser = parse_prometheus,
					 .children = format_child };

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

static void adapt_to_terminal(struct vt_output *output)
{
	struct winsize size;
	bool terminal = isatty(STDOUT_FILENO);
	const char *no_color = getenv("NO_COLOR");
	bool plain = (no_color && *no_color) || vt_terminal_is_dumb();

	if (!output->writer.columns && terminal && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) &&
	    size.ws_col)
		output->writer.columns = size.ws_col < VT_MIN_COLUMNS ? VT_MIN_COLUMNS :
					 size.ws_col > VT_MAX_COLUMNS ? VT_MAX_COLUMNS :
									size.ws_col;
	output->writer.colour = output->color == VT_COLOR_ALWAYS ||
				(output->color == VT_COLOR_AUTO && terminal && !plain);
	if (!utf8_locale() && terminal)
		output->writer.ascii = true;
}

static bool dumb; /* the terminal knows no escape sequences */

static const char *(*act_on_interrupt)(void);

void vt_output_on_interrupt(const char *(*act)(void))
{
	act_on_interrupt = act;
}

static void say_interrupted(const char *text)
{
	vt_say_at_once("vramtap: ", 9);
	vt_say_at_once(text, strlen(text));
	vt_say_at_once("\n", 1);
}

/* Lets go, says so, and exits. */
static void on_interrupt(int signo)
{
	static const char text[] = "\r\033[Kvramtap: interrupted; the process was released\n";
	size_t skip = isatty(STDERR_FILENO) && !dumb ? 0 : 4;

	const char *said = act_on_interrupt ? act_on_interrupt() : NULL;

	vt_session_emergency_release();
	if (said) {
		vt_say_at_once(text + skip, 4 - skip);
		say_interrupted(said);
	} else {
		vt_say_at_once(text + skip, sizeof(text) - 1 - skip);
	}
	_exit(128 + signo);
}

static void catch_interrupts(void)
{
	/* SIGQUIT, too: the kernel would release nothing before a core is written. */
	vt_ends_handle(on_interrupt, NULL);
	/*
	 * Job control must not stop us while the target's threads are stopped: they would stay so.
	 */
	signal(SIGTSTP, SIG_IGN);
	signal(SIGTTOU, SIG_IGN);
	signal(SIGTTIN, SIG_IGN);
}

void vt_output_begin(struct vt_output *output)
{
	adapt_to_terminal(output);
	dumb = vt_terminal_is_dumb();
	catch_interrupts();
	vt_progress_enable(!output->quiet);
}

void vt_print_escaped(FILE *out, const char *text)
{
	struct vt_str line = { 0 };

	vt_str_add_escaped(&line, text, strlen(text));
	fputs(vt_str_get(&line), out);
	vt_str_deinit(&line);
}

bool vt_output_is_json_only(const struct vt_output *output)
{
	return (output->json && !strcmp(output->json, "-")) ||
	       (output->prometheus && !strcmp(output->prometheus, "-"));
}

struct vt_error *vt_output_text(const struct vt_output *output, vt_write_fn *write_document,
				const void *what)
{
	struct vt_error *err = write_document(what, &output->writer, stdout);

	if (!err && (fflush(stdout) || ferror(stdout)))
		err = vt_error_create_os(errno, "cannot write the report");
	if (!err || err->code != VT_ERR_OS || err->errnum != EPIPE)
		return err;
	/* "vramtap stacks PID | head" has what it wanted. */
	vt_error_destroy(err);
	return vt_error_create(VT_ERR_CLOSED, "standard output was closed");
}

struct vt_error *vt_output_file(const struct vt_output *output, vt_write_fn *write_document,
				const void *what, const char *path)
{
	if (!strcmp(path, "-"))
		return vt_output_text(output, write_document, what);
	return vt_save(write_document, what, &output->writer, path);
}

struct vt_error *vt_output_json(const struct vt_output *output, vt_write_fn *write_document,
				const void *what)
{
	return output->json ? vt_output_file(output, write_document, what, output->json) : NULL;
}

struct vt_error *vt_output_prometheus(const struct vt_output *output, vt_write_fn *write_document,
				      const void *what)
{
	struct vt_output metrics = *output;

	/* Their reader is another user: node_exporter's. */
	metrics.writer.for_others = true;
	return output->prometheus ?
		       vt_output_file(&metrics, write_document, what, output->prometheus) :
		       NULL;
}
