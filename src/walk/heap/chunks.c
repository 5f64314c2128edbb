/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glibc's malloc/malloc.c and malloc/arena.c, x86-64. A chunk is 16 bytes before what malloc()
 * returned: the size of the chunk before it, if that is free, and its own size with three flags. A
 * chunk ends where the next one begins, whose flag PREV_INUSE says whether it is in use. Chunks in
 * a thread's cache and in fast bins keep the flag. So the lists of both are followed.
 */
#include "walk/heap/chunks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "target/live.h"

#define PAGE UINT64_C(4096)
#define HEADER UINT64_C(16)
#define MIN_CHUNK UINT64_C(32)
#define PREV_INUSE UINT64_C(1)
#define IS_MMAPPED UINT64_C(2)
#define FLAGS UINT64_C(7)

/* Heaps of arenas are aligned to their greatest size, twice the greatest threshold of mmap(). */
#define HEAP_MAX (UINT64_C(64) << 20)
/* struct heap_info, with the padding behind it: up to 2.34, and from 2.35 on */
#define HEAP_INFO_OLD UINT64_C(32)
#define HEAP_INFO_NEW UINT64_C(48)
/* struct malloc_state, from 2.27 on */
#define ARENA_SIZE UINT64_C(2200)
#define ARENA_FAST_BINS 16
#define ARENA_N_FAST_BINS 10
#define ARENA_TOP 96
#define ARENA_NEXT 2160
#define MAX_ARENAS 4096

/* struct tcache_perthread_struct, 2.30 to 2.41: 64 counts of 16 bits, and 64 lists */
#define TCACHE_LISTS ((size_t)64)
#define TCACHE_ENTRIES (TCACHE_LISTS * 2)
#define TCACHE_CHUNK UINT64_C(0x290)
#define MAX_CACHED UINT64_C(1040) /* the largest chunk in a cache */

#define WINDOW ((size_t)256 << 10)
#define TRIES 4                          /* of a place that makes no sense while the process runs */
#define MAX_DAMAGED 1000                 /* places of a heap */
#define MAX_HEAPS 65536                  /* mapped chunks, too */
#define MAX_PROBES 65536                 /* places where a heap of an arena could begin */
#define MAX_MAPPING (UINT64_C(64) << 30) /* a larger one is a reservation: no heap is in it */
#define MAX_HEADS 1048576                /* pages at which a mapped chunk could begin: 4 GiB */
#define HEADS 512                        /* read together */
#define INDEXED 32                       /* a heap of as many chunks has an index of pages */

/* What a chunk had in its first two words, while the list of free ones is made. */
struct peek {
	uint64_t first, second;
};

struct walker {
	struct vt_chunks *chunks;
	struct vt_memsrc *src;
	const struct vt_maps *maps;
	size_t max;
	VT_VEC(struct peek) peeks;     /* for each of chunks->chunks */
	VT_VEC(uint64_t) caches;       /* of threads: their addresses */
	VT_VEC(uint64_t) arenas;       /* without the main one */
	VT_VEC(struct region) regions; /* sorted in the end */
	uint8_t window[WINDOW];
	uint64_t at; /* address of window */
	size_t in_window;
	uint64_t main_top; /* the last chunk of [heap]; 0 unknown */
	int error;         /* the first one that is no bad address; negative errno */
};

/* Where a heap's chunks begin, and where its last, free one does. */
struct region {
	uint64_t start, first, end, top;
	enum { MAIN, ARENA, MAPPED } kind;
};

static bool is_aligned(uint64_t addr)
{
	return addr % 16 == 0;
}

/* Reading. */

static bool read_at(struct walker *w, uint64_t addr, void *buf, size_t len)
{
	int ret = vt_mem_read(w->src, addr, buf, len);

	if (ret && ret != -EFAULT && !w->error)
		w->error = ret;
	return ret == 0;
}

static uint64_t word_of(const uint8_t *p)
{
	uint64_t word;

	memcpy(&word, p, sizeof(word));
	return word;
}

/* n bytes at addr, which are before end; NULL: not readable. */
static const uint8_t *look(struct walker *w, uint64_t addr, size_t n, uint64_t end)
{
	if (addr >= w->at && addr - w->at <= w->in_window && n <= w->in_window - (addr - w->at))
		return w->window + (addr - w->at);
	if (n > end - addr)
		return NULL;
	w->at = addr;
	w->in_window = end - addr < WINDOW ? (size_t)(end - addr) : WINDOW;
	if (read_at(w, addr, w->window, w->in_window))
		return w->window;
	w->in_window = n;
	if (read_at(w, addr, w->window, n))
		return w->window;
	w->in_window = 0;
	return NULL;
}

/* Lists of chunks. */

static bool add_chunk(struct walker *w, uint64_t chunk, uint64_t size, struct peek peek)
{
	struct vt_chunk *new;
	struct peek *new_peek;

	if (w->chunks->chunks.n >= w->max || !(new_peek = vt_vec_append(&w->peeks)) ||
	    !(new = vt_vec_append(&w->chunks->chunks))) {
		w->chunks->full = true;
		return false;
	}
	/* The first word of the next chunk belongs to this one while it is in use. */
	*new = (struct vt_chunk){ .addr = chunk + HEADER, .bytes = size - 8 };
	*new_peek = peek;
	return true;
}

static bool is_cache(const uint8_t *data)
{
	bool any = false;

	for (size_t i = 0; i < TCACHE_LISTS; i++) {
		uint64_t head = word_of(data + TCACHE_ENTRIES + 8 * i);
		uint16_t count;

		memcpy(&count, data + 2 * i, sizeof(count));
		if ((count == 0) != (head == 0) || !is_aligned(head))
			return false;
		any |= count != 0;
	}
	return any;
}

static void look_for_cache(struct walker *w, uint64_t chunk, uint64_t end)
{
	const uint8_t *data = look(w, chunk + HEADER, TCACHE_CHUNK - HEADER, end);
	uint64_t *new;

	if (data && is_cache(data) && (new = vt_vec_append(&w->caches)))
		*new = chunk + HEADER;
}

/* One heap. */

struct pending { /* the chunk before: whether it is in use is said by the next one */
	uint64_t chunk, size;
	struct peek peek;
};

/* False: the chunk does not agree with the header behind it. */
static bool finish(struct walker *w, const struct pending *pending, const uint8_t *next)
{
	if (!pending->size)
		return true;
	if (word_of(next + 8) & PREV_INUSE)
		add_chunk(w, pending->chunk, pending->size, pending->peek);
	else if (word_of(next) != pending->size)
		return false;
	return true;
}

enum step { GO_ON, END, DAMAGED };

/*
 * Looks at the chunk at *at and goes to the next. DAMAGED: at *at is what is not right, or the
 * one before it.
 */
static enum step step(struct walker *w, const struct region *region, uint64_t *at,
		      struct pending *pending)
{
	const uint8_t *header = look(w, *at, HEADER, region->end);
	struct pending before = *pending;
	uint64_t word, size;

	pending->size = 0;
	if (!header || !finish(w, &before, header)) {
		*at = before.size ? before.chunk : *at;
		return DAMAGED;
	}
	word = word_of(header + 8);
	size = word & ~FLAGS;
	/* The last chunk is free and has no next one; or a heap that went on elsewhere ends. */
	if (*at == region->top || (region->kind == MAIN && size == region->end - *at))
		return END;
	if (size == HEADER || size == 0)
		return END;
	if (size < MIN_CHUNK || !is_aligned(size) || word & IS_MMAPPED ||
	    size > region->end - *at - HEADER)
		return DAMAGED;
	header = look(w, *at, MIN_CHUNK, region->end);
	if (!header)
		return DAMAGED;
	*pending = (struct pending){
		.chunk = *at,
		.size = size,
		.peek = { word_of(header + 16), word_of(header + 24) },
	};
	if (size == TCACHE_CHUNK)
		look_for_cache(w, *at, region->end);
	*at += size;
	return GO_ON;
}

static void walk_heap(struct walker *w, const struct region *region, struct vt_chunk_heap *heap)
{
	struct pending pending = { 0 };
	uint64_t at = region->first, damaged = 0;
	int tries = 0, all = 0;
	enum step what = GO_ON;

	w->in_window = 0;
	while (at < region->end && !w->chunks->full && !w->error) {
		what = step(w, region, &at, &pending);
		if (what == END)
			break;
		if (what == GO_ON)
			continue;
		/* It may have changed between two reads. */
		tries = at == damaged ? tries + 1 : 1;
		if (w->src->coherent || tries == TRIES || ++all == MAX_DAMAGED)
			break;
		damaged = at;
		w->in_window = 0;
	}
	heap->whole = what == END;
	if (!heap->whole)
		heap->end = at;
	else if (region->kind == MAIN)
		w->main_top = at;
}

/* Where heaps are. */

static bool add_region(struct walker *w, struct region region)
{
	struct region *new;

	if (w->regions.n >= MAX_HEAPS || !(new = vt_vec_append(&w->regions))) {
		w->chunks->full = true;
		return false;
	}
	*new = region;
	return true;
}

static bool is_data(const struct vt_map_entry *entry)
{
	return entry->flags & VT_MAP_READ && entry->flags & VT_MAP_WRITE &&
	       !(entry->flags & VT_MAP_SHARED);
}

static bool is_anonymous(const struct vt_map_entry *entry)
{
	/* A name may be given with prctl(), as glibc's tunable mem.decorate_maps does. */
	return is_data(entry) && (!*entry->path || !strncmp(entry->path, "[anon:", 6));
}

/* The mappings from *i on that follow one another, as one; *i is that of the last. */
static struct vt_range together(const struct vt_maps *maps, size_t *i,
				bool (*fits)(const struct vt_map_entry *))
{
	const struct vt_map_entry *entries = maps->entries.data;
	struct vt_range range = { entries[*i].start, entries[*i].end };

	while (*i + 1 < maps->entries.n && entries[*i + 1].start == range.end &&
	       fits(&entries[*i + 1]))
		range.end = entries[++*i].end;
	return range;
}

static bool is_brk(const struct vt_map_entry *entry)
{
	return is_data(entry) && !strcmp(entry->path, "[heap]");
}

static void find_main_heap(struct walker *w)
{
	for (size_t i = 0; i < w->maps->entries.n; i++) {
		if (!is_brk(&w->maps->entries.data[i]))
			continue;

		struct vt_range range = together(w->maps, &i, is_brk);

		add_region(w, (struct region){ .start = range.start,
					       .first = range.start,
					       .end = range.end,
					       .kind = MAIN });
		return;
	}
}

/* struct heap_info: arena, the heap before, size, and how much is accessible. */
static bool is_heap_info(struct walker *w, uint64_t addr, uint64_t end, const uint64_t info[4])
{
	uint64_t offset = info[0] % HEAP_MAX, of_arena;

	if ((offset != HEAP_INFO_OLD && offset != HEAP_INFO_NEW) || info[1] % HEAP_MAX ||
	    info[2] % PAGE || info[2] < PAGE || info[2] > info[3] || info[3] > HEAP_MAX ||
	    info[2] > end - addr)
		return false;
	if (info[0] - offset == addr)
		return info[1] == 0;
	/* A later heap: the arena is at the beginning of its first one. */
	return read_at(w, info[0] - offset, &of_arena, sizeof(of_arena)) && of_arena == info[0];
}

static void add_arena_heap(struct walker *w, uint64_t addr, const uint64_t info[4])
{
	uint64_t offset = info[0] % HEAP_MAX, first = addr + offset, top = 0, *arena;

	if (info[0] - offset == addr) {
		/* What malloc() returns is aligned to 16, and so is its chunk. */
		first = (first + ARENA_SIZE + 15) & ~UINT64_C(15);
		arena = vt_vec_append(&w->arenas);
		if (arena)
			*arena = info[0];
	}
	if (!read_at(w, info[0] + ARENA_TOP, &top, sizeof(top)))
		return;
	if (top < first || top >= addr + info[2])
		top = 0; /* in a later heap */
	add_region(w, (struct region){ .start = addr,
				       .first = first,
				       .end = addr + info[2],
				       .top = top,
				       .kind = ARENA });
}

static bool is_resident(const struct vt_resident *resident, uint64_t addr)
{
	size_t low = 0, high = resident->ranges.n;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (resident->ranges.data[mid].end <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low < resident->ranges.n && resident->ranges.data[low].start <= addr;
}

static void find_arena_heaps(struct walker *w, const struct vt_resident *resident)
{
	size_t probes = 0;

	for (size_t i = 0; i < w->maps->entries.n; i++) {
		if (!is_anonymous(&w->maps->entries.data[i]))
			continue;

		struct vt_range range = together(w->maps, &i, is_anonymous);
		uint64_t addr = (range.start + HEAP_MAX - 1) & ~(HEAP_MAX - 1);

		if (range.end - range.start > MAX_MAPPING)
			continue;
		for (; addr < range.end && probes < MAX_PROBES; addr += HEAP_MAX, probes++) {
			uint64_t info[4];

			if ((!resident || is_resident(resident, addr)) &&
			    read_at(w, addr, info, sizeof(info)) &&
			    is_heap_info(w, addr, range.end, info))
				add_arena_heap(w, addr, info);
		}
	}
}

static int compare_regions(const void *a, const void *b)
{
	const struct region *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

static void sort_regions(struct walker *w)
{
	if (w->regions.n)
		qsort(w->regions.data, w->regions.n, sizeof(w->regions.data[0]), compare_regions);
}

/* Chunks that have a mapping of their own. */

/*
 * The kernel joins mappings that touch, so each page may be the beginning of one. The chunk's size
 * is a multiple of the page size, and what is before it is none.
 */
static uint64_t mapped_size(const uint64_t header[2], uint64_t room)
{
	uint64_t size = header[1] & ~FLAGS;

	return header[0] == 0 && (header[1] & FLAGS) == IS_MMAPPED && size && size % PAGE == 0 &&
			       size <= room ?
		       size :
		       0;
}

/*
 * For memory that is aligned to more than 16 bytes, glibc moves the chunk's beginning, and says by
 * how much. The header at the page's beginning stays.
 */
static uint64_t moved_by(struct walker *w, uint64_t addr, uint64_t size)
{
	uint8_t page[PAGE];

	if (!read_at(w, addr, page, sizeof(page)))
		return 0;
	for (uint64_t alignment = 32; alignment <= PAGE; alignment *= 2) {
		uint64_t by = alignment - HEADER;

		if (word_of(page + by) == by && word_of(page + by + 8) == (size - by) + IS_MMAPPED)
			return by;
	}
	return 0;
}

/* Adds the chunk at addr, if there is one: its size, else 0. */
static uint64_t add_mapped(struct walker *w, uint64_t addr, const uint64_t header[2], uint64_t end)
{
	uint64_t size = mapped_size(header, end - addr);

	if (!size || !add_region(w, (struct region){ .start = addr,
						     .first = addr + moved_by(w, addr, size),
						     .end = addr + size,
						     .kind = MAPPED }))
		return 0;
	return size;
}

/* From addr on, one after the other; where the last of them ends. */
static uint64_t add_mapped_row(struct walker *w, uint64_t addr, uint64_t end)
{
	uint64_t header[2], size = 1;

	while (addr < end && size && read_at(w, addr, header, sizeof(header))) {
		size = add_mapped(w, addr, header, end);
		addr += size;
	}
	return addr;
}

/* Pages of [from, to), which are there; end: of the mapping. Where the last one found ends. */
static uint64_t add_mapped_at_pages(struct walker *w, uint64_t from, uint64_t to, uint64_t end,
				    size_t *budget)
{
	uint64_t skip = from;

	while (from < to && *budget) {
		uint64_t headers[HEADS][2];
		struct vt_memvec vec[HEADS];
		size_t n = 0;

		for (; n < HEADS && n < *budget && from + n * PAGE < to; n++)
			vec[n] = (struct vt_memvec){ from + n * PAGE, headers[n], HEADER };
		if (vt_mem_readv(w->src, vec, n))
			return skip;
		*budget -= n;
		for (size_t i = 0; i < n; i++) {
			uint64_t addr = from + i * PAGE;

			if (addr >= skip)
				skip = addr + add_mapped(w, addr, headers[i], end);
		}
		from += n * PAGE;
		if (skip > from)
			from = skip;
	}
	return skip;
}

struct mapped_search {
	const struct vt_resident *resident;
	size_t at;     /* of its ranges */
	size_t budget; /* pages that may still be looked at */
};

/* [addr, end) is one mapping, or a part in which there is no other heap. */
static void find_mapped_in(struct walker *w, struct mapped_search *search, uint64_t addr,
			   uint64_t end)
{
	const struct vt_resident *resident = search->resident;

	addr = add_mapped_row(w, addr, end);
	for (; resident && search->at < resident->ranges.n; search->at++) {
		struct vt_range range = resident->ranges.data[search->at];
		uint64_t from = range.start > addr ? range.start : addr;
		uint64_t to = range.end < end ? range.end : end;

		if (range.start >= end)
			return;
		if (from < to)
			addr = add_mapped_at_pages(w, from, to, end, &search->budget);
		if (range.end > end)
			return;
	}
}

static void find_mapped(struct walker *w, const struct vt_resident *resident)
{
	struct mapped_search search = { .resident = resident, .budget = MAX_HEADS };
	size_t n_heaps = w->regions.n, heap = 0;

	for (size_t i = 0; i < w->maps->entries.n && !w->error; i++) {
		if (!is_anonymous(&w->maps->entries.data[i]))
			continue;

		struct vt_range range = together(w->maps, &i, is_anonymous);

		/* Heaps of arenas lie between. */
		while (range.start < range.end) {
			struct region next = { .start = range.end, .end = range.end };

			while (heap < n_heaps && w->regions.data[heap].end <= range.start)
				heap++;
			if (heap < n_heaps && w->regions.data[heap].start < range.end)
				next = w->regions.data[heap];
			if (range.start < next.start)
				find_mapped_in(w, &search, range.start, next.start);
			range.start = next.end;
		}
	}
}

/* What is in use only as far as headers say. */

static size_t index_of(const struct vt_chunks *chunks, uint64_t addr)
{
	size_t low = 0, high = chunks->chunks.n;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (chunks->chunks.data[mid].addr < addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low < chunks->chunks.n && chunks->chunks.data[low].addr == addr ? low : SIZE_MAX;
}

/*
 * Follows a list of free chunks. to_memory: what its pointers lack to what malloc() returned. Since
 * 2.32 a pointer is combined with its own address, so that an overflow cannot set it; which of both
 * it is shows: only one leads to a chunk.
 */
static void drop_list(struct walker *w, uint64_t pointer, uint64_t to_memory, uint64_t *key)
{
	for (;;) {
		size_t i = index_of(w->chunks, pointer + to_memory);
		struct vt_chunk *chunk;
		uint64_t plain, hidden;

		if (!pointer || i == SIZE_MAX || !w->chunks->chunks.data[i].bytes)
			return; /* it ends, or goes in circles */
		chunk = &w->chunks->chunks.data[i];
		chunk->bytes = 0;
		w->chunks->n_freed++;
		plain = w->peeks.data[i].first;
		hidden = plain ^ chunk->addr >> 12;
		pointer = index_of(w->chunks, hidden + to_memory) != SIZE_MAX ? hidden : plain;
		*key = w->peeks.data[i].second;
	}
}

static int compare_words(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/*
 * Since 2.34 what is in a cache has a random number in its second word, the same in the process.
 * With it those of a list are found that cannot be followed, as it changed while it was read.
 */
static void drop_with_key(struct walker *w, uint64_t *keys, size_t n)
{
	uint64_t key = 0;
	size_t best = 1;

	qsort(keys, n, sizeof(*keys), compare_words);
	for (size_t i = 0, j; i < n; i = j) {
		for (j = i + 1; j < n && keys[j] == keys[i];)
			j++;
		if (j - i > best && keys[i]) {
			best = j - i;
			key = keys[i];
		}
	}
	for (size_t i = 0; key && i < w->chunks->chunks.n; i++) {
		struct vt_chunk *chunk = &w->chunks->chunks.data[i];

		if (w->peeks.data[i].second != key || !chunk->bytes ||
		    chunk->bytes > MAX_CACHED - 8)
			continue;
		chunk->bytes = 0;
		w->chunks->n_freed++;
	}
}

static bool drop_cached(struct walker *w)
{
	VT_FREE uint64_t *keys = calloc(w->caches.n + 1, TCACHE_LISTS * sizeof(*keys));
	size_t n = 0;

	if (!keys)
		return false;
	for (size_t i = 0; i < w->caches.n; i++) {
		uint64_t lists[TCACHE_LISTS];

		if (!read_at(w, w->caches.data[i] + TCACHE_ENTRIES, lists, sizeof(lists)))
			continue;
		for (size_t j = 0; j < TCACHE_LISTS; j++) {
			keys[n] = 0;
			drop_list(w, lists[j], 0, &keys[n]);
			n += keys[n] != 0;
		}
	}
	drop_with_key(w, keys, n);
	return true;
}

static void drop_fast(struct walker *w, uint64_t arena)
{
	uint64_t bins[ARENA_N_FAST_BINS], ignored;

	if (!read_at(w, arena + ARENA_FAST_BINS, bins, sizeof(bins)))
		return;
	for (size_t i = 0; i < ARENA_N_FAST_BINS; i++)
		drop_list(w, bins[i], HEADER, &ignored);
}

/* Arenas are in a circle. */
static bool is_arena(struct walker *w, uint64_t addr)
{
	uint64_t next = addr;

	for (int i = 0; i < MAX_ARENAS; i++) {
		if (!read_at(w, next + ARENA_NEXT, &next, sizeof(next)) || next % 8)
			return false;
		if (next == addr)
			return true;
	}
	return false;
}

static bool has_libc(const struct vt_map_entry *entry)
{
	const char *name = strrchr(entry->path, '/');

	return name && (!strncmp(name, "/libc.so.6", 10) || !strncmp(name, "/libc-2.", 8));
}

/* The main arena is in libc's data, and points to the last chunk of [heap]. */
static void drop_main_fast(struct walker *w, uint64_t top)
{
	for (size_t i = 0; i < w->maps->entries.n && top; i++) {
		const struct vt_map_entry *entry = &w->maps->entries.data[i];

		if (!is_data(entry) || !has_libc(entry))
			continue;
		for (uint64_t at = entry->start; at + 8 <= entry->end; at += 8) {
			const uint8_t *p = look(w, at, 8, entry->end);

			if (!p)
				break;
			if (word_of(p) != top || !is_arena(w, at - ARENA_TOP))
				continue;
			w->chunks->main_arena = true;
			drop_fast(w, at - ARENA_TOP);
			return;
		}
	}
}

/* Takes those out that were dropped. */
static void close_up(struct vt_chunks *chunks)
{
	size_t to = 0, heap = 0;

	for (size_t i = 0; heap < chunks->heaps.n; heap++) {
		struct vt_chunk_heap *h = &chunks->heaps.data[heap];
		size_t end = i + h->n, first = to;

		for (; i < end; i++)
			if (chunks->chunks.data[i].bytes)
				chunks->chunks.data[to++] = chunks->chunks.data[i];
		h->first = (uint32_t)first;
		h->n = (uint32_t)(to - first);
	}
	chunks->chunks.n = to;
}

/* For each page of a large heap the first chunk that begins there or behind it. */
static bool make_index(struct vt_chunks *chunks)
{
	for (size_t i = 0; i < chunks->heaps.n; i++) {
		struct vt_chunk_heap *heap = &chunks->heaps.data[i];
		size_t n = (size_t)((heap->end - heap->start + PAGE - 1) / PAGE) + 1, chunk = 0;
		size_t index = chunks->page_index.n;

		if (heap->n < INDEXED)
			continue;
		if (index + n > UINT32_MAX || !vt_vec_reserve(&chunks->page_index, index + n))
			return false;
		for (size_t page = 0; page < n; page++) {
			while (chunk < heap->n && chunks->chunks.data[heap->first + chunk].addr <
							  heap->start + page * PAGE)
				chunk++;
			chunks->page_index.data[index + page] = (uint32_t)chunk;
		}
		chunks->page_index.n += n;
		heap->page_index = (uint32_t)index;
	}
	return true;
}

static bool walk_region(struct walker *w, const struct region *region)
{
	struct vt_chunk_heap *heap = vt_vec_append(&w->chunks->heaps);
	uint64_t bytes = region->end - region->first;

	if (!heap)
		return false;
	*heap = (struct vt_chunk_heap){ .start = region->start,
					.end = region->end,
					.first = (uint32_t)w->chunks->chunks.n,
					.whole = true };
	if (region->kind == MAPPED) /* no chunk follows: none of it belongs to a next one */
		add_chunk(w, region->first, bytes - 8, (struct peek){ 0, 0 });
	else
		walk_heap(w, region, heap);
	heap->n = (uint32_t)(w->chunks->chunks.n - heap->first);
	return true;
}

static bool walk_all(struct walker *w, const struct vt_resident *resident)
{
	find_main_heap(w);
	find_arena_heaps(w, resident);
	sort_regions(w);
	find_mapped(w, resident);
	sort_regions(w);
	for (size_t i = 0; i < w->regions.n && !w->chunks->full; i++)
		if (!walk_region(w, &w->regions.data[i]))
			return false;
	w->in_window = 0;
	if (!drop_cached(w))
		return false;
	drop_main_fast(w, w->main_top);
	for (size_t i = 0; i < w->arenas.n; i++)
		drop_fast(w, w->arenas.data[i]);
	close_up(w->chunks);
	return make_index(w->chunks);
}

struct vt_error *vt_chunks_init(struct vt_chunks *chunks, struct vt_memsrc *src,
				const struct vt_maps *maps, const struct vt_resident *resident,
				size_t max_chunks)
{
	VT_FREE struct walker *w = malloc(sizeof(*w));
	bool ok;

	*chunks = (struct vt_chunks){ 0 };
	if (!w)
		return &vt_enomem;
	memset(w, 0, offsetof(struct walker, window));
	w->chunks = chunks;
	w->src = src;
	w->maps = maps;
	w->max = max_chunks < UINT32_MAX ? max_chunks : UINT32_MAX;
	w->at = w->in_window = 0;
	w->main_top = 0;
	w->error = 0;
	ok = walk_all(w, resident);
	vt_vec_deinit(&w->peeks);
	vt_vec_deinit(&w->caches);
	vt_vec_deinit(&w->arenas);
	vt_vec_deinit(&w->regions);
	if (ok && !w->error)
		return NULL;
	vt_chunks_deinit(chunks);
	return ok ? vt_mem_error(src, w->error, "the heap") : &vt_enomem;
}

void vt_chunks_deinit(struct vt_chunks *chunks)
{
	vt_vec_deinit(&chunks->chunks);
	vt_vec_deinit(&chunks->heaps);
	vt_vec_deinit(&chunks->page_index);
	*chunks = (struct vt_chunks){ 0 };
}

const struct vt_chunk_heap *vt_chunks_heap(const struct vt_chunks *chunks, uint64_t addr)
{
	size_t low = 0, high = chunks->heaps.n;

	while (low < high) {
		size_t mid = (low + high) / 2;
		const struct vt_chunk_heap *heap = &chunks->heaps.data[mid];

		if (addr < heap->start)
			high = mid;
		else if (addr >= heap->end)
			low = mid + 1;
		else
			return heap;
	}
	return NULL;
}

const struct vt_chunk *vt_chunks_at(const struct vt_chunks *chunks, uint64_t addr)
{
	const struct vt_chunk_heap *heap = vt_chunks_heap(chunks, addr);
	const struct vt_chunk *first, *chunk;

	if (!heap || !heap->n)
		return NULL;
	first = &chunks->chunks.data[heap->first];
	chunk = first + heap->n;
	if (heap->n >= INDEXED)
		chunk = first +
			chunks->page_index.data[heap->page_index + (addr - heap->start) / PAGE + 1];
	/* At most the 128 that fit into a page, or the few that there are. */
	while (chunk > first) {
		chunk--;
		if (chunk->addr <= addr)
			return addr - chunk->addr < chunk->bytes ? chunk : NULL;
	}
	return NULL;
}

uint64_t vt_chunks_bytes(const struct vt_chunks *chunks, uint64_t addr)
{
	const struct vt_chunk *chunk = vt_chunks_at(chunks, addr);

	return chunk && chunk->addr == addr ? chunk->bytes : 0;
}
