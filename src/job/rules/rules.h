/* SPDX-License-Identifier: Apache-2.0 */
/* The conclusions from the members of a job. */
#ifndef VT_JOB_RULES_RULES_H
#define VT_JOB_RULES_RULES_H

#include "job/job.h"

/* Fills the fields marked "account". Call once, after all members were added. */
void vt_job_account(struct vt_job *job);

/* Its last step (rules.c): the verdicts, the answer first. False when out of memory. */
bool vt_job_make_verdicts(struct vt_job *job);

#endif
