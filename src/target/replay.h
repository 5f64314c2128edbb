/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A memory source that remembers which pages were read through it, and can read all of them again
 * at once. A read that needs a stopped target is first rehearsed while the target runs. Of the
 * rehearsal only the addresses count. Then the target stops for one bulk read instead of hundreds
 * of small ones. What the rehearsal missed is read on demand, so the result is the same, whatever
 * the target did since.
 */
#ifndef VT_TARGET_REPLAY_H
#define VT_TARGET_REPLAY_H

#include "base/error.h"
#include "vramtap/mem.h"

struct vt_replay; /* opaque */

/* under must outlive it. Keeps max_pages pages; reads of further pages go to under. */
struct vt_error *vt_replay_create(struct vt_memsrc *under, size_t max_pages,
				  struct vt_replay **ret);
void vt_replay_destroy(struct vt_replay *replay);

/* Owned by replay. The caller sets .coherent. Each page is read once; see vt_replay_refresh(). */
struct vt_memsrc *vt_replay_source(struct vt_replay *replay);

/*
 * The rehearsal is over: puts the pages in order. What they contain is not defined before the next
 * vt_replay_refresh().
 */
void vt_replay_arrange(struct vt_replay *replay);

/*
 * Reads all pages again, at once. What copies has in its memory (the stacks, which are copied
 * anyway) comes from there and is not read a second time. NULL: none; copies must outlive the last
 * read here.
 */
void vt_replay_refresh(struct vt_replay *replay, struct vt_memsrc *copies);

#endif
