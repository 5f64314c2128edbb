/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Victim and spy: injects into programs that notice everything (tests/targets/victim*), lets the
 * injector live, or kills it at random instants and at each fault point, and counts what came of
 * it: victims that died, hung, stayed stopped or saw something wrong, and what was left in them
 * (threads, descriptors, mappings). All of these must be 0.
 *
 * It finds the victims by VRAMTAP_BUILD_DIR and VRAMTAP_SOURCE_DIR. VRAMTAP_SOAK=N makes it 10 * N
 * times as long as it is by default, which is well below a minute.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "functional/victims.h"

#define MAX_SAMPLES 100000

/* What is measured, beside the harm that must be 0. */
struct tally {
	int runs, loaded, killed, failed;
	uint64_t lost_eintr, epoll_eintr;
	uint64_t *borrowed, *total;
	size_t n_samples;
	uint64_t whole_ns; /* of all that were complete, the injector's start to its end */
};

enum killing { KILL_NEVER, KILL_RANDOM, KILL_AT_POINT };

static const char *const fault_points[] = {
	"inject.stub-placed",   "inject.seized",      "inject.interrupted", "inject.stopped",
	"inject.block-written", "inject.committed",   "inject.masked",      "inject.detached",
	"inject.memfd-writing", "inject.ready-to-go", "inject.go",          "inject.mapped",
	"inject.request",       "inject.requested",
};

#define N_POINTS (sizeof(fault_points) / sizeof(fault_points[0]))

static struct tally all;
static unsigned int seed;

/* Runs */

static void account(const struct report *report)
{
	if (!report->created || !report->called) {
		printf("# FAILED: %s\n", report->created ?
						 "the helper's answer was not the right one" :
						 report->message);
		all.failed++;
		return;
	}
	all.loaded++;
	all.whole_ns += report->whole_ns;
	if (all.n_samples < MAX_SAMPLES) {
		all.borrowed[all.n_samples] = report->borrowed_ns;
		all.total[all.n_samples++] = report->total_ns;
	}
}

/*
 * Every other time a certain thread is borrowed, so that each kind of system call has its turn;
 * else the tool chooses.
 */
static pid_t pick_thread(const struct victim *victim, bool any_thread)
{
	uint64_t n = victim->stats->n_threads;

	if (!any_thread || rand_r(&seed) & 1)
		return 0;
	return (pid_t)victim->stats->threads[(uint64_t)rand_r(&seed) % n].tid;
}

/* A random instant within the time that an injection takes here, and a bit beyond. */
static uint64_t random_instant(void)
{
	uint64_t usual = all.loaded ? all.whole_ns / (uint64_t)all.loaded : 4 * VT_NS_PER_MS;

	if (usual > 8 * VT_NS_PER_MS)
		usual = 8 * VT_NS_PER_MS;
	return (uint64_t)rand_r(&seed) % (usual + usual / 4);
}

/* One injection. True when it was killed. */
static bool one_run(const struct victim *victim, enum killing killing, bool any_thread,
		    const char *point)
{
	pid_t tid = pick_thread(victim, any_thread);
	struct report report;
	int fds[2], status;
	char fault[64];
	pid_t pid;

	snprintf(fault, sizeof(fault), "kill:%s", point ? point : "");
	if (pipe2(fds, O_CLOEXEC))
		exit(99);
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		injector(victim->pid, tid, point ? fault : NULL, fds[1]);
	close(fds[1]);
	if (killing == KILL_RANDOM) {
		vt_sleep_ns(random_instant());
		kill(pid, SIGKILL);
	}
	waitpid(pid, &status, 0);
	all.runs++;
	if (WIFSIGNALED(status))
		all.killed++;
	else if (read(fds[0], &report, sizeof(report)) == sizeof(report))
		account(&report);
	else
		all.failed++;
	close(fds[0]);
	return WIFSIGNALED(status);
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static double us(const uint64_t *sorted, size_t n, size_t percent)
{
	return n ? (double)sorted[(n - 1) * percent / 100] / 1e3 : 0;
}

static void print_times(size_t from)
{
	size_t n = all.n_samples - from;

	qsort(all.borrowed + from, n, sizeof(uint64_t), compare);
	qsort(all.total + from, n, sizeof(uint64_t), compare);
	printf("#   %zu samples: borrowed p50 %.0f p99 %.0f max %.0f us; total p50 %.1f p99 %.1f max %.1f ms\n",
	       n, us(all.borrowed + from, n, 50), us(all.borrowed + from, n, 99),
	       us(all.borrowed + from, n, 100), us(all.total + from, n, 50) / 1e3,
	       us(all.total + from, n, 99) / 1e3, us(all.total + from, n, 100) / 1e3);
}

struct scenario {
	const char *name;
	const char *const *argv;
	enum killing killing;
	int runs;        /* or, at fault points, for each of them */
	int batch;       /* injections between two looks at the victim */
	bool any_thread; /* each of its threads can be borrowed sooner or later */
};

/* False when the victim cannot run here. */
static bool run_scenario(const struct scenario *scenario, int factor)
{
	size_t from = all.n_samples;
	struct victim victim = { 0 };
	int runs =
		scenario->runs * factor * (scenario->killing == KILL_AT_POINT ? (int)N_POINTS : 1);
	bool ready, fine;

	start_victim(&victim, scenario->argv);
	fine = ready = is_ready(&victim);
	printf("# %s: %d injections\n", scenario->name, runs);
	for (int i = 0; fine && i < runs; i++) {
		const char *point = scenario->killing == KILL_AT_POINT ?
					    fault_points[(size_t)i % N_POINTS] :
					    NULL;

		bool killed = one_run(&victim, scenario->killing, scenario->any_thread, point);

		/* Later the stub is there already. */
		if (point && !killed && (size_t)i < N_POINTS) {
			printf("# NOT REACHED: %s\n", point);
			all.failed++;
		}
		if ((i + 1) % scenario->batch == 0 || i + 1 == runs)
			fine = is_unharmed(&victim, point ? point : scenario->name);
	}
	if (fine)
		count_leaks(&victim);
	for (uint64_t i = 0; i < victim.stats->n_threads; i++) {
		if (!strcmp(victim.stats->threads[i].name, "signaller"))
			all.lost_eintr += victim.stats->threads[i].eintr;
		if (!strcmp(victim.stats->threads[i].name, "epoll"))
			all.epoll_eintr += victim.stats->threads[i].eintr;
	}
	if (all.n_samples > from)
		print_times(from);
	end_victim(&victim);
	return ready;
}

static int verdict(void)
{
	printf("# %d injections: %d complete, %d killed, %d failed; ", all.runs, all.loaded,
	       all.killed, all.failed);
	print_harm();
	printf("; EINTR: %llu of epoll, %llu lost\n", (unsigned long long)all.epoll_eintr,
	       (unsigned long long)all.lost_eintr);
	return is_any_harm() || all.failed || !all.loaded;
}

static const char *directory(const char *variable)
{
	const char *value = getenv(variable);

	return value ? value : ".";
}

int main(void)
{
	char c_path[512], malloc_path[512], python_path[512];
	const char *const c_victim[] = { c_path, NULL };
	const char *const malloc_victim[] = { malloc_path, NULL };
	const char *const python_victim[] = { "python3", "-W", "ignore", python_path, NULL };
	const char *soak = getenv("VRAMTAP_SOAK");
	int factor = soak && atoi(soak) > 0 ? 10 * atoi(soak) : 1;
	const struct scenario scenarios[] = {
		{ "C program, 17 threads", c_victim, KILL_NEVER, 100, 5, true },
		{ "malloc storm, 16 threads", malloc_victim, KILL_NEVER, 40, 5, false },
		{ "Python", python_victim, KILL_NEVER, 60, 5, true },
		{ "C program, injector killed at random", c_victim, KILL_RANDOM, 60, 2, true },
		{ "Python, injector killed at random", python_victim, KILL_RANDOM, 40, 2, true },
#ifdef VT_FAULT_POINTS
		{ "C program, injector killed at each fault point", c_victim, KILL_AT_POINT, 2, 2,
		  true },
		{ "Python, injector killed at each fault point", python_victim, KILL_AT_POINT, 1, 2,
		  true },
#endif
	};

	snprintf(c_path, sizeof(c_path), "%s/tests/targets/victim", directory("VRAMTAP_BUILD_DIR"));
	snprintf(malloc_path, sizeof(malloc_path), "%s/tests/targets/victim_malloc",
		 directory("VRAMTAP_BUILD_DIR"));
	snprintf(python_path, sizeof(python_path), "%s/tests/targets/victim.py",
		 directory("VRAMTAP_SOURCE_DIR"));
	seed = (unsigned int)vt_now_ns();
	all.borrowed = calloc(MAX_SAMPLES, sizeof(uint64_t));
	all.total = calloc(MAX_SAMPLES, sizeof(uint64_t));
	if (!all.borrowed || !all.total)
		return 99;
	for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++)
		if (!run_scenario(&scenarios[i], factor))
			printf("# left out: %s (%s does not start)\n", scenarios[i].name,
			       scenarios[i].argv[0]);
	int ret = verdict();

	free(all.borrowed);
	free(all.total);
	return ret;
}
