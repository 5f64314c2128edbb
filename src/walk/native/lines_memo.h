/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What debug information says of addresses, in memory that processes forked from one another share: the ranks of a job run the same files
 * and are at the same places in them, and reading that once takes as long as the rest of a report. Nobody locks: what was added stays as
 * it is. Who is going to find out about an address claims it, so that others can wait instead of doing the same. Whoever reads trusts none
 * of it, since each of the processes works on hostile bytes and may write anything here.
 */
#ifndef VT_WALK_NATIVE_LINES_MEMO_H
#define VT_WALK_NATIVE_LINES_MEMO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct vt_lines_memo; /* opaque */

/* An address in a file; all bytes of it count, so it must be zeroed first. */
struct vt_lines_key {
	uint64_t device, inode, size, mtime_ns;
	uint64_t vaddr;
};

/* The file of a descriptor; false when there is none. */
bool vt_lines_key_init(struct vt_lines_key *key, int fd);

/* NULL: there is none, which everything here takes for an empty one. */
struct vt_lines_memo *vt_lines_memo_create(void);
void vt_lines_memo_destroy(struct vt_lines_memo *memo);

/* Appends what is known to out; false when nothing is. */
bool vt_lines_memo_find(const struct vt_lines_memo *memo, const struct vt_lines_key *key, struct vt_str *out);

/* Does nothing when there is no room. */
void vt_lines_memo_add(struct vt_lines_memo *memo, const struct vt_lines_key *key, const char *bytes, size_t n);

/* False: another process that is still there is at it. */
bool vt_lines_memo_claim(struct vt_lines_memo *memo, const struct vt_lines_key *key);

/* The claim is over, whether or not something was added; then the others are told, of all such at once. */
void vt_lines_memo_settle(struct vt_lines_memo *memo, const struct vt_lines_key *key);
void vt_lines_memo_tell(struct vt_lines_memo *memo);

/* Waits until somebody has told something since *told was as it is (0 at first), or for some milliseconds; *told is as it is now then. */
void vt_lines_memo_wait(struct vt_lines_memo *memo, uint32_t *told, uint64_t deadline_ns);

#endif
