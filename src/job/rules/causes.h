/* SPDX-License-Identifier: Apache-2.0 */
/* Causes: the verdicts from which a chain can begin or that are within one, and who waits. */
#ifndef VT_JOB_RULES_CAUSES_H
#define VT_JOB_RULES_CAUSES_H

#include "job/rules/review.h"

/* A kind of cause. */
struct vt_cause_kind {
	enum vt_finding code;
	enum vt_cure cure;
	/* wrong whatever others do; the others: only if they are waited for */
	bool alone;
	bool elsewhere;     /* it is named for not being where others wait */
	const char *phrase; /* between its members (one, many) and what they do; NULL none */
	const char *phrases;
};

struct vt_cause {
	const struct vt_cause_kind *kind;
	size_t verdict; /* index in job.verdicts */
	bool alarm;
	enum vt_doubt doubt;
	struct vt_job_indices members; /* empty: of no process that was found */
	struct vt_job_indices waiting; /* for them */
	bool in_chain;
};
struct vt_causes {
	struct vt_cause *data;
	size_t n, capacity;
};

/* Release them. False when out of memory. */
bool vt_causes_find(struct vt_review *review, struct vt_causes *causes);
void vt_causes_deinit(struct vt_causes *causes);

enum vt_cure vt_cause_cure(const struct vt_review *review, const struct vt_cause *cause);

/* The set has this member. */
bool vt_indices_have(const struct vt_job_indices *indices, uint32_t member);

#endif
