/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that hold more or less of a kind of memory than the others: of activations, of garbage. */
#include <stdlib.h>

#include "job/rules/odd.h"

#define MIB UINT64_C(1048576)
#define MAX_SAID 3
#define CATEGORY VT_FINDING_IMBALANCE_CATEGORY

/*
 * Ranks of one kind differ little in what a model is made of; stages of a pipeline do, which is why
 * nothing is said when most ranks differ. The order is that of the lines: leaks first.
 */
static const struct rule {
	enum vt_category category;
	struct vt_odd_rule odd;
} rules[] = {
	{ VT_CATEGORY_EXCEPTION,
	  { CATEGORY, "memory that only an exception holds", 256 * MIB, 4 } },
	{ VT_CATEGORY_GARBAGE, { CATEGORY, "garbage that is not collected", 256 * MIB, 4 } },
	{ VT_CATEGORY_ACTIVATION, { CATEGORY, "activations", 512 * MIB, 4 } },
	{ VT_CATEGORY_CACHE, { CATEGORY, "caches of keys and values", 512 * MIB, 4 } },
	{ VT_CATEGORY_PYTHON, { CATEGORY, "Python variables that are in no model", 512 * MIB, 4 } },
	{ VT_CATEGORY_FRAME, { CATEGORY, "variables of running functions", 512 * MIB, 4 } },
	{ VT_CATEGORY_INPUT, { CATEGORY, "inputs", 512 * MIB, 4 } },
	{ VT_CATEGORY_GRADIENT, { CATEGORY, "gradients", 512 * MIB, 4 } },
	{ VT_CATEGORY_OPTIMIZER, { CATEGORY, "optimizer state", 512 * MIB, 4 } },
	{ VT_CATEGORY_PARAMETER, { CATEGORY, "parameters", 512 * MIB, 4 } },
	{ VT_CATEGORY_BUFFER, { CATEGORY, "buffers of modules", 512 * MIB, 4 } },
	{ VT_CATEGORY_COMMUNICATION, { CATEGORY, "buffers of torch.distributed", 512 * MIB, 4 } },
	{ VT_CATEGORY_WORKSPACE, { CATEGORY, "workspaces of libraries", 512 * MIB, 4 } },
	{ VT_CATEGORY_GRAPH_POOL, { CATEGORY, "pools of CUDA graphs", 512 * MIB, 4 } },
	{ VT_CATEGORY_NATIVE, { CATEGORY, "memory that native code holds", 512 * MIB, 4 } },
};

#define N_RULES (sizeof(rules) / sizeof(rules[0]))

static size_t gather(const struct vt_review *review, enum vt_category category,
		     struct vt_job_amount *amounts)
{
	size_t n = 0;

	for (size_t i = 0; i < review->ranks.n; i++) {
		uint32_t member = review->ranks.data[i];
		const struct vt_job_owners *owners = &vt_review_member(review, member)->owners;

		if (vt_job_owners_known(owners))
			amounts[n++] = (struct vt_job_amount){ owners->bytes[category], member };
	}
	return n;
}

void vt_rules_categories(struct vt_review *review)
{
	struct vt_job_amount *amounts = calloc(review->ranks.n + 1, sizeof(*amounts));
	size_t said = 0;

	review->failed |= !amounts;
	for (size_t i = 0; i < N_RULES && amounts && review->comparable && said < MAX_SAID; i++)
		said += vt_odd_say(review, &rules[i].odd, amounts,
				   gather(review, rules[i].category, amounts), MAX_SAID - said);
	free(amounts);
}
