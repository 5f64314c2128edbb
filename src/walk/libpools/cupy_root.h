/* SPDX-License-Identifier: Apache-2.0 */
/* Where CuPy's pools are in a process. */
#ifndef VT_WALK_LIBPOOLS_CUPY_ROOT_H
#define VT_WALK_LIBPOOLS_CUPY_ROOT_H

#include "walk/libpools/cupy.h"
#include "walk/python/python.h"

/* The address of the variable that has CuPy's current allocator; 0: the module has no symbols. */
uint64_t vt_cupy_allocator_variable(struct vt_modules *modules);
/* The object whose method that is; 0: a function. */
uint64_t vt_cupy_allocator_object(struct vt_cupy_objects *o, uint64_t variable);

enum vt_cupy_class { VT_CUPY_MEMORY_POOL, VT_CUPY_SINGLE_POOL, VT_CUPY_POINTER, VT_CUPY_N_CLASSES };

struct vt_cupy_found {
	VT_VEC(uint64_t) objects[VT_CUPY_N_CLASSES];
};

/*
 * The objects of these classes, by the lists of Python's collector. False: not all of them. The
 * lists are of no use in free-threaded builds, during a collection, and where they change under
 * the look.
 */
bool vt_cupy_find_all(struct vt_cupy_objects *o, struct vt_python *python,
		      struct vt_cupy_found *found);
void vt_cupy_found_deinit(struct vt_cupy_found *found);

#endif
