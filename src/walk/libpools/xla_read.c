/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One tsl::BFCAllocator. Its fields move from release to release, but their order does not: mutex_,
 * regions_ (a vector of AllocationRegion, which begins with its address, size and end), chunks_ (a
 * vector of Chunk), the head of the unused chunks, one or two words, and AllocatorStats. What is
 * there is found by what it must add up to: each region is tiled by one chain of chunks, and those
 * in use sum up to the statistics. Everything or nothing. Seen with the plugins 0.4.26 to 0.12.0.1.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "walk/libpools/internal.h"

#define HEAD ((size_t)2048) /* of the object; statistics end at 1,600 bytes in 0.4.26 */
#define PAGE ((uint64_t)4096)
#define UNIT UINT64_C(256) /* sizes of chunks and regions are multiples */
#define MAX_ADDRESS (UINT64_C(1) << 47)
#define MAX_REGIONS ((size_t)65536)
#define MAX_CHUNKS ((size_t)4 << 20)
#define MAX_NOTES ((size_t)4096) /* the largest chunks have theirs */
#define NONE UINT64_MAX          /* a handle of no chunk */
#define WRITER UINT64_C(8)       /* absl::Mutex: held for writing */

/* struct Chunk, in words */
enum { SIZE, REQUESTED, ID, PTR, PREV, NEXT, CHUNK_WORDS };

/* std::optional<Snapshot> of a chunk, since 0.11: a vector of frames and whether it is set */
enum { NOTE_AT = 72, NOTE_FLAG = 96, NOTE_SIZE = 104 };

/* AllocatorStats, in words */
enum {
	N_ALLOCS,
	IN_USE,
	PEAK,
	LARGEST,
	LIMIT,
	HAS_LIMIT,
	POOL = 11, /* since 0.11: 12; what is in the other place is no flag */
	STATS_WORDS = 15,
};

static const size_t region_sizes[] = { 48, 56, 40, 64 };
static const size_t chunk_sizes[] = { 64, 104, 72, 80, 88, 96, 112, 120, 128, 136, 144 };
static const size_t stats_after[] = { 5, 6, 7, 4 }; /* words behind the beginning of chunks_ */

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct vector {
	uint64_t begin, end, room;
};

struct reader {
	struct vt_memsrc *mem;
	struct vt_arena *notes;
	struct vt_libpool *pool;
	uint64_t object;
	uint64_t head[HEAD / 8];
	size_t words; /* of head that could be read */
	/* where things are in head, in words */
	size_t chunks_at, stats_at;
	size_t chunk_size;
	uint8_t *chunks; /* as they are in the target; owned */
	size_t n_chunks;
};

/* ---- reading ---- */

static bool read_head(struct reader *r, uint64_t *head, size_t *words)
{
	size_t len = HEAD;

	if (vt_mem_read(r->mem, r->object, head, len)) {
		len = (size_t)(PAGE - r->object % PAGE) & ~(size_t)7; /* the end of a mapping */
		if (len > HEAD || vt_mem_read(r->mem, r->object, head, len))
			return false;
	}
	*words = len / 8;
	return true;
}

static struct vector vector_at(const struct reader *r, size_t at)
{
	return (struct vector){ r->head[at], r->head[at + 1], r->head[at + 2] };
}

static bool is_vector(const struct vector *v, size_t max_bytes)
{
	return v->begin >= PAGE && v->begin < v->end && v->end <= v->room &&
	       v->room < MAX_ADDRESS && !((v->begin | v->end | v->room) & 7) &&
	       v->room - v->begin <= max_bytes * 2;
}

static uint64_t word_at(const uint8_t *bytes, size_t word)
{
	uint64_t value;

	memcpy(&value, bytes + word * 8, sizeof(value));
	return value;
}

/* ---- regions ---- */

static int compare_regions(const void *pa, const void *pb)
{
	const struct vt_libpool_region *a = pa, *b = pb;

	return (a->start > b->start) - (a->start < b->start);
}

static bool take_region(struct reader *r, const uint8_t *bytes)
{
	uint64_t start = word_at(bytes, 0), size = word_at(bytes, 1), end = word_at(bytes, 2);
	struct vt_libpool_region *region;

	if (!start || !size || size % UNIT || end <= start || end - start != size)
		return false;
	region = vt_vec_append(&r->pool->regions);
	if (region)
		*region = (struct vt_libpool_region){ start, size };
	return region;
}

static bool read_regions_of(struct reader *r, const struct vector *v, size_t size)
{
	size_t bytes = (size_t)(v->end - v->begin);
	VT_FREE uint8_t *copy = malloc(bytes);
	bool ok = copy && !vt_mem_read(r->mem, v->begin, copy, bytes);

	r->pool->regions.n = 0;
	for (size_t at = 0; ok && at < bytes; at += size)
		ok = take_region(r, copy + at);
	if (!ok)
		return false;
	qsort(r->pool->regions.data, r->pool->regions.n, sizeof(*r->pool->regions.data),
	      compare_regions);
	for (size_t i = 1; i < r->pool->regions.n; i++)
		if (r->pool->regions.data[i].start - r->pool->regions.data[i - 1].start <
		    r->pool->regions.data[i - 1].size)
			return false;
	return true;
}

static bool read_regions(struct reader *r)
{
	struct vector v = vector_at(r, r->chunks_at - 3);
	uint64_t bytes = v.end - v.begin;

	if (!is_vector(&v, MAX_REGIONS * 64))
		return false;
	for (size_t i = 0; i < COUNT(region_sizes); i++)
		if (bytes % region_sizes[i] == 0 && bytes / region_sizes[i] <= MAX_REGIONS &&
		    read_regions_of(r, &v, region_sizes[i]))
			return true;
	return false;
}

static uint64_t held_by(const struct vt_libpool *pool)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < pool->regions.n; i++)
		sum += pool->regions.data[i].size;
	return sum;
}

/* ---- statistics ---- */

/* One byte of each optional tells whether it is set; the others are padding. */
static bool is_set(uint64_t flag)
{
	return (flag & 0xff) == 1;
}

/* The number of bytes in regions, an optional. */
static bool agrees_on_pool(const uint64_t *s, uint64_t held)
{
	for (size_t at = POOL; at <= POOL + 1; at++)
		if (is_set(s[at + 1]) && s[at] != held)
			return false;
	return true;
}

static bool are_stats(const struct reader *r, size_t at)
{
	const uint64_t *s = r->head + at;
	uint64_t held = held_by(r->pool);

	if (at + STATS_WORDS > r->words)
		return false;
	return s[N_ALLOCS] < MAX_ADDRESS && s[IN_USE] <= held && s[PEAK] >= s[IN_USE] &&
	       s[PEAK] < MAX_ADDRESS && s[LARGEST] <= s[PEAK] && is_set(s[HAS_LIMIT]) &&
	       s[LIMIT] >= UNIT && agrees_on_pool(s, held);
}

static bool find_stats(struct reader *r)
{
	for (size_t i = 0; i < COUNT(stats_after); i++) {
		r->stats_at = r->chunks_at + stats_after[i];
		if (are_stats(r, r->stats_at))
			return true;
	}
	return false;
}

/* ---- chunks ---- */

static const uint8_t *chunk_at(const struct reader *r, uint64_t handle)
{
	return r->chunks + handle * r->chunk_size;
}

/*
 * Follows the chain that begins with a chunk, from the start of a region to its end. Slots of
 * chunks that are gone keep old values, and their next is another slot: they tile nothing.
 */
static bool follow(struct reader *r, const struct vt_libpool_region *region, uint64_t handle)
{
	size_t before = r->pool->chunks.n;
	uint64_t at = region->start, end = at + region->size, prev = NONE;

	while (handle < r->n_chunks && r->pool->chunks.n - before < r->n_chunks) {
		const uint8_t *c = chunk_at(r, handle);
		uint64_t size = word_at(c, SIZE);
		struct vt_libpool_chunk *chunk;

		if (word_at(c, PTR) != at || word_at(c, PREV) != prev || !size || size % UNIT ||
		    size > end - at)
			break;
		chunk = vt_vec_append(&r->pool->chunks);
		if (!chunk)
			return false;
		*chunk = (struct vt_libpool_chunk){ .start = at, .size = size };
		chunk->in_use = word_at(c, ID) != NONE;
		if (chunk->in_use && word_at(c, REQUESTED) <= size)
			chunk->requested = word_at(c, REQUESTED);
		at += size;
		prev = handle;
		handle = word_at(c, NEXT);
		if (handle == NONE && at == end)
			return true;
	}
	r->pool->chunks.n = before;
	return false;
}

struct first {
	uint64_t start, handle;
};

static int compare_firsts(const void *pa, const void *pb)
{
	const struct first *a = pa, *b = pb;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	return (a->handle > b->handle) - (a->handle < b->handle);
}

/* Chunks without a predecessor, which are the first of their regions; sorted. */
static struct first *list_firsts(const struct reader *r, size_t *n)
{
	struct first *list = malloc((r->n_chunks + 1) * sizeof(*list));

	*n = 0;
	for (size_t i = 0; list && i < r->n_chunks; i++)
		if (word_at(chunk_at(r, i), PREV) == NONE)
			list[(*n)++] = (struct first){ word_at(chunk_at(r, i), PTR), i };
	if (list)
		qsort(list, *n, sizeof(*list), compare_firsts);
	return list;
}

static bool tile(struct reader *r)
{
	size_t n, i = 0;
	VT_FREE struct first *firsts = list_firsts(r, &n);

	r->pool->chunks.n = 0;
	for (size_t k = 0; firsts && k < r->pool->regions.n; k++) {
		const struct vt_libpool_region *region = &r->pool->regions.data[k];
		bool done = false;

		while (i < n && firsts[i].start < region->start)
			i++;
		for (; !done && i < n && firsts[i].start == region->start; i++)
			done = follow(r, region, firsts[i].handle);
		if (!done)
			return false;
	}
	return firsts;
}

static bool adds_up(const struct reader *r)
{
	const uint64_t *s = r->head + r->stats_at;
	uint64_t sum = 0, count = 0;

	for (size_t i = 0; i < r->pool->chunks.n; i++)
		if (r->pool->chunks.data[i].in_use) {
			sum += r->pool->chunks.data[i].size;
			count++;
		}
	return sum == s[IN_USE] && s[N_ALLOCS] >= count;
}

static bool read_chunks(struct reader *r)
{
	struct vector v = vector_at(r, r->chunks_at);
	size_t bytes = (size_t)(v.end - v.begin);

	free(r->chunks);
	r->chunks = malloc(bytes);
	if (!r->chunks || vt_mem_read(r->mem, v.begin, r->chunks, bytes))
		return false;
	for (size_t i = 0; i < COUNT(chunk_sizes); i++) {
		r->chunk_size = chunk_sizes[i];
		r->n_chunks = bytes / r->chunk_size;
		if (bytes % r->chunk_size == 0 && r->n_chunks <= MAX_CHUNKS && tile(r) &&
		    adds_up(r))
			return true;
	}
	r->pool->chunks.n = 0;
	return false;
}

/* The vectors and numbers are those of before, and nobody was changing them. */
static bool stood_still(struct reader *r)
{
	uint64_t again[HEAD / 8];
	size_t from = r->chunks_at - 4, to = r->stats_at + STATS_WORDS, words;

	return read_head(r, again, &words) && words >= to &&
	       !memcmp(r->head + from, again + from, (to - from) * 8) && !(r->head[from] & WRITER);
}

/* ---- the name ---- */

static bool is_name(const char *name, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char c = name[i];

		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		      c == '_' || c == '.' || c == ':' || c == '-'))
			return false;
	}
	return true;
}

/* A std::string of libstdc++: where the characters are, how many, and 16 bytes for a few. */
static bool read_name(struct reader *r, size_t at)
{
	uint64_t begin = r->head[at], n = r->head[at + 1], own = r->object + (at + 2) * 8;
	char *name = r->pool->rec.name;

	if (n < 3 || n >= sizeof(r->pool->rec.name) || (begin == own) != (n < 16))
		return false;
	if (vt_mem_read(r->mem, begin, name, n) || !is_name(name, n)) {
		memset(name, 0, sizeof(r->pool->rec.name));
		return false;
	}
	return true;
}

/* It comes 160 or 168 bytes before chunks_. */
static void find_name(struct reader *r)
{
	static const size_t before[] = { 20, 21, 19, 22, 18, 23, 17, 24 };

	for (size_t i = 0; i < COUNT(before); i++)
		if (r->chunks_at > before[i] && read_name(r, r->chunks_at - before[i]))
			return;
}

/* ---- what chunks are for ---- */

static bool read_string(struct reader *r, uint64_t at, char *text, size_t size)
{
	uint64_t head[2];

	if (vt_mem_read(r->mem, at, head, sizeof(head)) || head[1] >= size)
		return false;
	if (head[1] && vt_mem_read(r->mem, head[0], text, head[1]))
		return false;
	text[head[1]] = 0;
	return true;
}

/*
 * A frame of a snapshot: a name, and a vector of pairs of strings. "xla.execute" with "executable"
 * "jit_step": the value tells the most.
 */
static bool describe_frame(struct reader *r, uint64_t frame, char *text, size_t size)
{
	enum { PAIR = 64, SECOND = 32, PAIRS_AT = 32 };
	char name[96], value[160];
	uint64_t pairs[2];

	if (!read_string(r, frame, name, sizeof(name)) ||
	    vt_mem_read(r->mem, frame + PAIRS_AT, pairs, sizeof(pairs)))
		return false;
	if (pairs[1] > pairs[0] && (pairs[1] - pairs[0]) % PAIR == 0 &&
	    read_string(r, pairs[0] + SECOND, value, sizeof(value)))
		snprintf(text, size, "%s (%s)", value, name);
	else
		snprintf(text, size, "%s", name);
	return true;
}

/* The innermost frame, which is the last. */
static void read_note(struct reader *r, struct vt_libpool_chunk *chunk, const uint8_t *bytes)
{
	enum { FRAME = 56 };
	uint64_t begin = word_at(bytes, NOTE_AT / 8), end = word_at(bytes, NOTE_AT / 8 + 1);
	char text[260];

	if (bytes[NOTE_FLAG] != 1 || end <= begin || (end - begin) % FRAME ||
	    (end - begin) / FRAME > 64 || !describe_frame(r, end - FRAME, text, sizeof(text)))
		return;
	if (text[0])
		chunk->note = vt_arena_strdup(r->notes, text);
}

static int compare_sizes(const void *pa, const void *pb)
{
	const uint64_t *a = pa, *b = pb;

	return (*a < *b) - (*a > *b); /* the largest first */
}

static struct vt_libpool_chunk *find_chunk(const struct vt_libpool *pool, uint64_t start)
{
	size_t low = 0, high = pool->chunks.n;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (pool->chunks.data[mid].start < start)
			low = mid + 1;
		else
			high = mid;
	}
	return low < pool->chunks.n && pool->chunks.data[low].start == start ?
		       &pool->chunks.data[low] :
		       NULL;
}

/* The size below which chunks get no note. */
static uint64_t least_size(const struct vt_libpool *pool)
{
	VT_FREE uint64_t *sizes = malloc((pool->chunks.n + 1) * sizeof(*sizes));
	size_t n = 0;

	for (size_t i = 0; sizes && i < pool->chunks.n; i++)
		if (pool->chunks.data[i].in_use)
			sizes[n++] = pool->chunks.data[i].size;
	if (!sizes || n <= MAX_NOTES)
		return 0;
	qsort(sizes, n, sizeof(*sizes), compare_sizes);
	return sizes[MAX_NOTES] + 1;
}

static void read_notes(struct reader *r)
{
	uint64_t least = least_size(r->pool);

	if (r->chunk_size < NOTE_SIZE)
		return;
	for (size_t i = 0; i < r->n_chunks; i++) {
		const uint8_t *c = chunk_at(r, i);
		struct vt_libpool_chunk *chunk = find_chunk(r->pool, word_at(c, PTR));

		if (chunk && chunk->in_use && chunk->size == word_at(c, SIZE) &&
		    chunk->size >= least && word_at(c, ID) != NONE)
			read_note(r, chunk, c);
	}
}

/* ---- all of it ---- */

static void fill(struct reader *r, enum vt_libpool_state state)
{
	const uint64_t *s = r->head + r->stats_at;
	struct vt_libpool_rec *rec = &r->pool->rec;

	find_name(r);
	rec->object = r->object;
	rec->kind = VT_LIBPOOL_XLA;
	rec->state = (uint8_t)state;
	rec->held_bytes = held_by(r->pool);
	rec->used_bytes = s[IN_USE];
	rec->peak_bytes = s[PEAK];
	rec->limit_bytes = s[LIMIT];
	rec->known = VT_LIBPOOL_HELD | VT_LIBPOOL_USED | VT_LIBPOOL_PEAK | VT_LIBPOOL_LIMIT |
		     VT_LIBPOOL_BLOCKS;
	rec->device = -1; /* its regions tell */
	rec->is_host = !strcmp(rec->name, "xla_gpu_host_bfc");
}

/* chunks_ begins at this word of the object, if all else fits. */
static enum vt_xla_outcome try_at(struct reader *r, size_t at)
{
	struct vector v = vector_at(r, at);
	bool whole;

	r->chunks_at = at;
	if (!is_vector(&v, MAX_CHUNKS * 144) || !read_regions(r) || !find_stats(r))
		return VT_XLA_NOT_ONE;
	whole = read_chunks(r);
	if (!stood_still(r)) {
		fill(r, VT_LIBPOOL_CHANGING);
		r->pool->chunks.n = 0;
		return VT_XLA_CHANGING;
	}
	if (!whole)
		return VT_XLA_NOT_ONE;
	fill(r, VT_LIBPOOL_EXACT);
	read_notes(r);
	return VT_XLA_READ;
}

enum vt_xla_outcome vt_xla_read(struct vt_memsrc *mem, uint64_t object, struct vt_arena *notes,
				struct vt_libpool *pool)
{
	struct reader *r = calloc(1, sizeof(*r));
	enum vt_xla_outcome outcome = VT_XLA_NOT_ONE;

	if (!r)
		return VT_XLA_NO_MEMORY;
	r->mem = mem;
	r->notes = notes;
	r->pool = pool;
	r->object = object;
	if (read_head(r, r->head, &r->words))
		for (size_t at = 24; outcome == VT_XLA_NOT_ONE && at + 3 <= r->words; at++)
			outcome = try_at(r, at);
	free(r->chunks);
	free(r);
	return outcome;
}
