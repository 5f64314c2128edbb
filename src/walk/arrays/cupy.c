/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cupy/_core/core.pxd and cupy/cuda/memory.pxd, the same from 12.0 to 14.2. Words are counted from
 * behind the head of an object. A class of Cython's has a table of its methods first, unless it has
 * none for C.
 */
#include <string.h>

#include "walk/arrays/arrays.h"
#include "walk/arrays/dtype.h"

#define MAX_BYTES (UINT64_C(1) << 43)
#define MAX_DEVICES 1024

enum {
	ARRAY_WEAKREFS = 1,
	ARRAY_SIZE = 2,
	ARRAY_SHAPE = 3, /* std::vector<Py_ssize_t>: begin, end, capacity */
	ARRAY_STRIDES = 6,
	ARRAY_FLAGS = 9, /* three int: C contiguous, Fortran contiguous, 32 bits are enough */
	ARRAY_DTYPE = 11,
	ARRAY_DATA = 12,
	ARRAY_WORDS = 14,
	POINTER_AT = 1,
	POINTER_DEVICE = 2,
	POINTER_MEMORY = 3,
	POINTER_WORDS = 4,
	MEMORY_START = 0,
	MEMORY_SIZE = 1,
	MEMORY_DEVICE = 2,
	MEMORY_WORDS = 3,
};

/* The class of the object at addr; of a class statement's, the first of C that it derives from. */
static const struct vt_pyheap_class *c_class(struct vt_pyheap *heap, uint64_t addr)
{
	uint32_t at = vt_pyheap_class_of(heap, addr);

	for (int i = 0; at != VT_GRAPH_NONE && i < 64; i++) {
		const struct vt_pyheap_class *cls = &heap->classes.data[at];
		const uint64_t *base;

		if (!cls->of_python)
			return cls;
		base = vt_map_get(&heap->by_addr, cls->base);
		at = base ? (uint32_t)*base : VT_GRAPH_NONE;
	}
	return NULL;
}

/* The one with this name that a class is, or derives from. */
static const struct vt_pyheap_class *named(struct vt_pyheap *heap, uint64_t addr, const char *name)
{
	const struct vt_pyheap_class *cls = c_class(heap, addr);

	for (int i = 0; cls && strcmp(cls->name, name) != 0; i++) {
		const uint64_t *base = i < 64 ? vt_map_get(&heap->by_addr, cls->base) : NULL;

		cls = base && *base != VT_GRAPH_NONE ? &heap->classes.data[*base] : NULL;
	}
	return cls;
}

static bool has_size(const struct vt_pyheap *heap, const struct vt_pyheap_class *cls, int64_t words)
{
	return cls && cls->basicsize == (int64_t)heap->head + words * 8;
}

/* The fields of an object, which is the same object with the same fields now. */
static bool read_words(struct vt_arrays *arrays, uint64_t addr, uint64_t *words, size_t n)
{
	struct vt_pyheap *heap = arrays->heap;
	uint64_t now[ARRAY_WORDS], type, type_now;

	if (!vt_pages_read(heap->pages, addr + heap->head, words, n * 8) ||
	    !vt_pages_read(heap->pages, addr + heap->type_at, &type, sizeof(type)))
		return false;
	return !arrays->now ||
	       (vt_pages_read(arrays->now, addr + heap->head, now, n * 8) &&
		vt_pages_read(arrays->now, addr + heap->type_at, &type_now, sizeof(type_now)) &&
		type == type_now && !memcmp(words, now, n * 8));
}

bool vt_arrays_memory(struct vt_arrays *arrays, uint64_t addr, struct vt_arrays_memory *memory)
{
	uint64_t words[MEMORY_WORDS];
	uint32_t cls = vt_pyheap_class_of(arrays->heap, addr);
	int32_t device;
	uint16_t is;

	if (cls == VT_GRAPH_NONE ||
	    !has_size(arrays->heap, named(arrays->heap, addr, "BaseMemory"), MEMORY_WORDS) ||
	    !read_words(arrays, addr, words, MEMORY_WORDS))
		return false;
	device = (int32_t)words[MEMORY_DEVICE];
	is = arrays->heap->classes.data[cls].is;
	*memory = (struct vt_arrays_memory){
		.start = words[MEMORY_START],
		.size = words[MEMORY_SIZE],
		.device = device,
		.pooled = is & VT_PYHEAP_IS_CUPY_POOLED,
		.borrowed = is & VT_PYHEAP_IS_CUPY_BORROWED,
	};
	return memory->start && memory->size && memory->size <= MAX_BYTES &&
	       memory->start <= UINT64_MAX - MAX_BYTES && device >= 0 && device < MAX_DEVICES;
}

bool vt_arrays_pointer(struct vt_arrays *arrays, uint64_t addr, struct vt_arrays_pointer *pointer)
{
	uint64_t words[POINTER_WORDS];
	struct vt_arrays_memory memory;

	if (!has_size(arrays->heap, named(arrays->heap, addr, "MemoryPointer"), POINTER_WORDS) ||
	    !read_words(arrays, addr, words, POINTER_WORDS))
		return false;
	*pointer = (struct vt_arrays_pointer){ words[POINTER_AT], words[POINTER_MEMORY] };
	return vt_arrays_memory(arrays, pointer->memory, &memory) &&
	       memory.device == (int32_t)words[POINTER_DEVICE] && pointer->at >= memory.start &&
	       pointer->at - memory.start <= memory.size;
}

/* ---- shapes ---- */

static bool read_vector(struct vt_arrays *arrays, const uint64_t *words, int64_t *numbers,
			uint64_t *n)
{
	uint64_t bytes = words[1] - words[0];

	*n = bytes / 8;
	return words[1] >= words[0] && words[2] >= words[1] && bytes % 8 == 0 &&
	       *n <= VT_ARRAYS_MAX_DIMS &&
	       (!bytes || vt_pages_read(arrays->heap->pages, words[0], numbers, bytes));
}

static bool product_is(const int64_t *sizes, uint64_t n, uint64_t size)
{
	int64_t product = 1;

	for (uint64_t i = 0; i < n; i++)
		if (sizes[i] < 0 || __builtin_mul_overflow(product, sizes[i], &product))
			return false;
	return (uint64_t)product == size;
}

/* Which bytes it shows, from its pointer on. */
static bool span(struct vt_arrays_array *array, const int64_t *strides, uint64_t size,
		 uint32_t bytes)
{
	array->first = 0;
	array->last = size ? bytes : 0;
	for (uint64_t i = 0; size && i < array->n_dims; i++) {
		int64_t step;

		if (__builtin_mul_overflow(array->sizes[i] - 1, strides[i], &step) ||
		    __builtin_add_overflow(step < 0 ? array->first : array->last, step,
					   step < 0 ? &array->first : &array->last))
			return false;
	}
	return true;
}

static bool is_in_memory(const struct vt_arrays_array *array,
			 const struct vt_arrays_pointer *pointer,
			 const struct vt_arrays_memory *memory)
{
	uint64_t before = pointer->at - memory->start, behind = memory->size - before;

	return -(uint64_t)array->first <= before && (uint64_t)array->last <= behind;
}

static bool flags_make_sense(const uint64_t *words)
{
	return !(words[ARRAY_FLAGS] & ~UINT64_C(0x100000001)) &&
	       (uint32_t)words[ARRAY_FLAGS + 1] <= 1;
}

bool vt_arrays_array(struct vt_arrays *arrays, uint64_t addr, struct vt_arrays_array *array)
{
	const struct vt_pyheap_class *cls = named(arrays->heap, addr, "_ndarray_base");
	int64_t weakrefs = (int64_t)arrays->heap->head + ARRAY_WEAKREFS * 8;
	uint64_t words[ARRAY_WORDS], n_strides;
	int64_t strides[VT_ARRAYS_MAX_DIMS];
	struct vt_arrays_pointer pointer;
	struct vt_arrays_memory memory;
	const struct vt_dtype *dtype;

	if (!has_size(arrays->heap, cls, ARRAY_WORDS) || cls->weaklistoffset != weakrefs ||
	    !read_words(arrays, addr, words, ARRAY_WORDS) || !flags_make_sense(words) ||
	    !read_vector(arrays, words + ARRAY_SHAPE, array->sizes, &array->n_dims) ||
	    !read_vector(arrays, words + ARRAY_STRIDES, strides, &n_strides) ||
	    n_strides != array->n_dims ||
	    !product_is(array->sizes, array->n_dims, words[ARRAY_SIZE]))
		return false;
	dtype = vt_dtype_at(arrays->heap, words[ARRAY_DTYPE]);
	array->dtype = dtype ? dtype->name : NULL;
	array->pointer = words[ARRAY_DATA];
	return span(array, strides, words[ARRAY_SIZE], dtype ? dtype->bytes : 1) &&
	       vt_arrays_pointer(arrays, array->pointer, &pointer) &&
	       vt_arrays_memory(arrays, pointer.memory, &memory) &&
	       is_in_memory(array, &pointer, &memory);
}
