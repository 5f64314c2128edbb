/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostile_timers STATS_FILE: POSIX timers that never stop ticking, each of which is compared with
 * the clock: signals to a thread (real-time and ordinary ones) that waits in calls of several
 * kinds, signals to the process, signals that are fetched with sigtimedwait(), and a timerfd. The
 * kernel counts what it does not deliver (si_overrun), so no tick may ever be missing.
 */
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "targets/spy.h"

#define TICK_NS UINT64_C(5000000)
#define LOOKS 1000 /* at intervals of 1 ms or more */
#define WAIT_NS 20000000L

#define RT_SIGNAL SIGRTMIN
#define PROCESS_SIGNAL (SIGRTMIN + 1) /* run() of spy.c blocks others */
#define FETCHED_SIGNAL (SIGRTMAX - 1)

struct ticks {
	uint64_t begin_ns; /* 0: not armed */
	uint64_t n;
};

static struct ticks all_ticks[VICTIM_MAX_THREADS];

static struct ticks *ticks_of(const struct spy *spy)
{
	return &all_ticks[spy - spy_thread(0)];
}

static void count(struct ticks *ticks, const siginfo_t *info)
{
	__atomic_fetch_add(&ticks->n, (uint64_t)(1 + info->si_overrun), __ATOMIC_SEQ_CST);
}

static void on_tick(int sig, siginfo_t *info, void *context)
{
	int saved = errno;

	(void)sig;
	(void)context;
	if (info->si_code == SI_TIMER)
		count(info->si_value.sival_ptr, info);
	errno = saved;
}

/* For an instant, not for a time from now: else nobody knew how many ticks there must be. */
static struct itimerspec from(struct ticks *ticks)
{
	ticks->begin_ns = spy_now_ns();
	return (struct itimerspec){
		.it_interval = { 0, TICK_NS },
		.it_value = { (time_t)((ticks->begin_ns + TICK_NS) / 1000000000),
			      (long)((ticks->begin_ns + TICK_NS) % 1000000000) },
	};
}

static void arm(struct spy *spy, int signo, int notify)
{
	struct ticks *ticks = ticks_of(spy);
	struct sigevent event = { .sigev_notify = notify,
				  .sigev_signo = signo,
				  .sigev_value = { .sival_ptr = ticks } };
	struct itimerspec every;
	timer_t timer;

	if (ticks->begin_ns)
		return;
	event._sigev_un._tid = (int)syscall(SYS_gettid);
	if (timer_create(CLOCK_MONOTONIC, &event, &timer)) {
		spy_wrong(spy, "timer_create: errno %d", errno);
		return;
	}
	every = from(ticks);
	timer_settime(timer, TIMER_ABSTIME, &every, NULL);
}

static uint64_t due(const struct ticks *ticks)
{
	return (spy_now_ns() - ticks->begin_ns) / TICK_NS;
}

/*
 * A late tick is no lost one (a virtual processor may get no time); but one that is lost is missing
 * for ever. What was said once is not said again.
 */
static void check(struct spy *spy, void (*fetch)(struct spy *spy))
{
	struct ticks *ticks = ticks_of(spy);
	uint64_t least = 0, n = 0, most = 0;

	for (int i = 0; i < LOOKS; i++) {
		least = due(ticks);
		if (fetch)
			fetch(spy);
		n = __atomic_load_n(&ticks->n, __ATOMIC_SEQ_CST);
		most = due(ticks);
		if (n >= least)
			break;
		usleep(1000);
	}
	if (n >= least && n <= most)
		return;
	spy_wrong(spy, "%llu ticks, not %llu to %llu", (unsigned long long)n,
		  (unsigned long long)least, (unsigned long long)most);
	__atomic_fetch_add(&ticks->n, most - n, __ATOMIC_SEQ_CST);
}

/* Calls to wait in */

static void open_timer(struct spy *spy)
{
	spy->fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
}

/* Restarted by SA_RESTART. */
static void wait_in_read(struct spy *spy)
{
	uint64_t expirations = 0;

	timerfd_settime(spy->fd, 0, &(struct itimerspec){ { 0, 0 }, { 0, WAIT_NS } }, NULL);
	spy_check(spy, "read of a timerfd", read(spy->fd, &expirations, sizeof(expirations)),
		  sizeof(expirations));
}

static void wait_in_sleep(struct spy *spy)
{
	struct timespec left = { 0, WAIT_NS };

	while (nanosleep(&left, &left))
		if (errno != EINTR) {
			spy_wrong(spy, "nanosleep: errno %d", errno);
			return;
		}
}

/* The signal waits until the call has ended. */
static void wait_masked(struct spy *spy)
{
	struct timespec ts = { 0, WAIT_NS };
	sigset_t mask;

	sigfillset(&mask);
	spy_check(spy, "ppoll", ppoll(NULL, 0, &ts, &mask), 0);
}

static void wait_in_futex(struct spy *spy)
{
	static uint32_t never;
	struct timespec ts = { 0, WAIT_NS };

	if (syscall(SYS_futex, &never, FUTEX_WAIT_PRIVATE, 0, &ts) != -1 ||
	    (errno != ETIMEDOUT && errno != EINTR))
		spy_wrong(spy, "futex: errno %d", errno);
}

/* Each round of each thread */

static void one_round(struct spy *spy, int signo, int notify, void (*wait)(struct spy *spy))
{
	arm(spy, signo, notify);
	wait(spy);
	check(spy, NULL);
}

static void do_read(struct spy *spy)
{
	one_round(spy, RT_SIGNAL, SIGEV_THREAD_ID, wait_in_read);
}

static void do_sleep(struct spy *spy)
{
	one_round(spy, RT_SIGNAL, SIGEV_THREAD_ID, wait_in_sleep);
}

static void do_masked(struct spy *spy)
{
	one_round(spy, RT_SIGNAL, SIGEV_THREAD_ID, wait_masked);
}

static void do_ordinary(struct spy *spy)
{
	one_round(spy, SIGUSR1, SIGEV_THREAD_ID, wait_in_futex);
}

/* Whichever thread handles it. */
static void do_process(struct spy *spy)
{
	one_round(spy, PROCESS_SIGNAL, SIGEV_SIGNAL, wait_in_read);
}

static void fetch_signals(struct spy *spy)
{
	struct timespec none = { 0, 0 };
	siginfo_t info;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, FETCHED_SIGNAL);
	while (sigtimedwait(&set, &info, &none) == FETCHED_SIGNAL)
		count(ticks_of(spy), &info);
}

/* run() of spy.c compares the mask after each round: it is blocked within the round only. */
static void do_fetched(struct spy *spy)
{
	sigset_t set, usual;

	sigemptyset(&set);
	sigaddset(&set, FETCHED_SIGNAL);
	pthread_sigmask(SIG_BLOCK, &set, &usual);
	arm(spy, FETCHED_SIGNAL, SIGEV_THREAD_ID);
	wait_in_sleep(spy);
	check(spy, fetch_signals);
	pthread_sigmask(SIG_SETMASK, &usual, NULL);
}

static void fetch_expirations(struct spy *spy)
{
	uint64_t expirations = 0;

	if (read(spy->fd, &expirations, sizeof(expirations)) == sizeof(expirations))
		__atomic_fetch_add(&ticks_of(spy)->n, expirations, __ATOMIC_SEQ_CST);
}

static void do_timerfd(struct spy *spy)
{
	if (!ticks_of(spy)->begin_ns) {
		struct itimerspec every = from(ticks_of(spy));

		timerfd_settime(spy->fd, TFD_TIMER_ABSTIME, &every, NULL);
	}
	wait_in_sleep(spy);
	check(spy, fetch_expirations);
}

static const struct spy_kind kinds[] = {
	{ "read", do_read, open_timer },       { "read", do_read, open_timer },
	{ "sleep", do_sleep, NULL },           { "masked", do_masked, NULL },
	{ "ordinary", do_ordinary, NULL },     { "ordinary", do_ordinary, NULL },
	{ "process", do_process, open_timer }, { "fetched", do_fetched, NULL },
	{ "timerfd", do_timerfd, open_timer },
};

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_sigaction = on_tick, .sa_flags = SA_SIGINFO | SA_RESTART };
	sigset_t set;

	if (argc != 2)
		return 64;
	/* Not for the main thread, whose pause() it would end. The others set their own masks. */
	sigemptyset(&set);
	sigaddset(&set, PROCESS_SIGNAL);
	pthread_sigmask(SIG_SETMASK, &set, NULL);
	sigaction(RT_SIGNAL, &action, NULL);
	sigaction(PROCESS_SIGNAL, &action, NULL);
	sigaction(FETCHED_SIGNAL, &action, NULL); /* between two rounds */
	sigaction(SIGUSR1, &action, NULL);
	return spy_main(argv[1], kinds, sizeof(kinds) / sizeof(kinds[0]));
}
