/* SPDX-License-Identifier: Apache-2.0 */
/* Process groups of a job: what the flight recorders of their members say, side by side. */
#ifndef VT_JOB_GROUPS_H
#define VT_JOB_GROUPS_H

#include "job/parts.h"

/* A member of the job in a process group; its texts are interned. */
struct vt_job_grouped {
	uint32_t member;
	const struct vt_model_process_group *state; /* NULL: its recorder does not know the group, so it has begun nothing in it */
};

struct vt_job_process_group {
	const struct vt_model_process_group *any; /* of one of the members: what all have alike */
	VT_VEC(struct vt_job_grouped) members;    /* in ascending order; only those whose recorders answered */
	bool ranks_differ; /* as members have them: who else is of it is not known */
	size_t n_ranks;  /* how many it should have; 0 unknown */
	size_t n_waiting; /* members with a collective (no transfer) that is not over */
	int64_t waits_for; /* the first of these; when there are any */
};

struct vt_job_process_groups {
	struct vt_job_process_group *data;
	size_t n, capacity;
};

/* Those with members that wait first. Release them; false when out of memory. */
bool vt_job_find_process_groups(const struct vt_job *job, struct vt_job_process_groups *groups);
void vt_job_process_groups_deinit(struct vt_job_process_groups *groups);

/* It waits in the collective for which the group waits. */
bool vt_job_waits_in(const struct vt_job_process_group *group, const struct vt_job_grouped *member);

/* The last collective that it began; -1 unknown. */
int64_t vt_job_last_begun(const struct vt_job_grouped *member);

#endif
