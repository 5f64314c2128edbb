/* SPDX-License-Identifier: Apache-2.0 */
/* Where the threads of a job are, as a profile. */
#ifndef VT_JOB_PROFILE_STACKS_H
#define VT_JOB_PROFILE_STACKS_H

#include "job/job.h"
#include "report/profile/profile.h"
#include "report/writer.h"

/*
 * The tree of the summary: a group for the main threads of each role and one for its other telling
 * threads. The innermost frames say what the threads do and whose they are. Groups with all
 * threads, and every frame of theirs, repeat that.
 */
void vt_profile_of_job(struct vt_profile *profile, const struct vt_job *job);

/* Of a struct vt_job, after vt_job_account(). */
vt_write_fn vt_write_job_speedscope;
vt_write_fn vt_write_job_folded;

#endif
