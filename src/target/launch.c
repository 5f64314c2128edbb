/* SPDX-License-Identifier: Apache-2.0 */
#include "target/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "target/proc.h"
#include "target/processes.h"
#include "target/task.h"

#define MAX_RANK 10000000
#define MAX_ENVIRON (1 << 20)
#define MAX_CGROUP 8192
#define MAX_NAME 256 /* bytes kept */
#define MAX_VISIBLE 1024

/* ---- ranks ---- */

/*
 * The nearest launcher first: torchrun sets RANK for its children, which inherit Slurm's values for
 * torchrun.
 */
static const struct rank_variables {
	const char *rank, *local_rank, *world_size, *local_world_size;
} rank_variables[] = {
	/* torchrun, accelerate, deepspeed */
	{ "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE" },
	/* Open MPI, MVAPICH, HPE Cray */
	{ "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE",
	  "OMPI_COMM_WORLD_LOCAL_SIZE" },
	{ "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_SIZE",
	  "MV2_COMM_WORLD_LOCAL_SIZE" },
	{ "PALS_RANKID", "PALS_LOCAL_RANKID", "PALS_SIZE", "PALS_LOCAL_SIZE" },
	/* MPICH, Intel MPI; PMIx */
	{ "PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE", "MPI_LOCALNRANKS" },
	{ "PMIX_RANK", "PMIX_LOCAL_RANK", "PMIX_SIZE", "PMIX_LOCAL_SIZE" },
	/* Flux, LSF, Slurm */
	{ "FLUX_TASK_RANK", "FLUX_TASK_LOCAL_ID", "FLUX_JOB_SIZE", "FLUX_LOCAL_SIZE" },
	{ "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_LOCAL_RANK", "JSM_NAMESPACE_SIZE",
	  "JSM_NAMESPACE_LOCAL_SIZE" },
	/*
	 * Slurm gives only the requested tasks per node and a list for all nodes: for one node it
	 * is a number.
	 */
	{ "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "SLURM_STEP_TASKS_PER_NODE" },
};

static int number_of(const char *text)
{
	char *end;
	long value;

	if (!text || *text < '0' || *text > '9')
		return -1;
	errno = 0;
	value = strtol(text, &end, 10);
	return errno || *end || value >= MAX_RANK ? -1 : (int)value;
}

void vt_rank_of(vt_variable_of variable, void *arg, struct vt_rank *rank)
{
	*rank = (struct vt_rank){ -1, -1, -1, -1 };
	for (size_t v = 0; v < sizeof(rank_variables) / sizeof(rank_variables[0]); v++) {
		const struct rank_variables *names = &rank_variables[v];

		rank->rank = number_of(variable(arg, names->rank));
		if (rank->rank < 0)
			continue;
		rank->local_rank = number_of(variable(arg, names->local_rank));
		rank->world_size = number_of(variable(arg, names->world_size));
		rank->local_world_size = number_of(variable(arg, names->local_world_size));
		return;
	}
}

/* ---- pods ---- */

/*
 * In Kubernetes, the host name is the pod's name, unless there is POD_NAME from the downward API.
 */
const char *vt_pod_of(vt_variable_of variable, void *arg, const char *cgroup)
{
	const char *name = variable(arg, "POD_NAME");

	if (!name && strstr(cgroup, "kubepods"))
		name = variable(arg, "HOSTNAME");
	return name;
}

/* ---- jobs ---- */

/* The job's name in the environment. */
static const struct job_variable {
	const char *variable, *engine;
} job_variables[] = {
	{ "SLURM_JOB_ID", "slurm" }, { "SLURM_JOBID", "slurm" },
	{ "PBS_JOBID", "pbs" },      { "LSB_JOBID", "lsf" },
	{ "FLUX_JOB_ID", "flux" },   { "TORCHELASTIC_RUN_ID", "torchrun" },
};

const char *vt_job_name_of(vt_variable_of variable, void *arg, const char *cgroup,
			   struct vt_arena *arena)
{
	const char *name = NULL;
	char id[32];

	if (vt_cgroup_slurm_job(cgroup, id, sizeof(id)))
		name = vt_arena_printf(arena, "slurm %s", id);
	for (size_t v = 0; !name && v < sizeof(job_variables) / sizeof(job_variables[0]); v++) {
		const char *value = variable(arg, job_variables[v].variable);

		if (value && *value && strcmp(value, "none") != 0) /* torchrun's default */
			name = vt_arena_printf(arena, "%s %s", job_variables[v].engine, value);
	}
	return name;
}

/* ---- one process ---- */

struct environment {
	const char *text;
	size_t n;
};

static const char *variable_of(void *arg, const char *name)
{
	const struct environment *e = arg;
	size_t len = strlen(name);

	for (const char *v = e->text; v < e->text + e->n; v += strlen(v) + 1)
		if (!strncmp(v, name, len) && v[len] == '=')
			return v + len + 1;
	return NULL;
}

/* NULL: it may not be read. */
static char *read_environment(pid_t pid, size_t *n)
{
	char path[64], *text;
	ssize_t got = 0;

	snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);

	VT_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);

	text = fd >= 0 ? malloc(MAX_ENVIRON + 1) : NULL;
	while (text && *n < MAX_ENVIRON && (got = read(fd, text + *n, MAX_ENVIRON - *n)) > 0)
		*n += (size_t)got;
	if (text)
		text[*n] = '\0';
	if (got >= 0)
		return text;
	free(text);
	*n = 0;
	return NULL;
}

static const char *copy(struct vt_arena *arena, const char *text, size_t most)
{
	return text ? vt_arena_strndup(arena, text, strnlen(text, most)) : NULL;
}

void vt_launch_of(const char *environment, size_t n, const char *cgroup, struct vt_arena *arena,
		  struct vt_launch *launch)
{
	struct environment e = { environment, n };

	vt_rank_of(variable_of, &e, &launch->rank);
	launch->pod = copy(arena, vt_pod_of(variable_of, &e, cgroup), MAX_NAME);
	launch->pod = launch->pod ? launch->pod : "";
	launch->job = copy(arena, vt_job_name_of(variable_of, &e, cgroup, arena), MAX_NAME);
	launch->job = launch->job ? launch->job : "";
	launch->visible = copy(arena, variable_of(&e, "CUDA_VISIBLE_DEVICES"), MAX_VISIBLE);
	launch->known = environment;
}

void vt_launch_read(pid_t pid, struct vt_arena *arena, struct vt_launch *launch)
{
	char path[64], cgroup[MAX_CGROUP] = "";
	size_t n = 0;

	pid = vt_proc_view(pid);

	VT_FREE char *environment = read_environment(pid, &n);

	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	if (vt_task_slurp(AT_FDCWD, path, cgroup, sizeof(cgroup)) < 0)
		*cgroup = '\0';
	vt_launch_of(environment, n, cgroup, arena, launch);
}
