/* SPDX-License-Identifier: Apache-2.0 */
/* Process groups of a job: what the flight recorders of the members say, side by side. */
#ifndef VT_JOB_GROUPS_H
#define VT_JOB_GROUPS_H

#include "job/internal.h"

/* A member of the job in a process group; its texts are interned. */
struct vt_job_grouped {
	uint32_t member;
	const struct vt_model_process_group *state; /* NULL: it has begun nothing in the group */
};

struct vt_job_process_group {
	const struct vt_model_process_group *any; /* one member's: what is equal in all */
	/* in ascending order; only those whose recorders answered */
	VT_VEC(struct vt_job_grouped) members;
	bool ranks_differ; /* members name different ranks: the other ranks are unknown */
	size_t n_ranks;    /* expected number; 0 unknown */
	size_t n_waiting;  /* members with an unfinished collective (not a transfer) */
	int64_t waits_for; /* the first of these; when there are any */
};

struct vt_job_process_groups {
	struct vt_job_process_group *data;
	size_t n, capacity;
};

/* Groups with waiting members come first. Release them; false when out of memory. */
bool vt_job_find_process_groups(const struct vt_job *job, struct vt_job_process_groups *groups);
void vt_job_process_groups_deinit(struct vt_job_process_groups *groups);

/* The member waits in the collective for which the group waits. */
bool vt_job_waits_in(const struct vt_job_process_group *group, const struct vt_job_grouped *member);

/* The last collective that the member began; -1 unknown. */
int64_t vt_job_last_begun(const struct vt_job_grouped *member);

#endif
