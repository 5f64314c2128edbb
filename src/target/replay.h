/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A memory source that remembers which pages were read through it, and can read all of them again at once. What has to be read
 * while the target stands still is rehearsed while it runs, and what the rehearsal read is worth nothing but for where it
 * was; then the target stands for one bulk read instead of hundreds of small ones. What the rehearsal missed is read when it
 * is asked for, so the result is the same, whatever the target did meanwhile.
 */
#ifndef VT_TARGET_REPLAY_H
#define VT_TARGET_REPLAY_H

#include "base/error.h"
#include "vramtap/mem.h"

struct vt_replay; /* opaque */

/* under must outlive it. Keeps max_pages pages; what is read beyond these goes to under. */
struct vt_error *vt_replay_create(struct vt_memsrc *under, size_t max_pages, struct vt_replay **ret);
void vt_replay_destroy(struct vt_replay *replay);

/* Owned by replay. The caller sets .coherent. Each page is read once; see vt_replay_refresh(). */
struct vt_memsrc *vt_replay_source(struct vt_replay *replay);

/* The rehearsal is over: puts the pages in order. What they contain is not defined before the next vt_replay_refresh(). */
void vt_replay_arrange(struct vt_replay *replay);

/*
 * Reads them all again, at once. What copies (NULL: none; it must outlive the last read here) has in its memory comes from there
 * and is not read a second time: the stacks, which are copied anyway.
 */
void vt_replay_refresh(struct vt_replay *replay, struct vt_memsrc *copies);

#endif
