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

static void (*_Atomic at_end)(void);

void vt_watchdog_at_end(void (*f)(void))
{
	at_end = f;
}

/* The other thread may be anywhere, with any lock: only system calls from here on. */
static void give_up(void)
{
	char text[256];
	char process[32] = "";
	void (*f)(void) = at_end;
	int n;

	if (f)
		f();
	if (watchdog.pid)
		snprintf(process, sizeof(process), "process %d: ", (int)watchdog.pid);
	n = snprintf(text, sizeof(text),
		     "vramtap: %sgave up while %s, because that blocks in the kernel%s\n", process,
		     watchdog.doing, watchdog.pid ? "; whatever was stopped goes on" : "");

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

static void before_fork(void)
{
	pthread_mutex_lock(&watchdog.lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&watchdog.lock);
}

/* A child has not the thread, and starts its own. */
static void in_child(void)
{
	watchdog.started = false;
	watchdog.deadline_ns = 0;
	at_end = NULL;
	pthread_mutex_unlock(&watchdog.lock);
}

/* Signals are for the main thread: their handlers release what it holds by ptrace. */
static void start(void)
{
	pthread_condattr_t attr;
	static bool prepared;
	sigset_t all, before;
	pthread_t thread;

	if (!prepared)
		prepared = !pthread_atfork(before_fork, after_fork, in_child);
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
