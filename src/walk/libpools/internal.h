/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/walk/libpools: the libraries' rows, what they share, and the parts of XLA's. */
#ifndef VT_WALK_LIBPOOLS_INTERNAL_H
#define VT_WALK_LIBPOOLS_INTERNAL_H

#include "walk/libpools/libpools.h"

extern const struct vt_libpool_walker vt_libpool_xla;
extern const struct vt_libpool_walker vt_libpool_cupy;
extern const struct vt_libpool_walker vt_libpool_nccl;
extern const struct vt_libpool_walker vt_libpool_rmm;

/* Whether two looks at a pool saw the same. */
bool vt_libpool_is_same(const struct vt_libpool *a, const struct vt_libpool *b);

/* Which memory a mapping is. malloc() has small objects in the heap and in arenas of threads. */
enum vt_libpool_memory { VT_MEMORY_HEAP, VT_MEMORY_ARENA, VT_MEMORY_OTHER, VT_N_MEMORIES };

/* VT_N_MEMORIES: no place for objects: data of modules, devices, what others share. */
enum vt_libpool_memory vt_libpool_memory(const struct vt_map_entry *entry);

/* ---- XLA: tsl::BFCAllocator ---- */

/*
 * Is told of what has the class's virtual table. *is_one: it is an object of the class; else
 * something that looks alike. An error ends the search.
 */
typedef struct vt_error *vt_xla_take(void *arg, uint64_t object, bool *is_one);

/*
 * Objects of the class with this mangled name, of one module. One client creates its allocators
 * one after the other: the search ends with the mapping that has the first one. VT_ERR_NOTFOUND:
 * the module has no such class. VT_ERR_TIMEOUT: the deadline came first.
 */
struct vt_error *vt_xla_find_objects(const struct vt_libpools_target *target,
				     struct vt_module *module, const char *mangled,
				     vt_xla_take *take, void *arg);

enum vt_xla_outcome {
	VT_XLA_READ,
	VT_XLA_NOT_ONE,  /* no allocator is there: a word that looks alike */
	VT_XLA_CHANGING, /* it changed while it was read; its numbers are in pool, no chunks */
	VT_XLA_NO_MEMORY
};

/* The allocator at this address. pool must be zeroed, and is deinitialised by the caller. */
enum vt_xla_outcome vt_xla_read(struct vt_memsrc *mem, uint64_t object, struct vt_arena *notes,
				struct vt_libpool *pool);

#endif
