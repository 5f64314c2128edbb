/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that hold more or less outside PyTorch than the others. */
#include <stdio.h>
#include <stdlib.h>

#include "job/lines.h"
#include "job/rules/odd.h"

#define LEAST (UINT64_C(256) << 20)
#define PART 4
#define MAX_SAID 3

/* "rank 3 has 2.10 GiB of raw cudaMalloc, the others none" */
static const char *const kinds[VT_N_RANGE_KINDS] = {
	[VT_RANGE_DEVICE] = "raw cudaMalloc",      [VT_RANGE_MAPPED] = "raw cuMemMap",
	[VT_RANGE_POOL] = "cudaMallocAsync pools", [VT_RANGE_MANAGED] = "managed memory",
	[VT_RANGE_HOST] = "pinned host memory",    [VT_RANGE_DATA] = "data of GPU code",
	[VT_RANGE_ARRAY] = "arrays, textures",     [VT_RANGE_GRAPH] = "memory of CUDA graphs",
};

/* NULL: PyTorch's, which has rules of its own, and the total, which follows from the others. */
static const char *words_of(size_t line, char buf[48])
{
	if (line < VT_JOB_LIBRARIES || line == VT_JOB_TOTAL)
		return NULL;
	if (line == VT_JOB_OTHER)
		return "memory that is not PyTorch's";
	if (line == VT_JOB_REST)
		return "contexts, code and what is in no allocation";
	if (line >= VT_JOB_KINDS)
		return kinds[line - VT_JOB_KINDS];
	snprintf(buf, 48, "memory of %s",
		 vt_libpool_library(vt_job_line_claimer(line) - VT_CLAIMER_LIBPOOLS));
	return buf;
}

/* Of ranks that were read in the same way. */
static size_t gather(const struct vt_review *review, size_t line, struct vt_job_amount *amounts)
{
	size_t n = 0;

	for (size_t i = 0; i < review->ranks.n; i++) {
		uint32_t member = review->ranks.data[i];
		struct vt_job_lines lines;

		if (vt_job_lines(vt_review_member(review, member), &lines) &&
		    lines.listed == (line != VT_JOB_OTHER) &&
		    (lines.rest_known || line != VT_JOB_REST))
			amounts[n++] = (struct vt_job_amount){ lines.bytes[line], member };
	}
	return n;
}

void vt_rules_ledger(struct vt_review *review)
{
	struct vt_job_amount *amounts = calloc(review->ranks.n + 1, sizeof(*amounts));
	size_t said = 0;

	review->failed |= !amounts;
	for (size_t line = 0; line < VT_N_JOB_LINES && amounts && review->comparable; line++) {
		char buf[48];
		const struct vt_odd_rule rule = { VT_FINDING_IMBALANCE_LINE, words_of(line, buf),
						  LEAST, PART };

		if (rule.what && said < MAX_SAID)
			said += vt_odd_say(review, &rule, amounts, gather(review, line, amounts),
					   MAX_SAID - said);
	}
	free(amounts);
}
