/* SPDX-License-Identifier: Apache-2.0 */
#include "walk/heap/pages.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parallel.h"
#include "target/live.h"

/*
 * Read together: the heaps of CPython and malloc() are dense, so a neighbour is mostly wanted soon,
 * and a system call costs as much as the copy of some pages.
 */
#define RUN_PAGES UINT64_C(8) /* a power of two */
/*
 * A look-up of some names jumps to a page for each, and reads these alone; of a huge page the
 * kernel clears all before the first byte is there.
 */
#define SINGLE_PAGES ((size_t)512)
#define FIRST_INDEX ((size_t)1 << 12)
#define RETRY_PIECES ((size_t)64)
#define GRAIN ((size_t)512) /* pages that one thread compares in one go */

enum page_state {
	PAGE_AHEAD, /* read, but nobody asked for it yet */
	PAGE_ASKED, /* somebody asked for it */
	PAGE_LATE,  /* read after vt_pages_copy_again() */
	PAGE_AFTER, /* the same, after vt_pages_moment_is_over() */
	PAGE_BAD,   /* cannot be read; it has no slot */
};

struct vt_heap_page {
	uint64_t number;
	uint64_t hash;   /* of the lines in hashed, as they were read, or copied last */
	uint64_t whole;  /* of all lines */
	uint32_t slot;   /* its data is at slot * VT_HEAP_PAGE */
	uint8_t state;   /* enum page_state */
	uint16_t look;   /* the one that it was read in last */
	uint64_t hashed; /* a set as in vt_pages.used; 0 there is no hash */
};

static uint8_t *data_of(const struct vt_pages *pages, const struct vt_heap_page *page)
{
	return pages->data + (size_t)page->slot * VT_HEAP_PAGE;
}

static uint64_t mix(uint64_t acc, uint64_t word)
{
	/* The rotation brings high bits down, so that changes of high bits cannot cancel out. */
	acc += word * UINT64_C(0xc2b2ae3d27d4eb4f);
	acc = acc << 31 | acc >> 33;
	return acc * UINT64_C(0x9e3779b185ebca87);
}

#define LINE ((size_t)1 << VT_HEAP_LINE_SHIFT)
#define ALL UINT64_MAX

/*
 * Of these lines. Four lanes, because each step waits for two multiplications. Any change of one
 * word shows.
 */
static uint64_t hash_lines(const uint8_t *data, uint64_t lines)
{
	uint64_t lanes[4] = { 1, 2, 3, 4 }, words[4];

	for (size_t at = 0; at < VT_HEAP_PAGE; at += sizeof(words)) {
		if (!(lines >> at / LINE & 1))
			continue;
		memcpy(words, data + at, sizeof(words));
		for (int i = 0; i < 4; i++)
			lanes[i] = mix(lanes[i], words[i]);
	}
	return mix(mix(mix(lanes[0], lanes[1]), lanes[2]), lanes[3]);
}

/* The lines that n bytes at this offset of a page are in; all are in the page. */
static uint64_t lines_of(size_t at, size_t n)
{
	size_t first = at / LINE, last = n ? (at + n - 1) / LINE : first;

	return ALL >> (63 - (last - first)) << first;
}

static size_t home(uint64_t number, size_t mask)
{
	return (size_t)(number * UINT64_C(0x9e3779b97f4a7c15) >> 24) & mask;
}

/* Where in the index the page is, or where it would go. */
static uint32_t *find(const struct vt_pages *pages, uint64_t number)
{
	size_t i = home(number, pages->mask);

	while (pages->index[i] && pages->pages[pages->index[i] - 1].number != number)
		i = (i + 1) & pages->mask;
	return &pages->index[i];
}

static struct vt_heap_page *page_at(const struct vt_pages *pages, uint64_t number)
{
	uint32_t at = *find(pages, number);

	return at ? &pages->pages[at - 1] : NULL;
}

/* Room in index and pages[] for n more. The data stays where it is. */
static bool make_room(struct vt_pages *pages, size_t n)
{
	size_t size = pages->mask + 1;
	uint32_t *index;
	struct vt_heap_page *all;

	/* Bad ones have no slot, so there may be more pages than slots; but not without bound. */
	if (n > 2 * pages->max_pages - pages->n_pages)
		return false;
	if (pages->n_pages + n <= size / 2)
		return true;
	size *= 2;
	all = realloc(pages->pages, size / 2 * sizeof(*all));
	if (!all)
		return false;
	pages->pages = all;
	index = calloc(size, sizeof(*index));
	if (!index)
		return false;
	free(pages->index);
	pages->index = index;
	pages->mask = size - 1;
	for (size_t i = 0; i < pages->n_pages; i++)
		*find(pages, all[i].number) = (uint32_t)i + 1;
	return true;
}

static struct vt_heap_page *add(struct vt_pages *pages, uint64_t number, uint32_t slot,
				enum page_state state)
{
	struct vt_heap_page *page = &pages->pages[pages->n_pages++];

	*page = (struct vt_heap_page){
		.number = number,
		.slot = slot,
		.state = (uint8_t)state,
		.look = pages->look,
	};
	*find(pages, number) = (uint32_t)pages->n_pages;
	return page;
}

/* Reads n pages, which are not there yet, into the next slots. */
static bool read_pages(struct vt_pages *pages, uint64_t first, uint64_t n)
{
	uint8_t *data = pages->data + pages->n_slots * VT_HEAP_PAGE;

	if (n > pages->max_pages - pages->n_slots || !make_room(pages, n) ||
	    vt_mem_read(pages->under, first << VT_HEAP_PAGE_SHIFT, data, n * VT_HEAP_PAGE))
		return false;
	for (uint64_t i = 0; i < n; i++)
		add(pages, first + i, (uint32_t)pages->n_slots++,
		    pages->over   ? PAGE_AFTER :
		    pages->copied ? PAGE_LATE :
				    PAGE_AHEAD);
	pages->n_late += pages->copied ? n : 0;
	return true;
}

/* Reads the page and the part of its run around it that is not there yet. */
static bool read_run(struct vt_pages *pages, uint64_t number)
{
	uint64_t begin = number & ~(RUN_PAGES - 1), end = begin + RUN_PAGES;
	uint64_t first = number, last = number + 1;

	if (pages->n_slots < pages->n_single)
		return false;
	while (first > begin && !page_at(pages, first - 1))
		first--;
	while (last < end && !page_at(pages, last))
		last++;
	return last - first > 1 && read_pages(pages, first, last - first);
}

static struct vt_heap_page *read_new(struct vt_pages *pages, uint64_t number)
{
	if (pages->n_slots == pages->max_pages || !make_room(pages, 1)) {
		pages->full = true;
		return NULL;
	}
	/* Once the moment is over, each page is from another one, so none is read ahead. */
	if (pages->over || !read_run(pages, number)) {
		if (!read_pages(pages, number, 1))
			return add(pages, number, 0, PAGE_BAD);
	}
	return page_at(pages, number);
}

/* The first time that somebody asks for it. */
static bool ask(struct vt_pages *pages, struct vt_heap_page *page)
{
	uint8_t *data = data_of(pages, page);

	/* What was read ahead, before the others were copied again, is too old. */
	if (pages->copied &&
	    vt_mem_read(pages->under, page->number << VT_HEAP_PAGE_SHIFT, data, VT_HEAP_PAGE)) {
		page->state = PAGE_BAD;
		return false;
	}
	page->state = pages->over ? PAGE_AFTER : pages->copied ? PAGE_LATE : PAGE_ASKED;
	page->look = pages->look;
	pages->n_late += pages->copied;
	return true;
}

/*
 * One that cannot be read any more keeps what it had (a failed read may leave anything); that is
 * seen when all are copied.
 */
static void look_again(struct vt_pages *pages, struct vt_heap_page *page)
{
	uint8_t data[VT_HEAP_PAGE];

	page->look = pages->look;
	if (!vt_mem_read(pages->under, page->number << VT_HEAP_PAGE_SHIFT, data, sizeof(data)))
		memcpy(data_of(pages, page), data, sizeof(data));
}

const uint8_t *vt_pages_page(struct vt_pages *pages, uint64_t number)
{
	struct vt_heap_page *page = page_at(pages, number);

	if (!page)
		page = read_new(pages, number);
	if (!page || page->state == PAGE_BAD)
		return NULL;
	if (page->state == PAGE_AHEAD && !ask(pages, page))
		return NULL;
	if (page->look != pages->look && pages->look)
		look_again(pages, page);
	pages->later |= page->state == PAGE_AFTER;
	pages->last = number;
	pages->last_data = data_of(pages, page);
	return pages->last_data;
}

/* The n bytes at addr, all in one page. */
static const uint8_t *use(struct vt_pages *pages, uint64_t addr, size_t n)
{
	size_t at = (size_t)(addr & (VT_HEAP_PAGE - 1));
	const uint8_t *page = vt_pages_page(pages, addr >> VT_HEAP_PAGE_SHIFT);

	if (!page)
		return NULL;
	pages->used[(size_t)(page - pages->data) >> VT_HEAP_PAGE_SHIFT] |= lines_of(at, n);
	return page + at;
}

void vt_pages_beside(struct vt_pages *pages, bool beside)
{
	uint64_t *other = pages->beside;

	if (pages->is_beside == beside)
		return;
	pages->beside = pages->used;
	pages->used = other;
	pages->is_beside = beside;
}

void vt_pages_moment_is_over(struct vt_pages *pages)
{
	pages->over = true;
}

void vt_pages_prefetch(const struct vt_pages *pages, uint64_t addr)
{
	const struct vt_heap_page *page = page_at(pages, addr >> VT_HEAP_PAGE_SHIFT);

	if (page && page->state != PAGE_BAD)
		__builtin_prefetch(data_of(pages, page) + (addr & (VT_HEAP_PAGE - 1)));
}

bool vt_pages_read(struct vt_pages *pages, uint64_t addr, void *buf, size_t n)
{
	uint8_t *out = buf;

	if (n > UINT64_MAX - addr)
		return false;
	while (n) {
		size_t at = (size_t)(addr & (VT_HEAP_PAGE - 1));
		size_t part = VT_HEAP_PAGE - at < n ? VT_HEAP_PAGE - at : n;
		const uint8_t *data = use(pages, addr, part);

		if (!data) {
			pages->src.fault_addr = addr;
			return false;
		}
		memcpy(out, data, part);
		out += part;
		addr += part;
		n -= part;
	}
	return true;
}

static int source_read(struct vt_memsrc *src, uint64_t addr, void *buf, size_t len)
{
	struct vt_pages *pages = (struct vt_pages *)(void *)src;

	pages->src.fault_addr = addr;
	return vt_pages_read(pages, addr, buf, len) ? 0 : -EFAULT;
}

static const void *source_direct(struct vt_memsrc *src, uint64_t addr, size_t len)
{
	if (len > VT_HEAP_PAGE - (addr & (VT_HEAP_PAGE - 1)))
		return NULL;
	return use((struct vt_pages *)(void *)src, addr, len);
}

static uint64_t *map_set(size_t max_pages)
{
	void *set = mmap(NULL, max_pages * sizeof(uint64_t), PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return set == MAP_FAILED ? NULL : set;
}

static struct vt_error *init(struct vt_pages *pages, struct vt_memsrc *under, size_t max_bytes,
			     size_t n_single)
{
	static const struct vt_memsrc_ops ops = { .read = source_read, .direct = source_direct };
	size_t max_pages = max_bytes / VT_HEAP_PAGE;

	if (max_pages > INT32_MAX / 2)
		max_pages = INT32_MAX / 2; /* u32 in the index, for twice as many */
	if (max_pages == 0)
		max_pages = 1;
	*pages = (struct vt_pages){
		.src = { .ops = &ops, .coherent = under->coherent },
		.under = under,
		.max_pages = max_pages,
		.n_single = n_single,
		.mask = FIRST_INDEX - 1,
		.last = UINT64_MAX,
		.index = calloc(FIRST_INDEX, sizeof(uint32_t)),
		.pages = calloc(FIRST_INDEX / 2, sizeof(struct vt_heap_page)),
		.data = mmap(NULL, max_pages * VT_HEAP_PAGE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0),
		.used = map_set(max_pages),
		.beside = map_set(max_pages),
	};
	if (pages->data == MAP_FAILED)
		pages->data = NULL;
	/* Page faults cost as much as reading does. Only a wish: no result. */
	if (pages->data && max_pages > n_single)
		madvise(pages->data + n_single * VT_HEAP_PAGE,
			(max_pages - n_single) * VT_HEAP_PAGE, MADV_HUGEPAGE);
	if (pages->data && pages->used && pages->beside && pages->index && pages->pages)
		return NULL;
	vt_pages_deinit(pages);
	return &vt_enomem;
}

struct vt_error *vt_pages_init(struct vt_pages *pages, struct vt_memsrc *under, size_t max_bytes)
{
	return init(pages, under, max_bytes, 0);
}

struct vt_error *vt_pages_init_sparse(struct vt_pages *pages, struct vt_memsrc *under,
				      size_t max_bytes)
{
	return init(pages, under, max_bytes, SINGLE_PAGES);
}

void vt_pages_deinit(struct vt_pages *pages)
{
	if (pages->data)
		munmap(pages->data, pages->max_pages * VT_HEAP_PAGE);
	if (pages->used)
		munmap(pages->used, pages->max_pages * sizeof(*pages->used));
	if (pages->beside)
		munmap(pages->beside, pages->max_pages * sizeof(*pages->beside));
	free(pages->index);
	free(pages->pages);
	*pages = (struct vt_pages){ 0 };
}

/* The copy. */

static void drop(struct vt_pages *pages, struct vt_heap_page *page)
{
	page->state = PAGE_BAD;
	pages->vanished = true;
}

static bool is_copied(const struct vt_heap_page *page)
{
	return page->state == PAGE_ASKED || page->state == PAGE_LATE || page->state == PAGE_AFTER;
}

/* Pages in the order of slots: neighbours that were read together lie together, here and there. */
static size_t pieces_of(const struct vt_pages *pages, size_t n_pages, struct vt_memvec *vec)
{
	uint64_t next = 0, next_slot = UINT64_MAX;
	size_t n = 0;

	for (size_t i = 0; i < n_pages; i++) {
		const struct vt_heap_page *page = &pages->pages[i];

		if (!is_copied(page))
			continue;
		if (page->number == next && page->slot == next_slot)
			vec[n - 1].len += VT_HEAP_PAGE;
		else
			vec[n++] = (struct vt_memvec){ page->number << VT_HEAP_PAGE_SHIFT,
						       data_of(pages, page), VT_HEAP_PAGE };
		next = page->number + 1;
		next_slot = (uint64_t)page->slot + 1;
	}
	return n;
}

/* Each page alone: those that cannot be read any more are unreadable from now on. */
static int copy_singly(struct vt_pages *pages, const struct vt_memvec *piece)
{
	for (size_t at = 0; at < piece->len; at += VT_HEAP_PAGE) {
		uint64_t addr = piece->addr + at;
		int ret = vt_mem_read(pages->under, addr, (uint8_t *)piece->buf + at, VT_HEAP_PAGE);

		if (ret == -EFAULT)
			drop(pages, page_at(pages, addr >> VT_HEAP_PAGE_SHIFT));
		else if (ret)
			return ret;
	}
	return 0;
}

/* All at once; where that fails, in parts, and the parts that fail page by page. */
static int copy(struct vt_pages *pages, const struct vt_memvec *vec, size_t n)
{
	int ret = vt_mem_readv(pages->under, vec, n);

	for (size_t i = 0; ret == -EFAULT && i < n; i += RETRY_PIECES) {
		size_t part = n - i < RETRY_PIECES ? n - i : RETRY_PIECES;
		int failed = vt_mem_readv(pages->under, &vec[i], part);

		for (size_t j = i; failed == -EFAULT && j < i + part; j++) {
			int err = copy_singly(pages, &vec[j]);

			if (err)
				return err;
		}
		if (failed && failed != -EFAULT)
			return failed;
	}
	return ret == -EFAULT ? 0 : ret;
}

static struct vt_error *copy_first(struct vt_pages *pages, size_t n_pages)
{
	VT_FREE struct vt_memvec *vec = calloc(n_pages + 1, sizeof(*vec));
	int ret;

	if (!vec)
		return &vt_enomem;
	vt_pages_remember(pages, 0);
	pages->copied = true;
	pages->vanished = pages->vanished && !pages->compared;
	pages->compared = false;
	pages->last = UINT64_MAX;
	ret = copy(pages, vec, pieces_of(pages, n_pages, vec));
	return ret ? vt_mem_error(pages->under, ret, "the heap") : NULL;
}

struct vt_error *vt_pages_copy_again(struct vt_pages *pages)
{
	pages->look = 0;
	return copy_first(pages, pages->n_pages);
}

struct vt_error *vt_pages_look(struct vt_pages *pages, size_t n)
{
	n = n < pages->n_pages ? n : pages->n_pages;
	VT_TRY(copy_first(pages, n));
	pages->look++;
	for (size_t i = 0; i < n; i++)
		pages->pages[i].look = pages->look;
	return NULL;
}

/* Turns of a loop over all pages. */
struct comparison {
	struct vt_pages *pages;
	uint64_t deadline_ns;
	atomic_bool changed, moved;
};

static void look_for_change(void *arg, size_t first, size_t end)
{
	struct comparison *c = arg;

	if (vt_now_ns() >= c->deadline_ns)
		return;
	for (size_t i = first; i < end && !c->changed; i++) {
		const struct vt_heap_page *page = &c->pages->pages[i];

		if (!is_copied(page))
			continue;
		/* Of lines that were read since, nobody knows what was in them. */
		if (c->pages->used[page->slot] & ~page->hashed ||
		    hash_lines(data_of(c->pages, page), page->hashed) != page->hash)
			c->changed = true;
	}
}

bool vt_pages_first_changed(struct vt_pages *pages, size_t n, unsigned int threads,
			    uint64_t deadline_ns)
{
	struct comparison c = { .pages = pages, .deadline_ns = deadline_ns };

	vt_parallel(threads, n < pages->n_pages ? n : pages->n_pages, GRAIN, look_for_change, &c);
	return c.changed || pages->vanished;
}

static void compare(void *arg, size_t first, size_t end)
{
	struct comparison *c = arg;
	bool changed = false, moved = false;

	for (size_t i = first; i < end; i++) {
		struct vt_heap_page *page = &c->pages->pages[i];
		const uint8_t *data = data_of(c->pages, page);
		uint64_t used, whole;

		if (!is_copied(page))
			continue;
		used = c->pages->used[page->slot];
		whole = hash_lines(data, ALL);
		if (page->hashed && whole != page->whole) {
			moved = true;
			/* Whether what was used since is as it was before, nobody knows. */
			changed |= hash_lines(data, page->hashed) != page->hash ||
				   used & ~page->hashed;
		}
		if (whole != page->whole || used != page->hashed)
			page->hash = hash_lines(data, used);
		page->hashed = used;
		page->whole = whole;
	}
	if (changed)
		c->changed = true;
	if (moved)
		c->moved = true;
}

bool vt_pages_have_changed(struct vt_pages *pages, unsigned int threads)
{
	struct comparison c = { .pages = pages };

	if (pages->compared)
		return pages->changed;
	vt_parallel(threads, pages->n_pages, GRAIN, compare, &c);
	pages->changed = pages->vanished || c.changed;
	pages->moved = pages->vanished || c.moved;
	pages->compared = true;
	return pages->changed;
}

static void remember(void *arg, size_t first, size_t end)
{
	struct vt_pages *pages = arg;

	for (size_t i = first; i < end; i++) {
		struct vt_heap_page *page = &pages->pages[i];

		if (!is_copied(page) || page->hashed)
			continue;
		page->hashed = pages->used[page->slot];
		page->hash = hash_lines(data_of(pages, page), page->hashed);
		page->whole = hash_lines(data_of(pages, page), ALL);
	}
}

void vt_pages_remember(struct vt_pages *pages, unsigned int threads)
{
	vt_parallel(threads, pages->n_pages, GRAIN, remember, pages);
}
