/* SPDX-License-Identifier: Apache-2.0 */
#include "target/grace.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "target/proc.h"
#include "target/task.h"

#define BETWEEN_NS (500 * VT_NS_PER_US)

/* A thread to wait for. */
struct thread {
	pid_t tid;
	uint64_t ran_ns; /* when the wait began */
};

/*
 * R runs or wants to run. D may sleep so shortly (a page fault) that the thread is in the middle of
 * anything.
 */
static bool is_busy(int dir, pid_t tid)
{
	char state = vt_task_state(dir, tid);

	return state == 'R' || state == 'D';
}

/*
 * First number of schedstat: time on a processor, ns. -1: the thread is gone, or the kernel does
 * not count (CONFIG_SCHED_INFO).
 */
static int64_t ran_ns(int dir, pid_t tid)
{
	char path[48], text[96];

	snprintf(path, sizeof(path), "%d/schedstat", (int)tid);
	return vt_task_slurp(dir, path, text, sizeof(text)) > 0 ?
		       (int64_t)strtoull(text, NULL, 10) :
		       -1;
}

static size_t list_busy(int dir, struct thread **threads)
{
	VT_FREE pid_t *tids = NULL;
	size_t n = 0, n_busy = 0;

	if (vt_task_list(dir, VT_MAX_THREADS, &tids, &n))
		return 0;
	*threads = malloc((n + 1) * sizeof(**threads));
	for (size_t i = 0; *threads && i < n; i++)
		if (is_busy(dir, tids[i])) {
			int64_t ran = ran_ns(dir, tids[i]);

			(*threads)[n_busy++] =
				(struct thread){ .tid = tids[i],
						 .ran_ns = ran < 0 ? 0 : (uint64_t)ran };
		}
	return n_busy;
}

unsigned int vt_grace_wait(pid_t pid, uint64_t run_ns, uint64_t deadline_ns)
{
	VT_CLOSE int dir = vt_task_dir(pid);
	VT_FREE struct thread *threads = NULL;
	size_t n = dir < 0 ? 0 : list_busy(dir, &threads);

	while (n > 0) {
		size_t left = 0;

		for (size_t i = 0; i < n; i++)
			if (is_busy(dir, threads[i].tid) &&
			    ran_ns(dir, threads[i].tid) < (int64_t)(threads[i].ran_ns + run_ns))
				threads[left++] = threads[i];
		n = left;
		if (!n || vt_deadline_passed(deadline_ns))
			break;
		vt_sleep_ns(BETWEEN_NS);
	}
	return (unsigned int)n;
}
