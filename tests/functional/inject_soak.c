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
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "functional/census.h"
#include "inject/inject.h"
#include "targets/victim.h"

#define MAX_SAMPLES 100000

/* What an injector reports before it exits. */
struct report {
	bool created;
	bool called;
	enum vt_error_code code;
	uint64_t borrowed_ns, total_ns, whole_ns;
	char message[200];
};

struct victim {
	pid_t pid;
	struct victim_stats *stats;
	char stats_path[64];
	int threads, fds;
	uint64_t errors; /* seen so far */
};

/* What must be 0, and what is measured. */
struct tally {
	int runs, loaded, killed, failed;
	int died, hung, stopped, leaked_threads, leaked_fds, leaked_maps;
	uint64_t errors, lost_eintr, epoll_eintr;
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

/* The injector: a child process, since it may be killed */

static struct vt_error *inject_into(pid_t pid, pid_t tid, struct report *report)
{
	struct vt_inject_options options = { .budget_ns = 5 * VT_NS_PER_S, .only_tid = tid };
	struct vt_inject_timing timing = { 0 };
	struct vt_modules modules = { 0 };
	struct vt_helper *helper;
	struct vt_proc proc = { 0 };
	struct vt_maps maps = { 0 };
	struct vt_live *live;

	VT_TRY(vt_proc_init(&proc, pid));
	VT_TRY(vt_maps_init(&maps, pid));
	VT_TRY(vt_modules_init(&modules, pid, &maps));
	VT_TRY(vt_live_create(pid, &live));
	VT_TRY(vt_helper_create(&proc, &modules, live, &options, &timing, &helper));
	report->created = true;
	report->borrowed_ns = timing.borrowed_ns;
	report->total_ns = timing.total_ns;

	/*
	 * A request that the helper answers without any library of the target: it does not know it.
	 */
	struct vt_error *err =
		vt_helper_call(helper, (enum vt_helper_op)1000, vt_now_ns() + VT_NS_PER_S);

	report->called = err && err->code == VT_ERR_FORMAT;
	vt_error_destroy(err);
	vt_helper_destroy(helper);
	vt_live_destroy(live);
	vt_modules_deinit(&modules);
	vt_maps_deinit(&maps);
	vt_proc_deinit(&proc);
	return NULL;
}

static void __attribute__((noreturn)) injector(pid_t pid, pid_t tid, const char *point, int out)
{
	struct report report = { 0 };
	uint64_t start = vt_now_ns();
	char fault[64];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (point) {
		snprintf(fault, sizeof(fault), "kill:%s", point);
		setenv("VRAMTAP_FAULT", fault, 1);
	}

	struct vt_error *err = inject_into(pid, tid, &report);

	if (err) {
		report.code = err->code;
		snprintf(report.message, sizeof(report.message), "%s", err->message);
	}
	report.whole_ns = vt_now_ns() - start;
	_exit(write(out, &report, sizeof(report)) == sizeof(report) ? 0 : 1);
}

/* Victims */

/* Anything but running and sleeping, or a tracer. */
static bool is_disturbed(pid_t pid)
{
	char path[300], text[4096];
	const struct dirent *entry;
	bool disturbed = false;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);

	VT_CLOSEDIR DIR *dir = opendir(path);

	while (dir && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), "/proc/%d/task/%s/status", (int)pid, entry->d_name);

		VT_CLOSE int fd = entry->d_name[0] == '.' ? -1 : open(path, O_RDONLY | O_CLOEXEC);
		ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

		if (n <= 0)
			continue;
		text[n] = '\0';

		const char *state = strstr(text, "\nState:\t");
		const char *tracer = strstr(text, "\nTracerPid:\t");

		disturbed |= (state && strchr("tTZX", state[8])) || (tracer && atoi(tracer + 12));
	}
	return disturbed;
}

static void start_victim(struct victim *victim, const char *const *argv)
{
	const char *args[8];
	size_t n = 0;
	int fd;

	snprintf(victim->stats_path, sizeof(victim->stats_path), "/tmp/vramtap-soak-XXXXXX");
	fd = mkstemp(victim->stats_path);
	if (fd < 0 || ftruncate(fd, sizeof(*victim->stats)))
		exit(99);
	victim->stats =
		mmap(NULL, sizeof(*victim->stats), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	while (argv[n]) {
		args[n] = argv[n];
		n++;
	}
	args[n] = victim->stats_path;
	args[n + 1] = NULL;
	victim->pid = fork();
	if (victim->pid == 0) {
		execvp(args[0], (char *const *)(uintptr_t)args);
		_exit(127);
	}
}

static bool is_ready(struct victim *victim)
{
	for (int i = 0; i < 1000; i++) {
		if (__atomic_load_n(&victim->stats->ready, __ATOMIC_SEQ_CST)) {
			usleep(150000);
			victim->threads = count_entries(victim->pid, "task");
			victim->fds = count_entries(victim->pid, "fd");
			return true;
		}
		if (waitpid(victim->pid, NULL, WNOHANG) == victim->pid) {
			victim->pid = 0;
			return false;
		}
		usleep(10000);
	}
	return false;
}

static void end_victim(struct victim *victim)
{
	if (victim->pid > 0) {
		kill(victim->pid, SIGKILL);
		waitpid(victim->pid, NULL, 0);
	}
	munmap(victim->stats, sizeof(*victim->stats));
	unlink(victim->stats_path);
}

/*
 * Every thread completes a round, nothing is stopped, nothing was wrong. False when the victim died
 * or hangs.
 */
static bool is_unharmed(struct victim *victim, const char *what)
{
	uint64_t before[VICTIM_MAX_THREADS], errors = 0;
	uint64_t n = victim->stats->n_threads, late = n;
	int status;

	for (uint64_t i = 0; i < n; i++)
		before[i] = __atomic_load_n(&victim->stats->threads[i].rounds, __ATOMIC_SEQ_CST);
	for (int ms = 0; ms < 8000 && late; ms += 2) {
		if (waitpid(victim->pid, &status, WNOHANG) == victim->pid) {
			printf("# DIED: status 0x%x after %s\n", (unsigned int)status, what);
			victim->pid = 0;
			all.died++;
			return false;
		}
		late = 0;
		for (uint64_t i = 0; i < n; i++)
			if (__atomic_load_n(&victim->stats->threads[i].rounds, __ATOMIC_SEQ_CST) ==
			    before[i])
				late = i + 1;
		if (late)
			usleep(2000);
	}
	if (late) {
		printf("# HUNG: thread %s of %d after %s\n", victim->stats->threads[late - 1].name,
		       (int)victim->pid, what);
		all.hung++;
		return false;
	}
	if (is_disturbed(victim->pid) && (usleep(50000), is_disturbed(victim->pid))) {
		printf("# STOPPED or traced: %d after %s\n", (int)victim->pid, what);
		all.stopped++;
	}
	for (uint64_t i = 0; i < n; i++)
		errors += victim->stats->threads[i].errors;
	if (errors > victim->errors) {
		printf("# WRONG: %s after %s\n", victim->stats->first_error, what);
		victim->stats->first_error[0] = '\0';
		all.errors += errors - victim->errors;
		victim->errors = errors;
	}
	return true;
}

/* Whatever was left by killed injectors must be gone when the helper's patience has ended. */
static void count_leaks(struct victim *victim)
{
	int threads = 0, fds = 0, maps = 0;

	for (int i = 0; i < 100; i++) {
		threads = count_entries(victim->pid, "task") - victim->threads;
		fds = count_entries(victim->pid, "fd") - victim->fds;
		maps = count_maps(victim->pid, true);
		if (threads <= 0 && fds <= 0 && maps <= 0)
			return;
		usleep(100000);
	}
	printf("# LEAKED: %d threads, %d descriptors, %d mappings\n", threads, fds, maps);
	all.leaked_threads += threads > 0 ? threads : 0;
	all.leaked_fds += fds > 0 ? fds : 0;
	all.leaked_maps += maps;
}

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
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC))
		exit(99);
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		injector(victim->pid, tid, point, fds[1]);
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
	printf("# %d injections: %d complete, %d killed, %d failed; victims: %d died, %d hung, %d stopped, %llu errors; "
	       "left behind: %d threads, %d descriptors, %d mappings; EINTR: %llu of epoll, %llu lost\n",
	       all.runs, all.loaded, all.killed, all.failed, all.died, all.hung, all.stopped,
	       (unsigned long long)all.errors, all.leaked_threads, all.leaked_fds, all.leaked_maps,
	       (unsigned long long)all.epoll_eintr, (unsigned long long)all.lost_eintr);
	return all.died || all.hung || all.stopped || all.errors || all.leaked_threads ||
	       all.leaked_fds || all.leaked_maps || all.failed || !all.loaded;
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
