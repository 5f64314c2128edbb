/* SPDX-License-Identifier: Apache-2.0 */
#include "job/json/seen.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "job/internal.h"

#define N_SEEN 4096 /* power of two; what is not used takes no memory */
#define N_WAYS 4    /* in which one may be */

/* Looked at for each: small, so that they stay in the processor's cache. */
struct set {
	uint32_t kept[N_WAYS]; /* parts of hashes; 0 none */
	uint32_t last[N_WAYS]; /* of what came last and is not kept */
	uint32_t turn;         /* which of last is the next to go */
};

struct cache {
	struct set sets[N_SEEN / N_WAYS];
	uint32_t found; /* the last one */
	struct vt_seen seen[N_SEEN];
};

struct vt_job_seen {
	struct cache caches[VT_N_SEEN];
};

static uint32_t set_of(uint64_t hash)
{
	return (uint32_t)(hash >> 32) & (N_SEEN / N_WAYS - 1);
}

static uint32_t part_of(uint64_t hash)
{
	return (uint32_t)hash | 1;
}

/* N_WAYS: it is not there. */
static uint32_t way_of(const uint32_t parts[N_WAYS], uint32_t part)
{
	uint32_t way = 0;

	while (way < N_WAYS && parts[way] != part)
		way++;
	return way;
}

/* False: it has not come lately, and is noted. */
static bool came_lately(struct set *set, uint32_t part)
{
	if (way_of(set->last, part) < N_WAYS)
		return true;
	set->last[set->turn++ % N_WAYS] = part;
	return false;
}

/* Where it is to be kept. */
static uint32_t take_way(struct set *set, uint32_t part)
{
	uint32_t way = way_of(set->kept, part);

	if (way == N_WAYS)
		way = way_of(set->kept, 0);
	if (way == N_WAYS)
		way = set->turn % N_WAYS;
	set->kept[way] = part;
	return way;
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
	uint32_t set, way, at;

	*hash = vt_hash_bytes(job->seed, bytes, n);
	if (!job->seen)
		job->seen = calloc(1, sizeof(*job->seen));
	if (!job->seen)
		return NULL;
	cache = &job->seen->caches[kind];
	set = set_of(*hash);
	way = way_of(cache->sets[set].kept, part_of(*hash));
	at = set * N_WAYS + way;
	seen = way < N_WAYS ? &cache->seen[at] : NULL;
	if (!seen || seen->n != n || memcmp(seen->bytes, bytes, n) != 0)
		return NULL;
	cache->seen[cache->found].next = at;
	cache->found = at;
	return seen;
}

struct vt_seen *vt_job_seen_add(struct vt_job *job, enum vt_seen_kind kind, uint64_t hash, size_t n)
{
	struct cache *cache = job->seen ? &job->seen->caches[kind] : NULL;
	uint32_t set = set_of(hash);
	struct vt_seen *seen;

	if (!cache || n > VT_SEEN_LONGEST || !came_lately(&cache->sets[set], part_of(hash)))
		return NULL;
	seen = &cache->seen[set * N_WAYS + take_way(&cache->sets[set], part_of(hash))];
	seen->n = 0;
	seen->index = VT_NO_INDEX;
	return seen;
}
