/* SPDX-License-Identifier: Apache-2.0 */
/* vramtap ps: all processes that use CUDA, once or again and again. */
#include "ps/ps.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/ends.h"
#include "base/progress.h"
#include "cmd/cmd.h"
#include "cmd/output.h"
#include "collect/watchdog.h"

enum {
	KEY_ALL = VT_KEY_COMMAND,
	KEY_WATCH,
};

#define WATCH_S 2 /* unless told otherwise */
#define MAX_WATCH_S 86400

struct arguments {
	bool all;
	uint64_t every_ns; /* 0: once */
	struct vt_output output;
};

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "What to show:", 1 },
	{ "all", KEY_ALL, NULL, 0,
	  "Show processes that hold no memory, too: forked ones, and those that have only loaded "
	  "the driver's library",
	  0 },
	{ "watch", KEY_WATCH, "TIME", OPTION_ARG_OPTIONAL,
	  "Look again every TIME (2s), until q or Ctrl-C; the state then says for how long the "
	  "main thread has not run",
	  0 },
	{ 0 },
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct arguments *args = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &args->output;
		return 0;
	case KEY_ALL:
		args->all = true;
		return 0;
	case KEY_WATCH:
		args->every_ns = arg ? vt_parse_time(state, "--watch", arg, MAX_WATCH_S) :
				       WATCH_S * VT_NS_PER_S;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "no argument is expected: it shows all processes; vramtap report "
				  "PID shows one");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_child children[] = { { &vt_prometheus_argp, 0, NULL, 0 }, { 0 } };

static const struct argp argp = {
	.options = options,
	.parser = parse_option,
	.children = children,
	.doc = "Show all processes of this machine that use CUDA: whose they are, which devices "
	       "and how much memory they hold by PyTorch's own statistics and by the kernel "
	       "driver's count, and their state. Nothing is stopped and no code runs in them.\v"
	       "Exit status: 0 everything that is shown is known; 1 partial (it says what is "
	       "missing and why); 2 nothing could be learned; 3 not permitted; 64 wrong usage.",
};

/* ---- the terminal ---- */

static volatile sig_atomic_t ended;

static void on_signal(int signo)
{
	(void)signo;
	ended = 1;
}

/* Nothing is held in any process: the usual ends and stops are harmless. */
static void set_signals(bool watch)
{
	vt_ends_handle(watch ? on_signal : SIG_DFL, NULL);
	if (!watch)
		signal(SIGTSTP, SIG_DFL);
}

struct screen {
	bool on;   /* standard output is a terminal that can be drawn on */
	bool keys; /* standard input is one, too */
	struct termios before;
};

/* Of the watchdog, which ends us in the middle of a look. */
static struct screen *drawn;

static void restore_terminal(void)
{
	static const char text[] = "\033[?25h\033[?1049l";
	ssize_t ignored = 0;

	if (drawn->on)
		ignored = write(STDOUT_FILENO, text, sizeof(text) - 1);
	(void)ignored;
	if (drawn->keys)
		tcsetattr(STDIN_FILENO, TCSANOW, &drawn->before);
}

static void say(const char *text)
{
	fputs(text, stdout);
	fflush(stdout);
}

static void screen_begin(struct screen *screen)
{
	struct termios raw;
	const char *term = getenv("TERM");

	screen->on = isatty(STDOUT_FILENO) && term && *term && strcmp(term, "dumb") != 0;
	/* In the background, changing the terminal would stop us. */
	screen->keys = screen->on && isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) == getpgrp() &&
		       !tcgetattr(STDIN_FILENO, &screen->before);
	if (screen->keys) {
		raw = screen->before;
		raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
		tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	}
	if (screen->on)
		say("\033[?1049h\033[?25l");
	drawn = screen;
	vt_watchdog_at_end(restore_terminal);
}

static void screen_end(struct screen *screen)
{
	if (screen->on)
		say("\033[?25h\033[?1049l");
	if (screen->keys)
		tcsetattr(STDIN_FILENO, TCSANOW, &screen->before);
	screen->on = screen->keys = false;
	vt_watchdog_at_end(NULL);
}

static void adapt_width(struct vt_output *output, bool fixed, unsigned int *rows)
{
	struct winsize size;

	*rows = 0;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_col)
		return;
	*rows = size.ws_row;
	if (!fixed)
		output->writer.columns = size.ws_col < VT_MIN_COLUMNS ? VT_MIN_COLUMNS :
					 size.ws_col > VT_MAX_COLUMNS ? VT_MAX_COLUMNS :
									size.ws_col;
}

/* Over what was there, in one write: nothing flickers. */
static void draw(const char *text, unsigned int rows)
{
	unsigned int row = 0;

	fputs("\033[H", stdout);
	for (const char *line = text; *line && (!rows || row + 1 < rows); row++) {
		size_t n = strcspn(line, "\n");

		fwrite(line, 1, n, stdout);
		fputs("\033[K\n", stdout);
		line += n + (line[n] == '\n');
	}
	say("\033[J");
}

/* ---- */

static struct vt_error *as_text(const struct arguments *args, const struct vt_ps_document *document,
				char **text)
{
	size_t n = 0;
	FILE *out = open_memstream(text, &n);
	struct vt_error *err;

	if (!out)
		return &vt_enomem;
	err = vt_ps_write_text(document, &args->output.writer, out);
	if (fclose(out) && !err)
		err = &vt_enomem;
	return err;
}

static struct vt_error *look(struct arguments *args, struct vt_ps_memory *memory,
			     const struct screen *screen, unsigned int rows, int *status)
{
	struct vt_ps ps = { 0 };
	struct vt_ps_document document = { .ps = &ps, .all = args->all };
	struct vt_error *err;
	char *text = NULL;

	vt_progress("reading the processes");
	err = vt_ps_init(&ps, memory);
	vt_progress_end();
	if (!err)
		*status = ps.denied ? VT_EXIT_NOT_PERMITTED : (int)ps.completeness;
	if (!err)
		err = vt_output_json(&args->output, vt_ps_write_json, &document);
	if (!err)
		err = vt_output_prometheus(&args->output, vt_ps_write_prometheus, &document);
	if (!err && !vt_output_is_json_only(&args->output)) {
		if (screen && screen->on) {
			err = as_text(args, &document, &text);
			if (!err)
				draw(text, rows);
		} else {
			err = vt_output_text(&args->output, vt_ps_write_text, &document);
		}
	}
	free(text);
	vt_ps_deinit(&ps);
	return err;
}

/* Until the next look, or a key. */
static void wait_for(const struct screen *screen, uint64_t until_ns)
{
	while (!ended && !vt_deadline_passed(until_ns)) {
		struct pollfd keys = { .fd = screen->keys ? STDIN_FILENO : -1, .events = POLLIN };
		uint64_t left = until_ns - vt_now_ns();
		char key;

		if (left > VT_NS_PER_S)
			left = VT_NS_PER_S;
		if (poll(&keys, 1, (int)(left / VT_NS_PER_MS) + 1) <= 0)
			continue;
		if (read(STDIN_FILENO, &key, 1) != 1 || key == 'q' || key == 'Q' || key == 4)
			ended = 1;
		else
			return; /* any other: at once */
	}
}

static struct vt_error *watch(struct arguments *args, int *status)
{
	struct vt_ps_memory memory = { 0 };
	struct screen screen = { 0 };
	bool fixed = args->output.writer.columns && !isatty(STDOUT_FILENO);
	struct vt_error *err = NULL;

	if (!vt_output_is_json_only(&args->output))
		screen_begin(&screen);
	while (!ended && !err) {
		uint64_t next = vt_now_ns() + args->every_ns;
		unsigned int rows = 0;

		if (screen.on)
			adapt_width(&args->output, fixed, &rows);
		err = look(args, &memory, &screen, rows, status);
		if (!err)
			wait_for(&screen, next);
		if (!err && !ended && !screen.on && !vt_output_is_json_only(&args->output))
			putchar('\n');
	}
	screen_end(&screen);
	vt_ps_memory_deinit(&memory);
	return err;
}

int vt_cmd_ps(int argc, char **argv)
{
	struct arguments args = { 0 };
	int status = VT_EXIT_NOTHING;

	vt_parse_command(&argp, argc, argv, 0, &args);
	vt_output_begin(&args.output);
	set_signals(args.every_ns);
	if (args.every_ns)
		vt_progress_enable(false);

	VT_ERROR struct vt_error *err = args.every_ns ? watch(&args, &status) :
							look(&args, NULL, NULL, 0, &status);

	if (err)
		status = vt_exit_with(err);
	return status;
}
