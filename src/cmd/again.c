/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/again.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/ends.h"
#include "base/progress.h"
#include "cmd/arguments.h"

#define DEFAULT_LOOKS 2
#define MAX_LOOKS 10000
#define DEFAULT_INTERVAL_NS VT_NS_PER_S
#define MIN_INTERVAL_MS 50
#define MAX_INTERVAL_S 3600

enum { KEY_ONCE = 1024, KEY_AGAIN };

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "Stuck or slow:", VT_AGAIN_GROUP },
	{ "again", KEY_AGAIN, "N[xTIME]", 0,
	  "Look N times, one second (or TIME, such as 5s or 200ms) apart, and say how long each "
	  "thread has stood where; further looks stop no thread, but report then asks streams that "
	  "had work once more (default on a terminal: 2)",
	  0 },
	{ "once", KEY_ONCE, NULL, 0, "Do not look a second time", 0 },
	{ 0 },
};

/* As all times, and "200ms". Ends with a usage error for anything else. */
static uint64_t parse_interval(struct argp_state *state, const char *text)
{
	size_t digits = strspn(text, "0123456789");
	unsigned long ms = strtoul(text, NULL, 10);

	if (!digits || strcmp(text + digits, "ms") != 0)
		return vt_parse_time(state, "--again", text, MAX_INTERVAL_S);
	if (digits > 7 || ms < MIN_INTERVAL_MS || ms > MAX_INTERVAL_S * 1000)
		argp_error(state, "--again: the time between two looks is at least %d ms",
			   MIN_INTERVAL_MS);
	return ms * VT_NS_PER_MS;
}

static void parse_again(struct argp_state *state, const char *arg, struct vt_again_choice *choice)
{
	char *end;

	errno = 0;
	unsigned long looks = strtoul(arg, &end, 10);

	if (errno || end == arg || *arg < '0' || *arg > '9' || looks < 2 || looks > MAX_LOOKS ||
	    (*end && *end != 'x'))
		argp_error(state,
			   "--again takes a number of looks from 2 to %d, and perhaps the time "
			   "between them, such as 10 or 10x5s, not \"%s\"",
			   MAX_LOOKS, arg);
	if (*end)
		choice->interval_ns = parse_interval(state, end + 1);
	choice->looks = (unsigned int)looks;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct vt_again_choice *choice = state->input;

	switch (key) {
	case KEY_ONCE:
		choice->once = true;
		return 0;
	case KEY_AGAIN:
		parse_again(state, arg, choice);
		return 0;
	case ARGP_KEY_END:
		if (choice->once && choice->looks)
			argp_error(state, "--again and --once exclude each other");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp vt_again_argp = { .options = options, .parser = parse_option };

void vt_again_refuse(const struct argp_state *state, const struct vt_again_choice *choice,
		     const char *core)
{
	if (choice->looks && core)
		argp_error(state, "--again and %s exclude each other", core);
}

bool vt_again_wanted(const struct vt_again_choice *choice, bool text)
{
	return !choice->once && (choice->looks || vt_again_text_first(text));
}

bool vt_again_text_first(bool text)
{
	return text && isatty(STDOUT_FILENO);
}

/*
 * Nothing is stopped between the looks, nor during a further one: an interrupt need not release
 * anything, and only ends the waiting. Another one ends vramtap.
 */
static volatile sig_atomic_t interrupted;

static void on_signal(int signo)
{
	if (interrupted)
		_exit(128 + signo);
	interrupted = 1;
}

/* False: the user has had enough. */
static bool wait_until(uint64_t due_ns)
{
	for (uint64_t now = vt_now_ns(); now < due_ns && !interrupted; now = vt_now_ns())
		vt_sleep_ns(due_ns - now);
	return !interrupted;
}

void vt_again_run(struct vt_again **again, size_t n, const struct vt_again_choice *choice)
{
	unsigned int looks = choice->looks ? choice->looks : DEFAULT_LOOKS;
	uint64_t interval_ns = choice->interval_ns ? choice->interval_ns : DEFAULT_INTERVAL_NS;
	struct sigaction old[VT_N_ENDS];
	VT_FREE bool *over = calloc(n ? n : 1, sizeof(*over));
	size_t left = 0;

	for (size_t i = 0; i < n; i++)
		left += again[i] != NULL;
	vt_ends_handle(on_signal, old);
	for (unsigned int look = 1; over && look < looks && left > 0 && !interrupted; look++) {
		left = 0;
		for (size_t i = 0; i < n && !interrupted; i++) {
			if (!again[i] || over[i])
				continue;
			vt_progress("waiting to look again (Ctrl-C ends it)");
			if (!wait_until(vt_again_due(again[i], interval_ns)))
				break;
			over[i] = !vt_again_look(again[i]);
			left += !over[i];
		}
	}
	vt_progress_end();
	vt_ends_restore(old); /* what comes last may stop threads: a signal releases them first */
	for (size_t i = 0; i < n; i++) {
		vt_again_end(again[i], interval_ns, interrupted);
		again[i] = NULL;
	}
}
