/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What debug information says about addresses, in memory that forked processes share. The ranks of
 * a job run the same files and are at the same places in them, and one such look-up takes as long
 * as the rest of a report. There is no lock: an entry never changes once it is added. A process
 * claims an address before it looks it up, so that the others wait instead of doing the same work.
 * Readers trust no entry, because each process works on hostile bytes and may write anything here.
 */
#ifndef VT_WALK_NATIVE_LINES_MEMO_H
#define VT_WALK_NATIVE_LINES_MEMO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct vt_lines_memo; /* opaque */

/* An address in a file. Keys compare by all their bytes, so zero a key first. */
struct vt_lines_key {
	uint64_t device, inode, size, mtime_ns;
	uint64_t vaddr;
};

/* Sets the key's file from a descriptor. False when there is none. */
bool vt_lines_key_init(struct vt_lines_key *key, int fd);

/* NULL: no memo. All functions here treat NULL as an empty memo. */
struct vt_lines_memo *vt_lines_memo_create(void);
void vt_lines_memo_destroy(struct vt_lines_memo *memo);

/* Appends what is known about key to out. False when nothing is known. */
bool vt_lines_memo_find(const struct vt_lines_memo *memo, const struct vt_lines_key *key,
			struct vt_str *out);

/* Does nothing when there is no room. */
void vt_lines_memo_add(struct vt_lines_memo *memo, const struct vt_lines_key *key,
		       const char *bytes, size_t n);

/* False: another live process has claimed it. */
bool vt_lines_memo_claim(struct vt_lines_memo *memo, const struct vt_lines_key *key);

/*
 * vt_lines_memo_settle() ends a claim, whether or not something was added. vt_lines_memo_tell()
 * then wakes the others, once for all settled claims.
 */
void vt_lines_memo_settle(struct vt_lines_memo *memo, const struct vt_lines_key *key);
void vt_lines_memo_tell(struct vt_lines_memo *memo);

/*
 * Waits until vt_lines_memo_tell() has been called since *told was set (0 at first), or for some
 * milliseconds. Then updates *told.
 */
void vt_lines_memo_wait(struct vt_lines_memo *memo, uint32_t *told, uint64_t deadline_ns);

#endif
