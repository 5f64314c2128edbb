/* SPDX-License-Identifier: Apache-2.0 */
/*
 * asyncio's tasks, read from outside; no code runs in the target. Of each task its coroutine with
 * those that it awaits, as a stack, and which tasks wait for which. CPython 3.11 to 3.14, where a
 * coroutine contains its frame; whatever the event loop is (uvloop runs the same tasks).
 *
 * Nothing here is stopped for it: the caller says of which moment the result is.
 */
#ifndef VT_WALK_ASYNCIO_ASYNCIO_H
#define VT_WALK_ASYNCIO_ASYNCIO_H

#include "base/arena.h"
#include "base/error.h"
#include "base/vec.h"
#include "target/elfsym.h"
#include "vramtap/mem.h"
#include "walk/python/python.h"

#define VT_ASYNCIO_MAX_TASKS 20000
#define VT_ASYNCIO_MAX_FRAMES 256 /* of one task */
#define VT_ASYNCIO_NONE SIZE_MAX

enum vt_asyncio_state {
	VT_ASYNCIO_WAITING, /* its coroutine awaits something */
	VT_ASYNCIO_READY,   /* the loop will run it: what it awaited is there, or it is new */
	VT_ASYNCIO_RUNNING, /* a thread executes it; its frames are in that stack, too */
};

struct vt_asyncio_task {
	uint64_t addr;
	const char *name; /* "Task-7"; "" unknown; hostile */
	enum vt_asyncio_state state;
	uint64_t loop; /* the event loop's object */
	size_t thread; /* that runs the loop: index in py->threads, or VT_ASYNCIO_NONE */
	VT_VEC(struct vt_python_frame) frames; /* innermost first, resolved */
	bool truncated;                        /* frames are missing */
	const char *awaits;     /* the type of what it waits for, "Future"; NULL none; hostile */
	VT_VEC(size_t) waiters; /* tasks that wait for this one, directly or in a group */
};

struct vt_asyncio {
	bool used; /* asyncio is imported */
	VT_VEC(struct vt_asyncio_task) tasks;
	bool cut;              /* there are more, or time ran out */
	const char *why;       /* ours: why there is no list; NULL: there is one */
	struct vt_arena arena; /* owns names */
};

/*
 * asyncio is zeroed. py was captured and resolved: its threads show which of them runs a loop.
 * modules: where 3.14 says how its tasks are listed. It ends at deadline_ns (vt_now_ns()).
 * VT_ERR_NOMEM, VT_ERR_UNSUPPORTED.
 */
struct vt_error *vt_asyncio_read(struct vt_asyncio *asyncio, struct vt_python *py,
				 struct vt_modules *modules, struct vt_memsrc *src,
				 uint64_t deadline_ns);
void vt_asyncio_deinit(struct vt_asyncio *asyncio);

#endif
