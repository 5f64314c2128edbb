/* SPDX-License-Identifier: Apache-2.0 */
/* What follows from the members of a job. */
#ifndef VT_JOB_RULES_RULES_H
#define VT_JOB_RULES_RULES_H

#include "job/job.h"

/* Fills what is marked "account". Once, when all members are in. */
void vt_job_account(struct vt_job *job);

/* The last step of it (rules.c): what is wrong, the answer first. False when out of memory. */
bool vt_job_make_verdicts(struct vt_job *job);

#endif
