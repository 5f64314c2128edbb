/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What launchers and container engines leave in the environment of what they start: its rank, the
 * pod and the job that it is in.
 */
#ifndef VT_TARGET_LAUNCH_H
#define VT_TARGET_LAUNCH_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/arena.h"

/* A variable of a process's initial environment; NULL when it has none. */
typedef const char *(*vt_variable_of)(void *arg, const char *name);

/* Each -1 unknown. */
struct vt_rank {
	int rank, local_rank, world_size, local_world_size;
};

void vt_rank_of(vt_variable_of variable, void *arg, struct vt_rank *rank);

/* cgroup: the text of /proc/PID/cgroup. NULL: it is in no pod, as far as can be seen. */
const char *vt_pod_of(vt_variable_of variable, void *arg, const char *cgroup);

/* "slurm 4711", in the arena; NULL: no job is known. */
const char *vt_job_name_of(vt_variable_of variable, void *arg, const char *cgroup,
			   struct vt_arena *arena);

/* Of one process, by its pid; strings are in the arena. What may not be read is unknown. */
struct vt_launch {
	struct vt_rank rank;
	const char *pod;     /* "" none */
	const char *job;     /* "slurm 4711"; "" none */
	const char *visible; /* CUDA_VISIBLE_DEVICES; NULL: it is not set, or unknown */
	bool known;          /* its environment could be read */
};

/* Of the n bytes of an environment (and a NUL); cgroup as above, "" unknown. */
void vt_launch_of(const char *environment, size_t n, const char *cgroup, struct vt_arena *arena,
		  struct vt_launch *launch);

void vt_launch_read(pid_t pid, struct vt_arena *arena, struct vt_launch *launch);

#endif
