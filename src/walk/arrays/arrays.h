/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays of CuPy (cupy.ndarray → MemoryPointer → memory) and JAX. They are Python's objects with
 * fields of C; what holds them is known to walk/pyheap. Each object is read as a whole. It is
 * believed only if its class has the size that the layout has, and its fields agree with each
 * other. What does not is left out.
 */
#ifndef VT_WALK_ARRAYS_ARRAYS_H
#define VT_WALK_ARRAYS_ARRAYS_H

#include <stdbool.h>
#include <stdint.h>

#include "walk/heap/pages.h"
#include "walk/pyheap/pyheap.h"

struct vt_arrays {
	struct vt_pyheap *heap; /* not owned */
	/* The process's memory as it is later; NULL: it stands still. Objects must be the same. */
	struct vt_pages *now;
};

/* Memory of one piece: an object of a class of BaseMemory. */
struct vt_arrays_memory {
	uint64_t start, size;
	int32_t device;
	bool pooled;   /* a chunk of a MemoryPool */
	bool borrowed; /* somebody else's (UnownedMemory) */
};

/* A place in it: a MemoryPointer. */
struct vt_arrays_pointer {
	uint64_t at;
	uint64_t memory; /* object */
};

enum { VT_ARRAYS_MAX_DIMS = 64 };

struct vt_arrays_array {
	uint64_t pointer;  /* object */
	const char *dtype; /* ours: "float32"; NULL unknown */
	uint64_t n_dims;
	int64_t sizes[VT_ARRAYS_MAX_DIMS];
	int64_t first, last; /* bytes that it shows, from its pointer on: [first, last) */
};

/* False: there is none at addr that makes sense, or it is another one now. */
bool vt_arrays_memory(struct vt_arrays *arrays, uint64_t addr, struct vt_arrays_memory *memory);
bool vt_arrays_pointer(struct vt_arrays *arrays, uint64_t addr, struct vt_arrays_pointer *pointer);
bool vt_arrays_array(struct vt_arrays *arrays, uint64_t addr, struct vt_arrays_array *array);

/* An array of JAX's, as its Python object has it: its memory is known to C++ only. */
struct vt_arrays_jax {
	const char *dtype; /* ours */
	uint64_t n_dims;
	int64_t sizes[VT_ARRAYS_MAX_DIMS];
	uint64_t bytes; /* of the whole array */
	bool single;    /* on one device */
};

/* False: there is none at addr that makes sense. */
bool vt_arrays_jax(struct vt_arrays *arrays, uint64_t addr, struct vt_arrays_jax *array);

/* "(7, 5, 3)", in arena; at most max sizes. NULL: out of memory. */
const char *vt_arrays_shape(struct vt_arena *arena, const int64_t *sizes, uint64_t n, uint64_t max);

#endif
