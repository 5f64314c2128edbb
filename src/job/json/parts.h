/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/job/json: parts of the document. */
#ifndef VT_JOB_JSON_PARTS_H
#define VT_JOB_JSON_PARTS_H

#include "job/job.h"
#include "json/out.h"

/* [[0, 2], [4, 7]]: from, to. */
void vt_job_put_set(struct vt_json *json, const char *key, const struct vt_member_set *set);

/* "faults" */
void vt_job_put_faults(struct vt_json *json, const struct vt_job *job);

/* "kernels" of a member; nothing if that was not asked. */
void vt_job_put_kernels(struct vt_json *json, const struct vt_job_kernels *kernels);

/* "causes" */
void vt_job_put_chains(struct vt_json *json, const struct vt_job *job);

#endif
