/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "collect/owners.h"

static int by_address(const void *a, const void *b)
{
	const struct vt_owners_block *x = a, *y = b;

	return (x->addr > y->addr) - (x->addr < y->addr);
}

void vt_owners_blocks_sort(struct vt_owners_blocks *blocks)
{
	if (blocks->list.n)
		qsort(blocks->list.data, blocks->list.n, sizeof(*blocks->list.data), by_address);
}

bool vt_owners_blocks_list(struct vt_owners_blocks *blocks, const struct vt_model *model)
{
	for (size_t i = 0; i < model->n_blocks; i++) {
		const struct vt_block_rec *b = &model->blocks[i];
		struct vt_owners_block *block;

		if (b->state != VT_BLOCK_ALLOCATED)
			continue;
		block = vt_vec_append(&blocks->list);
		if (!block)
			return false;
		*block = (struct vt_owners_block){
			.addr = b->addr,
			.size = b->size,
			.index = (uint32_t)i,
		};
	}
	vt_owners_blocks_sort(blocks);
	return true;
}
