/* SPDX-License-Identifier: Apache-2.0 */
/* A job as JSON, and back. */
#ifndef VT_JOB_JSON_JSON_H
#define VT_JOB_JSON_JSON_H

#include "job/job.h"
#include "report/writer.h"

/* Adds all members in n bytes of JSON; prefix (a directory, "" none) precedes their file names. */
struct vt_error *vt_job_load_text(struct vt_job *job, const char *text, size_t n,
				  const char *prefix);
/* The same from a regular file. */
struct vt_error *vt_job_load(struct vt_job *job, const char *path, const char *prefix);

/*
 * Adds the one member that a worker reports; it must have this pid (0: any). On failure nothing is
 * added.
 */
struct vt_error *vt_job_load_one(struct vt_job *job, const char *text, size_t n, pid_t pid);

/* All that vt_job_load() reads, and the findings (doc/triage.schema.json). */
vt_write_fn vt_write_job_json; /* of a struct vt_job */

/* "device_memory", "mapped", ...; an enum vt_range_kind */
const char *vt_job_kind_name(unsigned int kind);

#endif
