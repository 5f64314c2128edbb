/* SPDX-License-Identifier: Apache-2.0 */
#include "functional/victims.h"

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
#include <unistd.h>

#include "base/clock.h"
#include "functional/census.h"
#include "inject/inject.h"

struct harm harm;
uint64_t helper_stack;

bool is_any_harm(void)
{
	return harm.died || harm.hung || harm.stopped || harm.errors || harm.leaked_threads ||
	       harm.leaked_fds || harm.leaked_maps;
}

void print_harm(void)
{
	printf("victims: %d died, %d hung, %d stopped, %llu errors; left behind: %d threads, %d descriptors, %d mappings",
	       harm.died, harm.hung, harm.stopped, (unsigned long long)harm.errors,
	       harm.leaked_threads, harm.leaked_fds, harm.leaked_maps);
}

/* The injector: a child process, since it may be killed */

static struct vt_error *inject_into(pid_t pid, pid_t tid, struct report *report)
{
	struct vt_inject_options options = { .budget_ns = 5 * VT_NS_PER_S,
					     .only_tid = tid,
					     .stack_bytes = helper_stack };
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

void injector(pid_t pid, pid_t tid, const char *fault, int out)
{
	struct report report = { 0 };
	uint64_t start = vt_now_ns();

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (fault)
		setenv("VRAMTAP_FAULT", fault, 1);

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

void start_victim(struct victim *victim, const char *const *argv)
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

bool is_ready(struct victim *victim)
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

void end_victim(struct victim *victim)
{
	if (victim->pid > 0) {
		kill(victim->pid, SIGKILL);
		waitpid(victim->pid, NULL, 0);
	}
	munmap(victim->stats, sizeof(*victim->stats));
	unlink(victim->stats_path);
}

bool is_unharmed(struct victim *victim, const char *what)
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
			harm.died++;
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
		harm.hung++;
		return false;
	}
	if (is_disturbed(victim->pid) && (usleep(50000), is_disturbed(victim->pid))) {
		printf("# STOPPED or traced: %d after %s\n", (int)victim->pid, what);
		harm.stopped++;
	}
	for (uint64_t i = 0; i < n; i++)
		errors += victim->stats->threads[i].errors;
	if (errors > victim->errors) {
		printf("# WRONG: %s after %s\n", victim->stats->first_error, what);
		victim->stats->first_error[0] = '\0';
		harm.errors += errors - victim->errors;
		victim->errors = errors;
	}
	return true;
}

void count_leaks(struct victim *victim)
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
	harm.leaked_threads += threads > 0 ? threads : 0;
	harm.leaked_fds += fds > 0 ? fds : 0;
	harm.leaked_maps += maps;
}

pid_t victim_thread(const struct victim *victim, const char *name)
{
	for (uint64_t i = 0; i < victim->stats->n_threads; i++)
		if (!strcmp(victim->stats->threads[i].name, name))
			return (pid_t)victim->stats->threads[i].tid;
	return 0;
}
