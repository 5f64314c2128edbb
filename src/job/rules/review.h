/* SPDX-License-Identifier: Apache-2.0 */
/* A review: a job as the rules examine it to find verdicts; and the words of the verdicts. */
#ifndef VT_JOB_RULES_REVIEW_H
#define VT_JOB_RULES_REVIEW_H

#include "base/str.h"
#include "job/internal.h"

struct vt_review {
	struct vt_job *job;
	struct vt_job_indices ranks;  /* of the job, about which something is known */
	size_t n_states[VT_N_STATES]; /* of these ranks */
	bool comparable;              /* ranks of one job, each there once: else none is odd */
	bool *in_collective;          /* of each of job.doings: vt_job_is_in_collective() */
	bool failed;
};

const struct vt_member *vt_review_member(const struct vt_review *review, uint32_t index);

/* The size of the world if all its ranks are there; otherwise 0. */
size_t vt_review_whole_world(const struct vt_review *review);

/*
 * Adds a verdict about members (in ascending order); outliers: they are the outliers. Copies text.
 */
void vt_review_say(struct vt_review *review, enum vt_finding code, bool alarm, bool outliers,
		   const struct vt_job_indices *members, const struct vt_str *text);

/* Only two ranks are in it: the others are elsewhere, and fine. */
bool vt_review_is_of_two(const char *operation);

/* Adds to the last verdict: who surely waits for its members; its subject alone. Copies. */
void vt_review_waiting(struct vt_review *review, const struct vt_job_indices *waiting);
void vt_review_brief(struct vt_review *review, const char *brief);

/* What the places of all members of a group have in common. */
enum vt_same_place { VT_SAME_NOTHING, VT_SAME_FUNCTION, VT_SAME_LINE };

/* Members that one sentence describes. */
struct vt_job_group {
	const char *exact; /* identifies what the first one does, and where; interned */
	enum vt_same_place place;
	struct vt_job_indices members;
};
struct vt_job_groups {
	struct vt_job_group *data;
	size_t n, capacity;
};

/*
 * Groups members by activity and place, the largest group first. Release them. False: out of
 * memory, no groups.
 */
bool vt_review_group(struct vt_review *review, const struct vt_job_indices *members,
		     struct vt_job_groups *groups);
void vt_job_groups_deinit(struct vt_job_groups *groups);

/* ---- words ---- */

/* "rank 3", "ranks 0-2,4-7", "all 8 ranks", "worker 12 of rank 3", "pid 4711@node3" */
void vt_review_add_who(const struct vt_review *review, const struct vt_job_indices *members,
		       struct vt_str *text);

/* Adds what the group does: "waits in all_reduce (train.py:88 train_step)"; plural for several. */
void vt_review_add_does(const struct vt_review *review, const struct vt_job_group *group,
			struct vt_str *text);

/* ---- the rules, in the order of their calls ---- */

/* job/rules/missing.c: ranks that are not there */
void vt_rules_missing(struct vt_review *review);
void vt_rules_faults(struct vt_review *review); /* job/rules/faults.c: of devices */
void vt_rules_alone(struct vt_review *review);  /* job/rules/rules.c: what is wrong by itself */
/* job/rules/collectives.c: by PyTorch's flight recorders */
void vt_rules_sequences(struct vt_review *review);
/* job/rules/rules.c: what ranks do while others wait */
void vt_rules_ranks(struct vt_review *review);
void vt_rules_ras(struct vt_review *review);     /* job/rules/ras.c: what NCCL's RAS says */
void vt_rules_equal(struct vt_review *review);   /* job/rules/rules.c: no rank differs */
void vt_rules_kernels(struct vt_review *review); /* job/rules/kernels.c: what the GPUs run */
/* job/rules/faults.c: what devices say of themselves */
void vt_rules_health(struct vt_review *review);
void vt_rules_workers(struct vt_review *review); /* job/rules/missing.c: loader workers */
void vt_rules_memory(struct vt_review *review);  /* job/rules/memory.c */
/* job/rules/categories.c: what the memory of ranks is; a part of the former */
void vt_rules_categories(struct vt_review *review);
/* job/rules/chains.c: what the verdicts have in common; the last of all */
void vt_rules_chains(struct vt_review *review);
/* job/rules/ledger.c: what is not PyTorch's; likewise */
void vt_rules_ledger(struct vt_review *review);

#endif
