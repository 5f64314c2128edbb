/* SPDX-License-Identifier: Apache-2.0 */
#include "target/children.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "target/processes_probe.h"
#include "target/task.h"

#define MAX_THREADS 4096 /* of one process */
#define MAX_TEXT 16384   /* of the children of one thread: some 2,000 */

struct list {
	pid_t *pids;
	size_t n, max;
	bool whole;
};

static void add(struct list *list, pid_t pid)
{
	for (size_t i = 0; i < list->n; i++)
		if (list->pids[i] == pid)
			return;
	if (list->n == list->max)
		list->whole = false;
	else
		list->pids[list->n++] = pid;
}

/* "4711 4712 ": each thread has those that it has started. */
static void add_of_thread(struct list *list, int tasks, pid_t tid)
{
	char path[48], text[MAX_TEXT], *at = text, *end;
	ssize_t n;

	snprintf(path, sizeof(path), "%d/children", (int)tid);
	n = vt_task_slurp(tasks, path, text, sizeof(text));
	if (n < 0 || n + 1 >= (ssize_t)sizeof(text))
		list->whole = list->whole && n == -ESRCH;
	for (long pid; n > 0 && (pid = strtol(at, &end, 10)) > 0 && end != at; at = end)
		if (*end) /* else the last number may be cut off */
			add(list, (pid_t)pid);
}

static void add_of(struct list *list, pid_t pid)
{
	VT_CLOSE int tasks = vt_task_dir(pid);
	VT_FREE pid_t *tids = NULL;
	size_t n = 0;

	if (tasks < 0 || vt_task_list(tasks, MAX_THREADS, &tids, &n))
		return; /* it is gone */
	list->whole = list->whole && n < MAX_THREADS;
	for (size_t i = 0; i < n; i++)
		add_of_thread(list, tasks, tids[i]);
}

static bool has_ended(pid_t pid)
{
	VT_CLOSE int tasks = vt_task_dir(pid);
	char state = tasks < 0 ? 0 : vt_task_state(tasks, pid);

	return !state || state == 'Z' || state == 'X';
}

size_t vt_children_list(pid_t pid, pid_t *pids, size_t max, bool *whole)
{
	struct list list = { .pids = pids, .max = max, .whole = true };
	VT_FREE bool *blocks = NULL;
	size_t n = 0;

	add_of(&list, pid);
	for (size_t i = 0; i < list.n; i++)
		add_of(&list, pids[i]);
	blocks = calloc(list.n + 1, sizeof(*blocks));
	if (!blocks)
		list.whole = false, list.n = 0;
	if (list.n)
		vt_processes_probe(pids, list.n, blocks);
	for (size_t i = 0; i < list.n; i++) {
		if (has_ended(pids[i]))
			continue;
		list.whole = list.whole && !blocks[i];
		if (!blocks[i])
			pids[n++] = pids[i];
	}
	*whole = list.whole;
	return n;
}
