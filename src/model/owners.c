/* SPDX-License-Identifier: Apache-2.0 */
#include "model/owners.h"

#include "model/model.h"

/* The only table of categories: their names in files, and their words. */
static const struct {
	const char *code, *words;
} names[VT_N_CATEGORIES] = {
	[VT_CATEGORY_UNKNOWN] = { "unknown", "nobody found" },
	[VT_CATEGORY_PARAMETER] = { "parameter", "parameters" },
	[VT_CATEGORY_GRADIENT] = { "gradient", "gradients" },
	[VT_CATEGORY_OPTIMIZER] = { "optimizer", "optimizer state" },
	[VT_CATEGORY_BUFFER] = { "buffer", "buffers of modules" },
	[VT_CATEGORY_ACTIVATION] = { "activation", "activations held by a graph" },
	[VT_CATEGORY_INPUT] = { "input", "inputs" },
	[VT_CATEGORY_CACHE] = { "cache", "caches of keys and values" },
	[VT_CATEGORY_FRAME] = { "frame", "variables of running functions" },
	[VT_CATEGORY_PYTHON] = { "python", "other Python variables" },
	[VT_CATEGORY_EXCEPTION] = { "exception", "held by an exception" },
	[VT_CATEGORY_GARBAGE] = { "garbage", "garbage, not collected yet" },
	[VT_CATEGORY_WORKSPACE] = { "workspace", "workspaces of libraries" },
	[VT_CATEGORY_COMMUNICATION] = { "communication", "buffers of torch.distributed" },
	[VT_CATEGORY_GRAPH_POOL] = { "graph_pool", "pools of CUDA graphs" },
	[VT_CATEGORY_NATIVE] = { "native", "held by native code" },
};

static const char *const states[VT_N_OWNERS_STATES] = {
	[VT_OWNERS_OFF] = "off",
	[VT_OWNERS_READ] = "read",
	[VT_OWNERS_NO_PYTHON] = "no-python",
	[VT_OWNERS_NO_LAYOUT] = "no-layout",
	[VT_OWNERS_NO_BLOCKS] = "no-blocks",
	[VT_OWNERS_FAILED] = "failed",
};

const char *vt_category_code(enum vt_category category)
{
	return names[category].code;
}

const char *vt_category_words(enum vt_category category)
{
	return names[category].words;
}

const char *vt_owners_state_name(enum vt_owners_state state)
{
	return states[state];
}

const struct vt_model_owner *vt_model_owner(const struct vt_model *model, size_t block)
{
	const struct vt_model_owners *owners = &model->owners;
	size_t low = 0, high = owners->items.n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (owners->items.data[middle].block < block)
			low = middle + 1;
		else
			high = middle;
	}
	return low < owners->items.n && owners->items.data[low].block == block ?
		       &owners->items.data[low] :
		       NULL;
}

void vt_model_count_owners(struct vt_model *model)
{
	struct vt_model_owners *owners = &model->owners;

	for (size_t i = 0; i < VT_N_CATEGORIES; i++)
		owners->categories[i] = (struct vt_model_category){ .largest = UINT32_MAX };
	for (size_t i = 0; i < owners->items.n; i++) {
		const struct vt_model_owner *owner = &owners->items.data[i];
		struct vt_model_category *category = &owners->categories[owner->category];
		uint64_t bytes = model->blocks[owner->block].size;

		category->bytes += bytes;
		category->blocks++;
		if (owner->certain)
			category->certain_bytes += bytes;
		if (category->largest == UINT32_MAX ||
		    bytes > model->blocks[owners->items.data[category->largest].block].size)
			category->largest = (uint32_t)i;
	}
}
