/* SPDX-License-Identifier: Apache-2.0 */
/* How much of its GPU memory each member has in some state, to find who has the most. */
#ifndef VT_JOB_AMOUNTS_H
#define VT_JOB_AMOUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "job/job.h"

struct vt_job_amount {
	uint64_t bytes;
	uint32_t member; /* index in job.members */
};

typedef uint64_t (*vt_job_amount_of)(const struct vt_job_memory *memory);

/* The bytes of a member on all its devices; false if none is known. */
bool vt_job_amount_sum(const struct vt_member *member, vt_job_amount_of of, uint64_t *sum);

/* Ascending; equal amounts in the order of the members. */
void vt_job_amounts_sort(struct vt_job_amount *amounts, size_t n);

#endif
