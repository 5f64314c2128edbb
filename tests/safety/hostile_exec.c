/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostile_exec STATS_FILE [ROUND]: a process that becomes itself anew twenty times a second, with
 * threads that end by that. What it starts with each time must be what it started with the first
 * time: no descriptor, thread, child, pending signal or mask that somebody else has left.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "targets/spy.h"

#define ROUND_US 50000
#define N_THREADS 3

static struct victim_stats *stats;
static volatile sig_atomic_t asked_to_end;

static void on_end(int sig)
{
	(void)sig;
	asked_to_end = 1;
}

static void *sleeper(void *arg)
{
	for (;;)
		usleep(2000);
	return arg;
}

static void wrong(const char *what, long got, long want)
{
	if (got == want)
		return;
	stats->threads[0].errors++;
	if (!stats->first_error[0])
		snprintf(stats->first_error, sizeof(stats->first_error), "%s: %ld, not %ld", what,
			 got, want);
}

static long entries(const char *path)
{
	DIR *dir = opendir(path);
	long n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n - 2;
}

static void check_start(long descriptors)
{
	sigset_t mask, pending;

	/* One more is the directory that is read. */
	wrong("descriptors at the start", entries("/proc/self/fd"), descriptors);
	wrong("threads at the start", entries("/proc/self/task"), 1);
	errno = 0;
	if (waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD)
		wrong("children at the start", 1, 0);
	sigprocmask(SIG_SETMASK, NULL, &mask);
	sigpending(&pending);
	for (int s = 1; s < 32; s++) {
		wrong("a blocked signal at the start", sigismember(&mask, s), 0);
		wrong("a pending signal at the start", sigismember(&pending, s), 0);
	}
}

int main(int argc, char **argv)
{
	char descriptors[32];
	pthread_t id;
	int fd;

	if (argc < 2)
		return 64;
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigaction(SIGTERM, &(struct sigaction){ .sa_handler = on_end }, NULL);
	snprintf(descriptors, sizeof(descriptors), "%s", argc > 2 ? argv[2] : "");
	if (argc <= 2)
		snprintf(descriptors, sizeof(descriptors), "%ld", entries("/proc/self/fd"));
	fd = open(argv[1], O_RDWR | O_CLOEXEC);
	stats = mmap(NULL, sizeof(*stats), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd < 0 || stats == MAP_FAILED)
		return 1;
	close(fd);
	check_start(atol(descriptors));
	stats->threads[0].tid = (uint64_t)getpid();
	snprintf(stats->threads[0].name, sizeof(stats->threads[0].name), "main");
	stats->n_threads = 1;
	__atomic_fetch_add(&stats->threads[0].rounds, 1, __ATOMIC_SEQ_CST);
	__atomic_store_n(&stats->ready, 1, __ATOMIC_SEQ_CST);
	for (int i = 0; i < N_THREADS; i++)
		if (pthread_create(&id, NULL, sleeper, NULL))
			return 1;
	for (double end = spy_now_ms() + ROUND_US / 1e3; spy_now_ms() < end && !asked_to_end;)
		usleep(1000);
	if (asked_to_end)
		return stats->threads[0].errors ? SPY_HARMED : SPY_UNHARMED;
	execl("/proc/self/exe", argv[0], argv[1], descriptors, NULL);
	return 2;
}
