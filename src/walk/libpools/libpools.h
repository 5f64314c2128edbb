/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readers of the memory pools of libraries other than PyTorch, from outside: of a process that
 * runs, of a stopped one, of a core. One row a library in libpools.c.
 */
#ifndef VT_WALK_LIBPOOLS_LIBPOOLS_H
#define VT_WALK_LIBPOOLS_LIBPOOLS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/vec.h"
#include "target/elfsym.h"
#include "target/live.h"
#include "target/maps.h"
#include "vramtap/libpools.h"
#include "vramtap/mem.h"

struct vt_python;

struct vt_libpool {
	struct vt_libpool_rec rec;
	VT_VEC(struct vt_libpool_region) regions;
	VT_VEC(struct vt_libpool_chunk) chunks; /* none unless rec.state is VT_LIBPOOL_EXACT */
};

struct vt_libpools {
	VT_VEC(struct vt_libpool) pools;
	struct vt_arena notes; /* owns the notes of chunks */
};

/* The process. Nothing is owned. */
struct vt_libpools_target {
	const struct vt_maps *maps;
	struct vt_modules *modules; /* their files are opened when they are needed */
	struct vt_memsrc *mem;      /* its memory as it is now */
	struct vt_live *live;       /* NULL: a core */
	struct vt_python *python;   /* its interpreter; NULL: none was found */
	bool stands_still;          /* one look is enough: it is stopped, or a core */
	uint64_t deadline_ns;       /* of vt_now_ns() */
	/*
	 * What the driver says was made to be shared with other processes (cuMemCreate with a
	 * handle type). Sorted by address, disjoint. NULL: the driver was not asked.
	 */
	const struct vt_libpool_region *shareable;
	size_t n_shareable;
};

/* A library's row. */
struct vt_libpool_walker {
	/*
	 * Whether the library is there: a look at the names of modules. It must cost nothing where
	 * it is not.
	 */
	bool (*is_in)(const struct vt_libpools_target *target);
	/*
	 * Appends the pools that it finds. Everything that is read is hostile: bounded, checked. A
	 * pool whose structure fails a check is left out, unless it was changing. Returns at the
	 * deadline with what there is. An error says why pools may be missing.
	 */
	struct vt_error *(*find)(const struct vt_libpools_target *target,
				 struct vt_libpools *pools);
};

/* Whether this library is there: target->modules are enough. */
bool vt_libpools_has(const struct vt_libpools_target *target, enum vt_libpool_kind kind);

/* Whether any of the libraries is there. */
bool vt_libpools_may_be_in(const struct vt_libpools_target *target);

/*
 * All pools of all libraries; pools must be zeroed. *why: the first reason for missing ones, or
 * NULL; the caller destroys it. Never fails otherwise: there may be none.
 */
void vt_libpools_init(struct vt_libpools *pools, const struct vt_libpools_target *target,
		      struct vt_error **why);
void vt_libpools_deinit(struct vt_libpools *pools);

/* Of one pool that is not in a list. */
void vt_libpool_deinit(struct vt_libpool *pool);

#endif
