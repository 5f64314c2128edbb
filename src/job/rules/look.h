/* SPDX-License-Identifier: Apache-2.0 */
/* What the rules for the answer look at, and how they say it. */
#ifndef VT_JOB_RULES_LOOK_H
#define VT_JOB_RULES_LOOK_H

#include "base/str.h"
#include "job/parts.h"

struct vt_job_look {
	struct vt_job *job;
	struct vt_job_indices ranks;   /* of the job that something is known of */
	size_t n_states[VT_N_STATES];  /* of them */
	bool comparable;               /* they are ranks of one job, each there once: else nobody is the odd one */
	bool *in_collective;           /* of each of job.doings: vt_job_is_in_collective() */
	bool failed;
};

const struct vt_member *vt_look_member(const struct vt_job_look *look, uint32_t index);

/* The size of the world, when all its ranks are there; else 0. */
size_t vt_look_whole_world(const struct vt_job_look *look);

/* Adds a verdict about members (in ascending order); outliers: they are the ones that differ. text is copied. */
void vt_look_say(struct vt_job_look *look, const char *code, bool alarm, bool outliers, const struct vt_job_indices *members,
		 const struct vt_str *text);

/* How much of the place where they are all members of a group have in common. */
enum vt_same_place { VT_SAME_NOTHING, VT_SAME_FUNCTION, VT_SAME_LINE };

/* Members of which the same can be said in one sentence. */
struct vt_job_group {
	const char *exact; /* what tells what the first does, and where, from all else; interned */
	enum vt_same_place place;
	struct vt_job_indices members;
};
struct vt_job_groups {
	struct vt_job_group *data;
	size_t n, capacity;
};

/* Groups members by what they do and where, the largest group first; release them. False, and none, when out of memory. */
bool vt_look_group(struct vt_job_look *look, const struct vt_job_indices *members, struct vt_job_groups *groups);
void vt_job_groups_deinit(struct vt_job_groups *groups);

/* ---- words ---- */

/* "rank 3", "ranks 0-2,4-7", "all 8 ranks", "worker 12 of rank 3", "pid 4711@node3" */
void vt_look_add_who(const struct vt_job_look *look, const struct vt_job_indices *members, struct vt_str *text);

/* Adds what the members of the group do: "waits in all_reduce (train.py:88 train_step)", of several in the plural. */
void vt_look_add_does(const struct vt_job_look *look, const struct vt_job_group *group, struct vt_str *text);

/* ---- the rules, each file its own; in the order in which they are called ---- */

void vt_rules_missing(struct vt_job_look *look);  /* job/rules/missing.c: ranks that are not there */
void vt_rules_alone(struct vt_job_look *look);    /* job/rules/rules.c: what is wrong whatever others do */
void vt_rules_sequences(struct vt_job_look *look); /* job/rules/collectives.c: by PyTorch's flight recorders */
void vt_rules_ranks(struct vt_job_look *look);    /* job/rules/rules.c: what ranks do while others wait */
void vt_rules_ras(struct vt_job_look *look);      /* job/rules/ras.c: what NCCL's RAS says */
void vt_rules_equal(struct vt_job_look *look);    /* job/rules/rules.c: nobody differs */
void vt_rules_workers(struct vt_job_look *look);  /* job/rules/missing.c: of loaders */
void vt_rules_memory(struct vt_job_look *look);   /* job/rules/memory.c */

#endif
