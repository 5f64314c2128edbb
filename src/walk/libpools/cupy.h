/* SPDX-License-Identifier: Apache-2.0 */
/* CuPy's objects in the memory of a process. Private to the readers of CuPy's pools. */
#ifndef VT_WALK_LIBPOOLS_CUPY_H
#define VT_WALK_LIBPOOLS_CUPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "base/vec.h"
#include "walk/heap/pages.h"
#include "walk/libpools/libpools.h"
#include "walk/python/layout.h"

#define VT_CUPY_MODULE "memory.cpython-" /* cupy/cuda/memory.pyx, compiled */
#define VT_CUPY_MAX_BYTES (UINT64_C(1) << 43)

/* ---- objects ---- */

/* One look: each page is read once. */
struct vt_cupy_objects {
	struct vt_pages pages;
	const struct vt_python_layout *py;
	uint32_t head; /* sizeof(PyObject): what follows is the same with and without a GIL */
	uint64_t deadline_ns;
	uint64_t work; /* items that may still be looked at: bounds what damaged tables cost */
};

/* A word of an object, counted from behind its head; 0: none can be read. */
uint64_t vt_cupy_word(struct vt_cupy_objects *o, uint64_t object, uint32_t at);
/* Whether its class has this name, as in tp_name: "cupy.cuda.memory._Chunk", "dict". */
bool vt_cupy_is(struct vt_cupy_objects *o, uint64_t object, const char *name);
/* The name of its class. False: there is none. */
bool vt_cupy_class_name(struct vt_cupy_objects *o, uint64_t object, char *name, size_t size);
/* Of its class: tp_basicsize without the head. */
uint64_t vt_cupy_size(struct vt_cupy_objects *o, uint64_t object);
/* What a weak reference leads to; 0: it is gone. */
uint64_t vt_cupy_referent(struct vt_cupy_objects *o, uint64_t weakref);

/*
 * Each element of a tuple, list or set, or each value of a dict (values that are deleted are left
 * out). False: the container is damaged, or too large, or visit said so.
 */
bool vt_cupy_each(struct vt_cupy_objects *o, uint64_t container,
		  bool (*visit)(void *arg, uint64_t object), void *arg);

/* False: enough was read. */
bool vt_cupy_pay(struct vt_cupy_objects *o, uint64_t items);

/* ---- one pool of one device ---- */

enum vt_cupy_use { VT_CUPY_USE_UNKNOWN, VT_CUPY_FREE, VT_CUPY_USED };

struct vt_cupy_chunk {
	uint64_t object, memory;
	uint64_t offset, size; /* in the memory */
	uint64_t prev, next;
	uint8_t use; /* enum vt_cupy_use */
};

struct vt_cupy_memory {
	uint64_t object, start, size;
	int32_t device;
	char name[32]; /* of the class: "Memory", "ManagedMemory" */
};

struct vt_cupy_pool {
	uint64_t object;
	const struct vt_cupy_layout *layout;
	uint64_t held, used, limit;
	bool used_known;
	int32_t device;
	bool damaged; /* a part of it makes no sense, or was changing */
	VT_VEC(struct vt_cupy_chunk) chunks;
	VT_VEC(struct vt_cupy_memory) memories;
	struct vt_map chunk_at, memory_at; /* object → index */
};

/*
 * The SingleDeviceMemoryPool at object. False: there is none. What it can reach is read; a chunk
 * that is in use is in no table from 14.1 on.
 */
bool vt_cupy_pool_read(struct vt_cupy_objects *o, uint64_t object, struct vt_cupy_pool *pool);
void vt_cupy_pool_deinit(struct vt_cupy_pool *pool);

/* Whether the pool itself has all chunks that are in use: up to 14.0. */
bool vt_cupy_pool_knows_used(const struct vt_cupy_pool *pool);
/* A chunk of the pool that is known to be in use from somewhere else, and all of its neighbours. */
void vt_cupy_pool_add(struct vt_cupy_objects *o, struct vt_cupy_pool *pool, uint64_t chunk);

/* The pool as a libpool, once all was added. False: out of memory. */
bool vt_cupy_pool_tell(struct vt_cupy_pool *pool, struct vt_libpool *to);

#endif
