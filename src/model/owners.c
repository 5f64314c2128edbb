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

static const struct {
	const char *code, *words, *array_words; /* NULL: not said of arrays */
} unowned[VT_N_UNOWNED] = {
	[VT_UNOWNED_NO_TENSOR] = { "no-tensor", "no tensor in it", "no array in it" },
	[VT_UNOWNED_RAN] = { "process-ran", "no tensor in it yet, the process ran",
			     "no array in it yet, the process ran" },
	[VT_UNOWNED_LIBRARY] = { "library", "only native code uses it", NULL },
	[VT_UNOWNED_GRAPH_POOL] = { "graph-pool", "no tensor in it, a CUDA graph keeps it", NULL },
	[VT_UNOWNED_UNEXPLAINED] = { "unexplained", "what holds its tensor was not seen",
				     "what holds its array was not seen" },
	[VT_UNOWNED_UNREACHED] = { "unreached", "nothing leads to its tensor",
				   "nothing leads to its array" },
	[VT_UNOWNED_NOT_WHOLE] = { "not-whole", "not all objects were read", NULL },
};

static const struct {
	const char *code, *words;
} bounds[VT_N_OWNERS_BOUNDS] = {
	[VT_BOUND_OBJECTS] = { "objects", "no memory was left for more objects" },
	[VT_BOUND_MEMORY] = { "memory", "no memory was left for more pages" },
	[VT_BOUND_TIME] = { "time", "the time was over" },
	[VT_BOUND_ASKED] = { "asked",
			     "the process was asked, for variables, modules and optimizers" },
};

static const struct {
	const char *code, *words;
} states[VT_N_OWNERS_STATES] = {
	[VT_OWNERS_OFF] = { "off", "owners were not looked for" },
	[VT_OWNERS_READ] = { "read", "owners were read" },
	[VT_OWNERS_NO_PYTHON] = { "no-python", "there is no Python interpreter that can be read" },
	[VT_OWNERS_NO_LAYOUT] = { "no-layout", "PyTorch's objects could not be read" },
	[VT_OWNERS_NO_BLOCKS] = { "no-blocks", "there is no list of blocks" },
	[VT_OWNERS_FAILED] = { "failed", "see the notes" },
};

const char *vt_category_code(enum vt_category category)
{
	return names[category].code;
}

const char *vt_category_words(enum vt_category category)
{
	return names[category].words;
}

const char *vt_unowned_code(enum vt_unowned why)
{
	return unowned[why].code;
}

const char *vt_unowned_words(enum vt_unowned why)
{
	return unowned[why].words;
}

const char *vt_unowned_array_words(enum vt_unowned why)
{
	return unowned[why].array_words ? unowned[why].array_words : unowned[why].words;
}

const char *vt_owners_bound_code(enum vt_owners_bound bound)
{
	return bounds[bound].code;
}

const char *vt_owners_bound_words(enum vt_owners_bound bound)
{
	return bounds[bound].words;
}

const char *vt_owners_state_name(enum vt_owners_state state)
{
	return states[state].code;
}

const char *vt_owners_state_words(enum vt_owners_state state)
{
	return states[state].words;
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

static int compare_place(const struct vt_model_array *array, uint32_t pool, uint32_t chunk)
{
	if (array->pool != pool)
		return array->pool < pool ? -1 : 1;
	return (array->chunk > chunk) - (array->chunk < chunk);
}

const struct vt_model_array *vt_model_chunk_owner(const struct vt_model *model, uint32_t pool,
						  uint32_t chunk)
{
	const struct vt_model_array *arrays = model->owners.arrays.data;
	size_t low = 0, high = model->owners.arrays.n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = compare_place(&arrays[middle], pool, chunk);

		if (!order)
			return &arrays[middle];
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

size_t vt_model_n_owners(const struct vt_model *model)
{
	return model->owners.items.n + model->owners.arrays.n;
}

const struct vt_model_array *vt_model_array_at(const struct vt_model *model, size_t i)
{
	const struct vt_model_owners *owners = &model->owners;

	return i < owners->items.n ? NULL : &owners->arrays.data[i - owners->items.n];
}

const struct vt_model_owner *vt_model_owner_at(const struct vt_model *model, size_t i)
{
	const struct vt_model_array *array = vt_model_array_at(model, i);

	return array ? &array->owner : &model->owners.items.data[i];
}

uint64_t vt_model_owned_bytes(const struct vt_model *model, size_t i)
{
	const struct vt_model_array *array = vt_model_array_at(model, i);

	return array ? array->bytes : model->blocks[model->owners.items.data[i].block].size;
}

/* ---- sums ---- */

/* largest: bytes of the largest one so far. */
static void count(struct vt_model_category *category, uint64_t bytes, uint64_t largest,
		  bool certain, uint32_t index)
{
	category->bytes += bytes;
	category->blocks++;
	if (certain)
		category->certain_bytes += bytes;
	if (category->largest == UINT32_MAX || bytes > largest)
		category->largest = index;
}

static void forget_sums(struct vt_model_category *categories, struct vt_model_category *reasons)
{
	for (size_t i = 0; i < VT_N_CATEGORIES; i++)
		categories[i] = (struct vt_model_category){ .largest = UINT32_MAX };
	for (size_t i = 0; i < VT_N_UNOWNED; i++)
		reasons[i] = (struct vt_model_category){ .largest = UINT32_MAX };
}

static void count_block(struct vt_model_category *category, const struct vt_model *model,
			uint32_t item)
{
	uint64_t largest = category->largest == UINT32_MAX ?
				   0 :
				   vt_model_owned_bytes(model, category->largest);

	count(category, vt_model_owned_bytes(model, item), largest,
	      model->owners.items.data[item].certain, item);
}

static void count_array(struct vt_model_category *category, const struct vt_model_array *arrays,
			uint32_t i)
{
	count(category, arrays[i].bytes,
	      category->largest == UINT32_MAX ? 0 : arrays[category->largest].bytes,
	      arrays[i].owner.certain, i);
}

static void count_arrays(struct vt_model_owners *owners)
{
	for (size_t i = 0; i < VT_N_LIBPOOL_KINDS; i++) {
		owners->array_sums[i].bytes = owners->array_sums[i].blocks = 0;
		forget_sums(owners->array_sums[i].categories, owners->array_sums[i].unowned);
	}
	for (size_t i = 0; i < owners->arrays.n; i++) {
		const struct vt_model_array *array = &owners->arrays.data[i];
		struct vt_model_array_sums *sums = &owners->array_sums[array->library];

		sums->bytes += array->bytes;
		sums->blocks++;
		count_array(&sums->categories[array->owner.category], owners->arrays.data,
			    (uint32_t)i);
		count_array(&sums->unowned[array->owner.unowned], owners->arrays.data, (uint32_t)i);
	}
}

void vt_model_count_owners(struct vt_model *model)
{
	struct vt_model_owners *owners = &model->owners;

	forget_sums(owners->categories, owners->unowned);
	for (size_t i = 0; i < owners->items.n; i++) {
		const struct vt_model_owner *owner = &owners->items.data[i];

		count_block(&owners->categories[owner->category], model, (uint32_t)i);
		count_block(&owners->unowned[owner->unowned], model, (uint32_t)i);
	}
	count_arrays(owners);
}
