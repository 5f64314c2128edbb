/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that have much more or less of something than most others. */
#ifndef VT_JOB_RULES_ODD_H
#define VT_JOB_RULES_ODD_H

#include "job/amounts.h"
#include "job/rules/review.h"

/*
 * A difference from the median rank is worth a line when it is at least so many bytes, and more
 * than one of so many parts of what that rank has. Nothing is said when most ranks differ.
 */
struct vt_odd_rule {
	enum vt_finding finding;
	const char *what; /* "has 9.10 GiB of" */
	uint64_t least;
	unsigned int part;
};

/* Sorts amounts. Says at most so many lines; returns how many it said. */
size_t vt_odd_say(struct vt_review *review, const struct vt_odd_rule *rule,
		  struct vt_job_amount *amounts, size_t n, size_t may_say);

#endif
