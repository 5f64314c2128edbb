/* SPDX-License-Identifier: Apache-2.0 */
/* The identity of the target: copies what /proc shows into the model. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collect/collect.h"
#include "target/launch.h"

#define MAX_ENVIRON (1 << 20)
#define MAX_WORLD 10000000

/* A variable of the target's initial environment as a number in [0, MAX_WORLD), or -1. */
static int environ_number(const char *env, size_t n, const char *name)
{
	size_t name_len = strlen(name);

	for (const char *p = env; p < env + n; p += strlen(p) + 1) {
		char *end;

		if (strncmp(p, name, name_len) != 0 || p[name_len] != '=')
			continue;

		long value = strtol(p + name_len + 1, &end, 10);

		return end != p + name_len + 1 && !*end && value >= 0 && value < MAX_WORLD ?
			       (int)value :
			       -1;
	}
	return -1;
}

static void look_for_flight_recorder(struct vt_flight_setting *setting, const char *env, size_t n)
{
	/* the first counts */
	static const char *const names[] = { "TORCH_FR_BUFFER_SIZE",
					     "TORCH_NCCL_TRACE_BUFFER_SIZE" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		int entries = environ_number(env, n, names[i]);

		if (entries >= 0 && !setting->is_set)
			*setting = (struct vt_flight_setting){ .is_set = true, .entries = entries };
		setting->by_old_name |= i && entries >= 0;
	}
}

void vt_collect_launch(struct vt_model *model, const struct vt_launch *launch)
{
	struct vt_model_process *process = &model->process;

	process->rank = launch->rank.rank;
	process->local_rank = launch->rank.local_rank;
	process->world_size = launch->rank.world_size;
	process->pod = launch->pod;
	process->job = launch->job;
}

void vt_collect_environ(struct vt_collect *c)
{
	pid_t pid = c->model->process.pid;
	VT_FREE char *env = malloc(MAX_ENVIRON + 1);
	struct vt_launch launch;
	char path[64];

	vt_launch_read(pid, &c->model->arena, &launch);
	vt_collect_launch(c->model, &launch);
	snprintf(path, sizeof(path), "/proc/%d/environ", vt_proc_view(pid));

	VT_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t n = 0;

	if (!env || fd < 0)
		return;
	for (ssize_t got; n < MAX_ENVIRON && (got = read(fd, env + n, MAX_ENVIRON - n)) > 0;)
		n += (size_t)got;
	env[n] = '\0';
	look_for_flight_recorder(&c->flight, env, n);
}

static const char *copy(struct vt_collect *c, const char *text)
{
	return text ? vt_collect_copy(c, text, strlen(text)) : "";
}

void vt_collect_identity(struct vt_collect *c)
{
	struct vt_model *model = c->model;
	const struct vt_proc *proc = &c->target.proc;

	model->process = (struct vt_model_process){
		.pid = proc->pid,
		.name = copy(c, proc->name),
		.cmdline = copy(c, proc->cmdline),
		.exe = copy(c, proc->exe),
		.user = copy(c, proc->user),
		.uid = proc->uid,
		.container = copy(c, proc->container),
		.ns_pid = proc->ns_pid == proc->pid ? 0 : proc->ns_pid,
		.pod = "",
		.job = "",
		.uptime_s = proc->uptime_s,
		.n_threads = proc->n_threads,
		.state = proc->state,
		.tracer = proc->tracer,
		.tracer_name = copy(c, proc->tracer_name),
		.rank = -1,
		.local_rank = -1,
		.world_size = -1,
	};
}
