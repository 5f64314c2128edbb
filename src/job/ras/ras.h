/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of NCCL's RAS as a part of a job. */
#ifndef VT_JOB_RAS_RAS_H
#define VT_JOB_RAS_RAS_H

#include <jansson.h>

#include "job/job.h"

/*
 * Adds an answer of NCCL's RAS, n bytes of text or JSON: host, pid, address and file are those of asked, and
 * asked->understood says whether it came to its end. False: out of memory.
 */
bool vt_job_add_ras(struct vt_job *job, const struct vt_ras *asked, const char *text, size_t n);

/* Ranks of it have launched different numbers of operations. */
bool vt_ras_differs(const struct vt_ras *ras);
/* Says of the groups of now whether they moved since earlier, another answer about the same ranks in the same job. True: some did not. */
bool vt_ras_compare(struct vt_ras *now, const struct vt_ras *earlier);

struct vt_json;
struct vt_json_in;

/* In the JSON of a job, and back. */
void vt_job_put_ras(struct vt_json *json, const struct vt_job *job);
void vt_job_load_ras(struct vt_job *job, struct vt_json_in *in, json_t *root, const char *prefix);

#endif
