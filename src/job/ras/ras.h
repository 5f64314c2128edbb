/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of NCCL's RAS in a job. */
#ifndef VT_JOB_RAS_RAS_H
#define VT_JOB_RAS_RAS_H

#include "json/in.h"
#include "json/value.h"

#include "job/job.h"

/*
 * Adds an answer of NCCL's RAS, n bytes of text or JSON. host, pid, address and file come from
 * asked; asked->understood tells whether the answer is complete. False: out of memory.
 */
bool vt_job_add_ras(struct vt_job *job, const struct vt_ras *asked, const char *text, size_t n);

/* Some of its ranks launched more operations than others. */
bool vt_ras_differs(const struct vt_ras *ras);
/*
 * Sets whether the groups of now moved since earlier, which is another answer about the same ranks
 * of the same job. True: some did not move.
 */
bool vt_ras_compare(struct vt_ras *now, const struct vt_ras *earlier);

struct vt_json;
struct vt_json_in;

/* Into the JSON of a job, and back. */
void vt_job_put_ras(struct vt_json *json, const struct vt_job *job);
void vt_job_load_ras(struct vt_job *job, struct vt_json_in *in, const struct vt_json_value *root,
		     const char *prefix);

#endif
