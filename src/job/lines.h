/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What holds the memory of a member, by line, on all its devices together. With the driver's list
 * (--inject) each library has its line; the rest is what the kernel driver counts for the process
 * and is in no allocation. Without it, that count tells how much is not PyTorch's.
 */
#ifndef VT_JOB_LINES_H
#define VT_JOB_LINES_H

#include "job/job.h"

enum {
	VT_JOB_IN_USE, /* of PyTorch */
	VT_JOB_CACHED,
	VT_JOB_LIBRARIES,                                    /* + claimer, without PyTorch */
	VT_JOB_KINDS = VT_JOB_LIBRARIES + VT_N_CLAIMERS - 1, /* + enum vt_range_kind */
	VT_JOB_REST = VT_JOB_KINDS + VT_N_RANGE_KINDS,       /* contexts, code */
	VT_JOB_OTHER, /* not PyTorch's, where there is no list */
	VT_JOB_TOTAL, /* the kernel driver's count */
	VT_N_JOB_LINES
};

struct vt_job_lines {
	bool listed;     /* by the driver's list; else there is only OTHER */
	bool rest_known; /* REST and TOTAL */
	uint64_t bytes[VT_N_JOB_LINES];
};

/* The claimer of a line of LIBRARIES. */
static inline unsigned int vt_job_line_claimer(size_t line)
{
	return (unsigned int)line - VT_JOB_LIBRARIES + VT_CLAIMER_LIBPOOLS;
}

/* Whether the line is memory of devices: lines of these and REST, OTHER are TOTAL together. */
bool vt_job_line_is_of_device(size_t line);

/* What the driver's list has of one device, without the memory of the host. */
uint64_t vt_job_memory_found(const struct vt_job_memory *memory);

/* False: not known. */
bool vt_job_lines(const struct vt_member *member, struct vt_job_lines *lines);

#endif
