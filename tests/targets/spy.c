/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "spy.h"

/* A busy machine may keep a thread from the processor this long; a longer hang means harm. */
#define LATE_MS 3000.0

struct victim_stats *spy_stats;
static struct spy spies[VICTIM_MAX_THREADS];
static volatile sig_atomic_t asked_to_end;

uint64_t spy_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

double spy_now_ms(void)
{
	return (double)spy_now_ns() / 1e6;
}

void spy_wrong(struct spy *spy, const char *format, ...)
{
	char text[112];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (!__atomic_fetch_add(&spy->shared->errors, 1, __ATOMIC_SEQ_CST) &&
	    !spy_stats->first_error[0])
		snprintf(spy_stats->first_error, sizeof(spy_stats->first_error), "%s: %s",
			 spy->shared->name, text);
}

void spy_check(struct spy *spy, const char *what, long got, long want)
{
	if (got != want)
		spy_wrong(spy, "%s gave %ld (errno %d), not %ld", what, got, errno, want);
}

void spy_check_duration(struct spy *spy, double start_ms, double ms)
{
	double took = spy_now_ms() - start_ms;

	if (took < ms - 0.05 || took > ms + LATE_MS)
		spy_wrong(spy, "took %.2f ms, not %.0f", took, ms);
}

struct spy *spy_thread(size_t i)
{
	return &spies[i];
}

static void on_end(int sig)
{
	(void)sig;
	asked_to_end = 1;
}

static void *run(void *arg)
{
	struct spy *spy = arg;
	sigset_t mask, now;

	/* A mask of its own, to be found unchanged. SIGTERM is the main thread's. */
	sigemptyset(&mask);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGWINCH);
	sigaddset(&mask, SIGRTMIN + 2 + (int)(spy - spies) % 24);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	spy->shared->tid = (uint64_t)syscall(SYS_gettid);
	for (;;) {
		spy->kind->round(spy);
		pthread_sigmask(SIG_SETMASK, NULL, &now);
		if (memcmp(&mask, &now, 8) != 0)
			spy_wrong(spy, "the signal mask changed");
		__atomic_fetch_add(&spy->shared->rounds, 1, __ATOMIC_SEQ_CST);
	}
	return NULL;
}

static struct victim_stats *map_stats(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	void *p = fd < 0 ?
			  MAP_FAILED :
			  mmap(NULL, sizeof(*spy_stats), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED) {
		perror(path);
		exit(1);
	}
	close(fd);
	return p;
}

/* pause() returns for a signal with a handler, and for nothing else. */
static int wait_for_end(void)
{
	uint64_t errors = 0;

	while (!asked_to_end) {
		pause();
		if (!asked_to_end)
			spy_wrong(&spies[0], "pause() returned without a signal");
	}
	for (size_t i = 0; i < spy_stats->n_threads; i++)
		errors += spy_stats->threads[i].errors;
	return errors ? SPY_HARMED : SPY_UNHARMED;
}

int spy_main(const char *stats_path, const struct spy_kind *kinds, size_t n)
{
	/* Where Yama lets only ancestors trace. */
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	spy_stats = map_stats(stats_path);
	sigaction(SIGTERM, &(struct sigaction){ .sa_handler = on_end }, NULL);
	for (size_t i = 0; i < n; i++) {
		struct spy *spy = &spies[i];

		spy->shared = &spy_stats->threads[i];
		spy->kind = &kinds[i];
		spy->seed = (unsigned int)i + 1;
		spy->fd = -1;
		snprintf(spy->shared->name, sizeof(spy->shared->name), "%s", kinds[i].name);
		if (kinds[i].prepare)
			kinds[i].prepare(spy);
	}
	for (size_t i = 0; i < n; i++) {
		pthread_t id;

		if (pthread_create(&id, NULL, run, &spies[i]))
			return 1;
	}
	spy_stats->n_threads = n;
	__atomic_store_n(&spy_stats->ready, 1, __ATOMIC_SEQ_CST);
	return wait_for_end();
}
