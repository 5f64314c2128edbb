/* SPDX-License-Identifier: Apache-2.0 */
#include "target/glance.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "target/task.h"

/* The fields of /proc/PID/stat that count here; numbers as in proc(5). */
enum { STATE = 3, UTIME = 14, STIME = 15, START = 22, START_STACK = 28 };

struct counts {
	char state;
	uint64_t ticks, start_ticks, start_stack;
};

static bool read_stat(int dirfd, const char *path, struct counts *stat)
{
	char text[1024], *save = NULL, *close;
	int field = STATE;

	if (vt_task_slurp(dirfd, path, text, sizeof(text)) <= 0)
		return false;
	/* The name may have spaces and parentheses: it ends at the last one. */
	close = strrchr(text, ')');
	if (!close)
		return false;
	*stat = (struct counts){ 0 };
	for (char *word = strtok_r(close + 1, " \n", &save); word && field <= START_STACK;
	     word = strtok_r(NULL, " \n", &save), field++) {
		if (field == STATE)
			stat->state = *word;
		else if (field == UTIME || field == STIME)
			stat->ticks += strtoull(word, NULL, 10);
		else if (field == START)
			stat->start_ticks = strtoull(word, NULL, 10);
		else if (field == START_STACK)
			stat->start_stack = strtoull(word, NULL, 10);
	}
	return field > START;
}

static uint64_t ticks_to_ns(uint64_t ticks)
{
	long hz = sysconf(_SC_CLK_TCK);

	return ticks * (VT_NS_PER_S / (uint64_t)(hz > 0 ? hz : 100));
}

/*
 * The scheduler's count is in nanoseconds. It is missing, or 0, in kernels that were built or
 * started without it.
 */
static void read_cpu(struct vt_glance *glance, int dirfd, uint64_t ticks)
{
	char path[40], text[128];

	snprintf(path, sizeof(path), "%d/schedstat", (int)glance->tid);
	if (vt_task_slurp(dirfd, path, text, sizeof(text)) > 0)
		glance->cpu_ns = strtoull(text, NULL, 10);
	if (glance->cpu_ns)
		return;
	glance->cpu_in_ticks = true;
	glance->cpu_ns = ticks_to_ns(ticks);
}

static bool take(struct vt_glance *glance, int dirfd, pid_t pid, pid_t tid)
{
	struct counts stat;
	char path[40];

	*glance = (struct vt_glance){ .tid = tid };
	snprintf(path, sizeof(path), "%d/stat", (int)tid);
	if (!read_stat(dirfd, path, &stat))
		return false;
	glance->state = stat.state;
	glance->start_ticks = stat.start_ticks;
	read_cpu(glance, dirfd, stat.ticks);
	vt_thread_sample_take(&glance->sample, pid, tid);
	return true;
}

static bool read_process(struct counts *stat, pid_t pid)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	return read_stat(AT_FDCWD, path, stat);
}

bool vt_glances_take(struct vt_glances *glances, pid_t pid)
{
	VT_CLOSE int dirfd = vt_task_dir(pid);
	VT_FREE pid_t *tids = NULL;
	struct vt_glances fresh = { .when_ns = vt_now_ns() };
	struct counts process;
	size_t n = 0;

	if (dirfd < 0 || !read_process(&process, pid) ||
	    vt_task_list(dirfd, VT_MAX_THREADS, &tids, &n) ||
	    !vt_vec_reserve(&fresh.threads, n ? n : 1))
		return false;
	fresh.start_ticks = process.start_ticks;
	fresh.start_stack = process.start_stack;
	fresh.cpu_ns = ticks_to_ns(process.ticks);
	for (size_t i = 0; i < n; i++)
		fresh.threads.n += take(&fresh.threads.data[fresh.threads.n], dirfd, pid, tids[i]);
	*glances = fresh;
	return true;
}

void vt_glances_deinit(struct vt_glances *glances)
{
	vt_vec_deinit(&glances->threads);
}

static int compare(const void *a, const void *b)
{
	pid_t x = ((const struct vt_glance *)a)->tid, y = ((const struct vt_glance *)b)->tid;

	return (x > y) - (x < y);
}

const struct vt_glance *vt_glance_of(const struct vt_glances *glances, pid_t tid)
{
	struct vt_glance key = { .tid = tid };

	return glances->threads.n ? bsearch(&key, glances->threads.data, glances->threads.n,
					    sizeof(key), compare) :
				    NULL;
}

enum vt_same vt_glances_same(const struct vt_glances *glances, pid_t pid)
{
	struct counts now;

	if (!read_process(&now, pid) || now.start_ticks != glances->start_ticks || now.state == 'X')
		return VT_SAME_NOT;
	/* A main thread that called pthread_exit() is a zombie, too, in a process that lives on. */
	if (now.state == 'Z' && vt_proc_view(pid) == pid)
		return VT_SAME_NOT;
	return now.start_stack && glances->start_stack && now.start_stack != glances->start_stack ?
		       VT_SAME_BY_EXEC :
		       VT_SAME_PROCESS;
}

bool vt_glance_cpu(const struct vt_glance *before, const struct vt_glance *after, uint64_t *ns)
{
	if (before->start_ticks != after->start_ticks ||
	    before->cpu_in_ticks != after->cpu_in_ticks || after->cpu_ns < before->cpu_ns)
		return false;
	*ns = after->cpu_ns - before->cpu_ns;
	return true;
}
