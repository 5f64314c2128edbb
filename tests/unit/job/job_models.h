/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs made up of reports made by hand, with a hang of a known culprit, for the tests and for
 * looking at them (job_demo).
 */
#ifndef VT_TESTS_JOB_MODELS_H
#define VT_TESTS_JOB_MODELS_H

#include "job/job.h"

struct job_model {
	const char *hang; /* one of job_model_hangs */
	int ranks;        /* 2 or more, eight to a host */
	int workers;      /* of each rank */
	int culprit;      /* rank */
	int threads;      /* more of each rank that only wait, with 20 frames each */
	int ways;         /* in which they wait, at most; 0: all in one */
};

/* NULL after the last. */
extern const char *const job_model_hangs[];

/* Adds all members; does not account. False when there is no such hang. */
bool job_model_fill(struct vt_job *job, const struct job_model *what);

#endif
