/* SPDX-License-Identifier: Apache-2.0 */
/* The processes that hold memory of a device, as /proc shows them. Nothing is touched. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "collect/usage.h"
#include "target/launch.h"
#include "target/proc.h"
#include "target/processes_probe.h"

#define MAX_IDENTIFIED 256 /* the largest */
#define MAX_COMMAND 256    /* bytes kept of a command line */

/*
 * kill() finds every process of this pid namespace, even where /proc is mounted with hidepid. What
 * has ended is a zombie until its parent waits for it; so is the main thread of a process whose
 * other threads run on.
 */
enum vt_counted_life vt_usage_life_of(pid_t pid)
{
	struct vt_thread_info info = { 0 };

	if (kill(pid, 0) && errno == ESRCH)
		return VT_LIFE_GONE;

	VT_ERROR struct vt_error *err = vt_thread_info_read(&info, pid, pid);

	if (err)
		return kill(pid, 0) && errno == ESRCH ? VT_LIFE_GONE : VT_LIFE_THERE;
	return (info.state == 'Z' || info.state == 'X') && vt_proc_view(pid) == pid ?
		       VT_LIFE_ZOMBIE :
		       VT_LIFE_THERE;
}

static const char *copy(struct vt_arena *arena, const char *text, size_t most)
{
	const char *copy = text ? vt_arena_strndup(arena, text, strnlen(text, most)) : NULL;

	return copy ? copy : "";
}

/* Its memory may not be read: what is left is its name. */
static void identify_by_name(struct vt_model_counted *p, struct vt_arena *arena)
{
	struct vt_thread_info info = { 0 };
	VT_ERROR struct vt_error *err = vt_thread_info_read(&info, p->pid, p->pid);

	if (!err)
		p->name = copy(arena, info.name, sizeof(info.name));
}

static void identify(struct vt_model_counted *p, struct vt_arena *arena)
{
	struct vt_proc proc = { 0 };
	VT_ERROR struct vt_error *err = vt_proc_init(&proc, p->pid);
	struct vt_launch launch = { .rank = { -1, -1, -1, -1 }, .pod = "" };

	if (!err) {
		p->name = copy(arena, proc.name, sizeof(proc.name));
		p->command = copy(arena, proc.cmdline, MAX_COMMAND);
		p->user = copy(arena, proc.user, 64);
		p->container = copy(arena, proc.container, 64);
		p->ns_pid = proc.ns_pid == p->pid ? 0 : proc.ns_pid;
		if (p->life == VT_LIFE_THERE)
			vt_launch_read(p->pid, arena, &launch);
		p->rank = launch.rank.rank;
		p->pod = launch.pod;
	}
	vt_proc_deinit(&proc);
}

/* A process on several devices is listed for each. */
static const struct vt_model_counted *known_as(const struct vt_model_usage *usage, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (usage->processes.data[k].pid == usage->processes.data[i].pid)
			return &usage->processes.data[k];
	return NULL;
}

/* That of the report has been read already. */
static void probe(const struct vt_model_usage *usage, size_t n, pid_t *pids, bool *blocks)
{
	bool any = false;

	for (size_t i = 0; i < n; i++) {
		const struct vt_model_counted *p = &usage->processes.data[i];

		/* a pid that is none blocks nothing */
		pids[i] = p->ours || p->life == VT_LIFE_GONE || p->life == VT_LIFE_UNKNOWN ? 0 :
											     p->pid;
		any = any || pids[i];
	}
	if (any)
		vt_processes_probe(pids, n, blocks);
}

void vt_usage_identify(struct vt_model_usage *usage, struct vt_arena *arena)
{
	size_t n = usage->processes.n < MAX_IDENTIFIED ? usage->processes.n : MAX_IDENTIFIED;
	VT_FREE pid_t *pids = calloc(n + 1, sizeof(*pids));
	VT_FREE bool *blocks = calloc(n + 1, sizeof(*blocks));

	if (!pids || !blocks || !n)
		return;
	probe(usage, n, pids, blocks);
	for (size_t i = 0; i < n; i++) {
		struct vt_model_counted *p = &usage->processes.data[i];
		const struct vt_model_counted *known = known_as(usage, i);

		if (p->life == VT_LIFE_UNKNOWN || p->life == VT_LIFE_GONE)
			continue;
		if (known) {
			p->name = known->name;
			p->command = known->command;
			p->user = known->user;
			p->container = known->container;
			p->pod = known->pod;
			p->rank = known->rank;
			p->ns_pid = known->ns_pid;
		} else if (blocks[i]) {
			identify_by_name(p, arena);
		} else {
			identify(p, arena);
		}
	}
}
