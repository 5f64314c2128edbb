/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A copy of the stacks of stopped threads, taken in bulk so that the target can run again before
 * anything is unwound. Its memory source reads from the copies, and everything else (code, unwind
 * tables, deeper stack) from the live source.
 */
#ifndef VT_TARGET_SNAPSHOT_H
#define VT_TARGET_SNAPSHOT_H

#include "base/error.h"
#include "target/live.h"
#include "target/maps.h"
#include "target/session.h"

struct vt_snapshot; /* opaque */

struct vt_snapshot_limits {
	size_t per_thread; /* bytes of stack copied upwards from the page of each stack pointer */
	size_t total;      /* bytes in all */
};

/*
 * Sets up memory for copies, to save this time while the target is stopped. expect: the approximate
 * number of bytes.
 */
struct vt_error *vt_snapshot_create(struct vt_live *live, const struct vt_snapshot_limits *limits,
				    size_t expect, struct vt_snapshot **ret);
/* Once only. Threads of the session that are neither stopped nor sampled are left out. */
struct vt_error *vt_snapshot_take(struct vt_snapshot *snapshot, const struct vt_session *session,
				  const struct vt_maps *maps);
void vt_snapshot_destroy(struct vt_snapshot *snapshot);
/*
 * How many threads have more stack than was copied: what lies deeper is read live, from a target
 * that may run again.
 */
size_t vt_snapshot_cut_threads(const struct vt_snapshot *snapshot);

/* How many bytes would be copied for a thread with this stack pointer. */
size_t vt_snapshot_stack_size(const struct vt_maps *maps, uint64_t sp,
			      const struct vt_snapshot_limits *limits);

struct vt_memsrc *vt_snapshot_source(struct vt_snapshot *snapshot);

#endif
