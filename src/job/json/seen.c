/* SPDX-License-Identifier: Apache-2.0 */
#include "job/json/seen.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "job/internal.h"

#define N_SEEN 4096 /* power of two; what is not used takes no memory */

/* Looked at for each frame: small, so that it stays in the processor's cache. */
struct slot {
	uint32_t kept, last; /* parts of hashes: of what is kept, of what came last; 0 none */
};

struct vt_job_seen {
	struct slot slots[N_SEEN];
	uint32_t found; /* the last one */
	struct vt_seen_frame frames[N_SEEN];
};

static size_t slot_of(uint64_t hash)
{
	return hash >> 32 & (N_SEEN - 1);
}

static uint32_t part_of(uint64_t hash)
{
	return (uint32_t)hash | 1;
}

struct vt_seen_frame *vt_job_seen_next(struct vt_job *job, const char *bytes, size_t n)
{
	struct vt_job_seen *seen = job->seen;
	uint32_t next = seen ? seen->frames[seen->found].next : 0;
	struct vt_seen_frame *frame = seen ? &seen->frames[next] : NULL;

	if (!frame || !frame->n || frame->n > n || memcmp(frame->bytes, bytes, frame->n) != 0)
		return NULL;
	seen->found = next;
	return frame;
}

struct vt_seen_frame *vt_job_seen_find(struct vt_job *job, const char *bytes, size_t n,
				       uint64_t *hash)
{
	struct vt_seen_frame *frame;
	size_t at;

	*hash = vt_hash_bytes(job->seed, bytes, n);
	if (!job->seen)
		job->seen = calloc(1, sizeof(*job->seen));
	at = slot_of(*hash);
	if (!job->seen || job->seen->slots[at].kept != part_of(*hash))
		return NULL;
	frame = &job->seen->frames[at];
	if (frame->n != n || memcmp(frame->bytes, bytes, n) != 0)
		return NULL;
	job->seen->frames[job->seen->found].next = (uint32_t)at;
	job->seen->found = (uint32_t)at;
	return frame;
}

struct vt_seen_frame *vt_job_seen_add(struct vt_job *job, uint64_t hash, size_t n)
{
	size_t at = slot_of(hash);
	struct slot *slot = job->seen ? &job->seen->slots[at] : NULL;

	if (!slot || n > VT_SEEN_LONGEST)
		return NULL;
	if (slot->last != part_of(hash)) {
		slot->last = part_of(hash);
		return NULL;
	}
	slot->kept = part_of(hash);
	job->seen->frames[at].n = 0;
	job->seen->frames[at].index = VT_NO_INDEX;
	return &job->seen->frames[at];
}
