/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/watchdog.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/exit.h"
#include "base/progress.h"

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool started;
	uint64_t deadline_ns; /* 0: none */
	pid_t pid;
	const char *doing;
} watchdog = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* The other thread may be anywhere, with any lock: only system calls from here on. */
static void give_up(void)
{
	char text[256];
	int n = snprintf(
		text, sizeof(text),
		"vramtap: process %d: gave up while %s, because that blocks in the kernel; %s\n",
		(int)watchdog.pid, watchdog.doing, "whatever was stopped goes on");

	vt_say_at_once(text, n < (int)sizeof(text) ? (size_t)n : sizeof(text) - 1);
	_exit(VT_EXIT_NOTHING);
}

static void *watch(void *arg)
{
	pthread_mutex_lock(&watchdog.lock);
	for (;;) {
		if (!watchdog.deadline_ns) {
			pthread_cond_wait(&watchdog.changed, &watchdog.lock);
		} else if (vt_deadline_passed(watchdog.deadline_ns)) {
			give_up();
		} else {
			struct timespec until = {
				.tv_sec = (time_t)(watchdog.deadline_ns / VT_NS_PER_S),
				.tv_nsec = (long)(watchdog.deadline_ns % VT_NS_PER_S),
			};

			pthread_cond_timedwait(&watchdog.changed, &watchdog.lock, &until);
		}
	}
	return arg;
}

/* Signals are for the main thread: their handlers release what it holds by ptrace. */
static void start(void)
{
	pthread_condattr_t attr;
	sigset_t all, before;
	pthread_t thread;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&watchdog.changed, &attr);
	pthread_condattr_destroy(&attr);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	watchdog.started = !pthread_create(&thread, NULL, watch, NULL);
	if (watchdog.started)
		pthread_detach(thread);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void set(uint64_t deadline_ns, pid_t pid, const char *doing)
{
	if (!watchdog.started && deadline_ns)
		start();
	if (!watchdog.started)
		return;
	pthread_mutex_lock(&watchdog.lock);
	watchdog.deadline_ns = deadline_ns;
	watchdog.pid = pid;
	watchdog.doing = doing;
	pthread_cond_signal(&watchdog.changed);
	pthread_mutex_unlock(&watchdog.lock);
}

void vt_watchdog_arm(uint64_t ns, pid_t pid, const char *doing)
{
	set(vt_now_ns() + ns, pid, doing);
}

void vt_watchdog_disarm(void)
{
	set(0, 0, NULL);
}
