/* SPDX-License-Identifier: Apache-2.0 */
#include "job/json/seen.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "job/internal.h"

#define N_SEEN 4096 /* power of two; what is not used takes no memory */

/* Looked at for each: small, so that it stays in the processor's cache. */
struct slot {
	uint32_t kept, last; /* parts of hashes: of what is kept, of what came last; 0 none */
};

struct cache {
	struct slot slots[N_SEEN];
	uint32_t found; /* the last one */
	struct vt_seen seen[N_SEEN];
};

struct vt_job_seen {
	struct cache caches[VT_N_SEEN];
};

static size_t slot_of(uint64_t hash)
{
	return hash >> 32 & (N_SEEN - 1);
}

static uint32_t part_of(uint64_t hash)
{
	return (uint32_t)hash | 1;
}

struct vt_seen *vt_job_seen_next(struct vt_job *job, enum vt_seen_kind kind, const char *bytes,
				 size_t n)
{
	struct cache *cache = job->seen ? &job->seen->caches[kind] : NULL;
	uint32_t next = cache ? cache->seen[cache->found].next : 0;
	struct vt_seen *seen = cache ? &cache->seen[next] : NULL;

	if (!seen || !seen->n || seen->n > n || memcmp(seen->bytes, bytes, seen->n) != 0)
		return NULL;
	cache->found = next;
	return seen;
}

struct vt_seen *vt_job_seen_find(struct vt_job *job, enum vt_seen_kind kind, const char *bytes,
				 size_t n, uint64_t *hash)
{
	struct cache *cache;
	struct vt_seen *seen;
	size_t at;

	*hash = vt_hash_bytes(job->seed, bytes, n);
	if (!job->seen)
		job->seen = calloc(1, sizeof(*job->seen));
	if (!job->seen)
		return NULL;
	cache = &job->seen->caches[kind];
	at = slot_of(*hash);
	seen = &cache->seen[at];
	if (cache->slots[at].kept != part_of(*hash) || seen->n != n ||
	    memcmp(seen->bytes, bytes, n) != 0)
		return NULL;
	cache->seen[cache->found].next = (uint32_t)at;
	cache->found = (uint32_t)at;
	return seen;
}

struct vt_seen *vt_job_seen_add(struct vt_job *job, enum vt_seen_kind kind, uint64_t hash, size_t n)
{
	struct cache *cache = job->seen ? &job->seen->caches[kind] : NULL;
	size_t at = slot_of(hash);
	struct slot *slot = cache ? &cache->slots[at] : NULL;

	if (!slot || n > VT_SEEN_LONGEST)
		return NULL;
	if (slot->last != part_of(hash)) {
		slot->last = part_of(hash);
		return NULL;
	}
	slot->kept = part_of(hash);
	cache->seen[at].n = 0;
	cache->seen[at].index = VT_NO_INDEX;
	return &cache->seen[at];
}
