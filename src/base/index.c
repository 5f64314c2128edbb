/* SPDX-License-Identifier: Apache-2.0 */
#include "base/index.h"

#include <stdlib.h>

#include "base/huge.h"

static void put(struct vt_index *index, struct vt_index_slot slot)
{
	size_t at = slot.hash & index->mask;

	while (index->slots[at].number)
		at = (at + 1) & index->mask;
	index->slots[at] = slot;
}

static bool grow(struct vt_index *index)
{
	size_t n = index->slots ? (index->mask + 1) * 2 : 64;
	struct vt_index bigger = { .slots = calloc(n, sizeof(*index->slots)),
				   .n = index->n,
				   .mask = n - 1 };

	if (!bigger.slots)
		return false;
	vt_want_huge_pages(bigger.slots, n * sizeof(*bigger.slots));
	for (size_t i = 0; index->slots && i <= index->mask; i++)
		if (index->slots[i].number)
			put(&bigger, index->slots[i]);
	free(index->slots);
	*index = bigger;
	return true;
}

void vt_index_deinit(struct vt_index *index)
{
	free(index->slots);
	*index = (struct vt_index){ 0 };
}

bool vt_index_put(struct vt_index *index, uint64_t hash, size_t number)
{
	if (number >= VT_INDEX_MOST)
		return false;
	if ((!index->slots || (index->n + 1) * 4 > (index->mask + 1) * 3) && !grow(index))
		return false;
	put(index, (struct vt_index_slot){ .hash = (uint32_t)(hash >> 32),
					   .number = (uint32_t)number + 1 });
	index->n++;
	return true;
}
