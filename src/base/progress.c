/* SPDX-License-Identifier: Apache-2.0 */
#include "base/progress.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/terminal.h"

/* A shorter stage is not shown: most reports finish before this. */
#define SHOW_AFTER_MS 300

static bool enabled;
static const char *volatile current;
static volatile sig_atomic_t shown;

/*
 * A pipe that is ready takes 4096 bytes. What a terminal does not take at once is at most a few
 * lines.
 */
void vt_say_at_once(const char *text, size_t n)
{
	struct pollfd out = { .fd = STDERR_FILENO, .events = POLLOUT };
	ssize_t ignored = 0;

	if (poll(&out, 1, 0) == 1 && out.revents & POLLOUT)
		ignored = write(STDERR_FILENO, text, n);
	(void)ignored;
}

/* Async-signal-safe. */
static void show(int signo)
{
	const char *stage = current;
	int saved = errno;

	(void)signo;
	if (!stage)
		return;
	vt_say_at_once("\r\033[Kvramtap: ", 13);
	vt_say_at_once(stage, strlen(stage));
	vt_say_at_once(" \xe2\x80\xa6", 4);
	errno = saved;
	shown = 1;
}

static void arm(int ms)
{
	struct itimerval timer = { .it_value = { .tv_usec = ms * 1000 } };

	setitimer(ITIMER_REAL, &timer, NULL);
}

void vt_progress_enable(bool enable)
{
	struct sigaction action = { .sa_handler = show, .sa_flags = SA_RESTART };

	enabled = enable && isatty(STDERR_FILENO) && !vt_terminal_is_dumb();
	if (enabled)
		sigaction(SIGALRM, &action, NULL);
}

void vt_progress(const char *stage)
{
	if (!enabled)
		return;
	current = stage;
	if (shown)
		show(0);
	else
		arm(SHOW_AFTER_MS);
}

void vt_progress_end(void)
{
	ssize_t ignored;

	if (!enabled)
		return;
	arm(0);
	current = NULL;
	if (shown) {
		ignored = write(STDERR_FILENO, "\r\033[K", 4);
		(void)ignored;
	}
	shown = 0;
}
