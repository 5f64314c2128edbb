/* SPDX-License-Identifier: Apache-2.0 */
#include "job/amounts.h"

#include <stdlib.h>

bool vt_job_amount_sum(const struct vt_member *member, vt_job_amount_of of, uint64_t *sum)
{
	uint64_t bytes = 0;
	bool known = false;

	for (size_t i = 0; i < member->memory.n; i++) {
		if (!member->memory.data[i].known)
			continue;
		known = true;
		bytes += of(&member->memory.data[i]);
	}
	if (known)
		*sum = bytes;
	return known;
}

static int compare_amounts(const void *pa, const void *pb)
{
	const struct vt_job_amount *a = pa, *b = pb;

	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? -1 : 1;
	return a->member < b->member ? -1 : a->member > b->member;
}

void vt_job_amounts_sort(struct vt_job_amount *amounts, size_t n)
{
	if (n)
		qsort(amounts, n, sizeof(*amounts), compare_amounts);
}
