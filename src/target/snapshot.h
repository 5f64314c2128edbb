/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A copy of the stacks of stopped threads, taken in bulk so that the target can run again before anything is unwound. Its
 * memory source answers from the copies, and for all else (code, unwind tables, deeper stack) from the live source.
 */
#ifndef VT_TARGET_SNAPSHOT_H
#define VT_TARGET_SNAPSHOT_H

#include "base/error.h"
#include "target/live.h"
#include "target/maps.h"
#include "target/session.h"

struct vt_snapshot; /* opaque */

struct vt_snapshot_limits {
	size_t per_thread; /* bytes of stack copied from each stack pointer upwards */
	size_t total;      /* bytes in all */
};

/* Threads of the session that are neither stopped nor sampled are left out. */
struct vt_error *vt_snapshot_create(const struct vt_session *session, const struct vt_maps *maps, struct vt_live *live,
				    const struct vt_snapshot_limits *limits, struct vt_snapshot **ret);
void vt_snapshot_destroy(struct vt_snapshot *snapshot);
/* How many threads have more stack than was copied: what lies deeper is read live, of a target that may run again. */
size_t vt_snapshot_cut_threads(const struct vt_snapshot *snapshot);

struct vt_memsrc *vt_snapshot_source(struct vt_snapshot *snapshot);

#endif
