/* SPDX-License-Identifier: Apache-2.0 */
#include "model/find.h"

/* Avoids a sum: a hostile size can overflow the address space. */
static bool contains(uint64_t start, uint64_t size, uint64_t addr)
{
	return addr >= start && addr - start < size;
}

/* Whether a block continues the segment of the one before it. */
static bool continues(const struct vt_model *model, size_t block)
{
	return vt_model_segment_end(model, block - 1, block + 1) > block;
}

static void find_segment(const struct vt_model *model, struct vt_found *found)
{
	size_t begin = found->allocator->first_block, end = begin + found->allocator->n_blocks;

	for (found->segment = found->index;
	     found->segment > begin && continues(model, found->segment);)
		found->segment--;
	found->segment_end = vt_model_segment_end(model, found->index,
						  end < model->n_blocks ? end : model->n_blocks);
	found->segment_bytes = 0;
	for (size_t i = found->segment; i < found->segment_end; i++)
		if (model->blocks[i].state != VT_BLOCK_UNMAPPED)
			found->segment_bytes += model->blocks[i].size;
	if (found->index > found->segment)
		found->before = found->index - 1;
	if (found->index + 1 < found->segment_end)
		found->after = found->index + 1;
}

static uint64_t end_of(const struct vt_model *model, size_t block)
{
	return model->blocks[block].addr + model->blocks[block].size;
}

/*
 * For a block that does not contain the address: if it begins below, it also ends below, so its end
 * cannot overflow.
 */
static void keep_nearest(const struct vt_model *model, size_t i, struct vt_found *found)
{
	if (model->blocks[i].addr > found->addr) {
		if (found->above == VT_FOUND_NONE ||
		    model->blocks[i].addr < model->blocks[found->above].addr)
			found->above = i;
	} else if (found->below == VT_FOUND_NONE ||
		   end_of(model, i) > end_of(model, found->below)) {
		found->below = i;
	}
}

/*
 * Searches every block, because segments come in the order of PyTorch's own sets. Blocks of a
 * refused walk belong to no allocator, so they are skipped.
 */
static bool find_block(const struct vt_model *model, struct vt_found *found)
{
	for (size_t k = 0; k < model->allocators.n; k++) {
		const struct vt_model_allocator *a = &model->allocators.data[k];

		for (size_t i = a->first_block;
		     i < model->n_blocks && i - a->first_block < a->n_blocks; i++) {
			if (contains(model->blocks[i].addr, model->blocks[i].size, found->addr)) {
				found->allocator = a;
				found->index = i;
				return true;
			}
			keep_nearest(model, i, found);
		}
	}
	return false;
}

static bool find_pinned(const struct vt_model *model, struct vt_found *found)
{
	for (size_t i = 0; i < model->pinned.n_blocks; i++) {
		if (contains(model->pinned.blocks[i].addr, model->pinned.blocks[i].size,
			     found->addr)) {
			found->index = i;
			return true;
		}
	}
	return false;
}

static bool find_driver(const struct vt_model *model, struct vt_found *found)
{
	for (size_t i = 0; i < model->driver_blocks.n; i++) {
		const struct vt_model_driver_block *b = &model->driver_blocks.data[i];

		if (!b->of_pytorch && contains(b->addr, b->size, found->addr)) {
			found->index = i;
			return true;
		}
	}
	return false;
}

void vt_model_find_address(const struct vt_model *model, uint64_t addr, struct vt_found *ret)
{
	struct vt_found found = {
		.addr = addr,
		.before = VT_FOUND_NONE,
		.after = VT_FOUND_NONE,
		.below = VT_FOUND_NONE,
		.above = VT_FOUND_NONE,
	};

	if (find_block(model, &found)) {
		found.kind = VT_FOUND_BLOCK;
		found.below = found.above = VT_FOUND_NONE;
		find_segment(model, &found);
	} else if (find_pinned(model, &found)) {
		found.kind = VT_FOUND_PINNED;
	} else if (find_driver(model, &found)) {
		found.kind = VT_FOUND_DRIVER;
	}
	*ret = found;
}
