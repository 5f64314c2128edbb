/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jaxlib/py_array.h: a PyArrayObject has a flag that it is initialised, and then what the array is:
 * aval, dtype, shape, sharding. The table has what was seen in each release; what else there may be
 * is left out, as the classes of aval and dtype show.
 */
#include <string.h>

#include "walk/arrays/arrays.h"
#include "walk/arrays/dtype.h"

/* In words behind the head of the object. */
struct layout {
	uint8_t initialized; /* a bool */
	uint8_t aval, dtype;
	uint8_t shape; /* std::vector<int64_t>: begin, end, capacity */
	uint8_t sharding;
};

static const struct layout layouts[] = {
	{ 0, 1, 3, 4, 7 },  /* 0.10.2 */
	{ 2, 3, 5, 6, 9 },  /* the same behind two words for weak references and a dict */
	{ 0, 5, 6, 7, 10 }, /* 0.11.2, 0.12.0 */
};

#define MAX_WORDS 11

static bool is_of(struct vt_pyheap *heap, uint64_t object, const char *module, const char *name)
{
	uint32_t cls = vt_pyheap_class_of(heap, object);

	return cls != VT_GRAPH_NONE && !strcmp(heap->classes.data[cls].name, name) &&
	       (!module || !strcmp(heap->classes.data[cls].module, module));
}

static bool read_shape(struct vt_pyheap *heap, const uint64_t *vector, uint32_t item_bytes,
		       struct vt_arrays_jax *array)
{
	uint64_t bytes = vector[1] - vector[0];
	int64_t all = item_bytes;

	if (vector[1] < vector[0] || vector[2] < vector[1] || bytes % 8 ||
	    bytes / 8 > VT_ARRAYS_MAX_DIMS ||
	    (bytes && !vt_pages_read(heap->pages, vector[0], array->sizes, bytes)))
		return false;
	array->n_dims = bytes / 8;
	for (uint64_t i = 0; i < array->n_dims; i++)
		if (array->sizes[i] < 0 || __builtin_mul_overflow(all, array->sizes[i], &all))
			return false;
	array->bytes = (uint64_t)all;
	return true;
}

static bool read_by(struct vt_pyheap *heap, uint64_t at, const struct layout *l,
		    struct vt_arrays_jax *array)
{
	uint64_t words[MAX_WORDS];
	const struct vt_dtype *dtype;

	if (!vt_pages_read(heap->pages, at, words, (l->sharding + 1) * sizeof(*words)) ||
	    (words[l->initialized] & 0xff) != 1 ||
	    !is_of(heap, words[l->aval], "jax._src.core", "ShapedArray"))
		return false;
	dtype = vt_dtype_at(heap, words[l->dtype]);
	if (!dtype || !read_shape(heap, words + l->shape, dtype->bytes, array))
		return false;
	array->dtype = dtype->name;
	array->single = is_of(heap, words[l->sharding], NULL, "SingleDeviceSharding");
	return true;
}

bool vt_arrays_jax(struct vt_arrays *arrays, uint64_t addr, struct vt_arrays_jax *array)
{
	struct vt_pyheap *heap = arrays->heap;
	uint32_t cls = vt_pyheap_class_of(heap, addr);

	if (!is_of(heap, addr, "jaxlib._jax", "ArrayImpl") &&
	    !is_of(heap, addr, "jaxlib.xla_extension", "ArrayImpl"))
		return false;
	for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
		int64_t bytes = (int64_t)heap->head + (layouts[i].sharding + 1) * INT64_C(8);

		if (heap->classes.data[cls].basicsize >= bytes &&
		    read_by(heap, addr + heap->head, &layouts[i], array))
			return true;
	}
	return false;
}
