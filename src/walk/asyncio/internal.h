/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of this room only. */
#ifndef VT_WALK_ASYNCIO_INTERNAL_H
#define VT_WALK_ASYNCIO_INTERNAL_H

#include "base/map.h"
#include "walk/asyncio/asyncio.h"
#include "walk/heap/pages.h"
#include "walk/pyheap/pyheap.h"
#include "walk/python/layout.h"

/* What an object is to asyncio. */
enum vt_asyncio_kind {
	VT_ASYNCIO_OTHER,
	VT_ASYNCIO_FUTURE, /* _asyncio.Future and what derives from it, but for tasks */
	VT_ASYNCIO_TASK,   /* _asyncio.Task and what derives from it */
};

/*
 * struct FutureObj begins with the loop, a callback with its context, and the list of other
 * callbacks, in 3.11 to 3.14 (Modules/_asynciomodule.c). Offsets behind the PyObject.
 */
enum {
	VT_ASYNCIO_LOOP = 0,
	VT_ASYNCIO_CALLBACK = 8,
	VT_ASYNCIO_CALLBACKS = 24,
};

/* Where a coroutine is suspended: many tasks are at the same place. */
struct vt_asyncio_place {
	uint64_t code, instruction;
	struct vt_python_frame frame; /* resolved */
};

struct vt_asyncio_reader {
	struct vt_asyncio *out;
	struct vt_python *py;
	struct vt_modules *modules;
	struct vt_pages pages;
	struct vt_pyheap heap;
	struct vt_map index;    /* address of a task → index in out->tasks + 1 */
	struct vt_map kinds;    /* class index → enum vt_asyncio_kind + 1 */
	struct vt_map by_place; /* hash of a place → index in places + 1 */
	VT_VEC(struct vt_asyncio_place) places;
	/* Where a task has its coroutine: its name follows, and what it waits for is before it. */
	uint32_t coroutine_at; /* 0: no task has shown it yet */
	uint64_t deadline_ns;
	uint64_t
		steps_left; /* of the search for waiters: hostile memory must not branch for ever */
	bool nomem;
};

static inline uint64_t vt_asyncio_word(struct vt_asyncio_reader *r, uint64_t object, uint32_t at)
{
	return object ? vt_pages_u64(&r->pages, object + r->heap.head + at) : 0;
}

/* ---- kind.c ---- */

/* The class of an object; NULL: it is none. Valid until the next one is asked for. */
const struct vt_pyheap_class *vt_asyncio_class(struct vt_asyncio_reader *r, uint64_t object);
enum vt_asyncio_kind vt_asyncio_kind_of(struct vt_asyncio_reader *r, uint64_t object);

/* ---- list.c: all tasks ---- */

/* Calls vt_asyncio_add() for each; sets out->why where they cannot be found. */
void vt_asyncio_list(struct vt_asyncio_reader *r);

/* ---- task.c: one task ---- */

/* Adds a task, unless it is known or done. */
void vt_asyncio_add(struct vt_asyncio_reader *r, uint64_t addr);

/* What a task waits for, an object or 0. */
uint64_t vt_asyncio_awaited(struct vt_asyncio_reader *r, uint64_t task);

/* ---- waiters.c: who waits for whom ---- */

void vt_asyncio_find_waiters(struct vt_asyncio_reader *r);

#endif
