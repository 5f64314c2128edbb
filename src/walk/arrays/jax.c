/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jaxlib/py_array.h: a PyArrayObject has a flag that it is initialised, and then what the array is:
 * aval, whether its type is weak, dtype, shape, sharding. That is how 0.10.2 has it. Where two
 * words for weak references and a dict come first, it is tried behind those. What else there may
 * be is left out, as the classes of aval and dtype show.
 */
#include <string.h>

#include "walk/arrays/arrays.h"
#include "walk/arrays/dtype.h"

enum {
	INITIALIZED = 0, /* a bool, as WEAK_TYPE is */
	AVAL = 1,
	WEAK_TYPE = 2,
	DTYPE = 3,
	SHAPE = 4, /* std::vector<int64_t>: begin, end, capacity */
	SHARDING = 7,
	WORDS = 8,
};

static const uint32_t begins[] = { 0, 16 };

static bool is_of(struct vt_pyheap *heap, uint64_t object, const char *module, const char *name)
{
	uint32_t cls = vt_pyheap_class_of(heap, object);

	return cls != VT_GRAPH_NONE && !strcmp(heap->classes.data[cls].name, name) &&
	       (!module || !strcmp(heap->classes.data[cls].module, module));
}

static bool is_flag(uint64_t word)
{
	return (word & 0xff) <= 1;
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

static bool read_at(struct vt_pyheap *heap, uint64_t at, struct vt_arrays_jax *array)
{
	uint64_t words[WORDS];
	const struct vt_dtype *dtype;

	if (!vt_pages_read(heap->pages, at, words, sizeof(words)) ||
	    (words[INITIALIZED] & 0xff) != 1 || !is_flag(words[WEAK_TYPE]) ||
	    !is_of(heap, words[AVAL], "jax._src.core", "ShapedArray"))
		return false;
	dtype = vt_dtype_at(heap, words[DTYPE]);
	if (!dtype || !read_shape(heap, words + SHAPE, dtype->bytes, array))
		return false;
	array->dtype = dtype->name;
	array->single = is_of(heap, words[SHARDING], NULL, "SingleDeviceSharding");
	return true;
}

bool vt_arrays_jax(struct vt_arrays *arrays, uint64_t addr, struct vt_arrays_jax *array)
{
	struct vt_pyheap *heap = arrays->heap;
	uint32_t cls = vt_pyheap_class_of(heap, addr);

	if (!is_of(heap, addr, "jaxlib._jax", "ArrayImpl") &&
	    !is_of(heap, addr, "jaxlib.xla_extension", "ArrayImpl"))
		return false;
	for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++)
		if (heap->classes.data[cls].basicsize >=
			    (int64_t)(heap->head + begins[i] + WORDS * 8) &&
		    read_at(heap, addr + heap->head + begins[i], array))
			return true;
	return false;
}
