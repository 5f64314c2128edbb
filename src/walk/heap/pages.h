/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A copy of the pages that a walk over a process's heap touches. A walk of a heap follows some
 * million pointers, and a process may stand still for milliseconds only. So the walk is made once
 * while the process runs, which shows which pages it needs; these are copied again, all at once,
 * when it stands still; and the walk is made again in the copy, unless nothing changed.
 */
#ifndef VT_WALK_HEAP_PAGES_H
#define VT_WALK_HEAP_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"
#include "target/maps.h"
#include "vramtap/mem.h"

enum {
	VT_HEAP_PAGE = 4096,
	VT_HEAP_PAGE_SHIFT = 12,
	VT_HEAP_LINE_SHIFT = 6,
};

struct vt_heap_page; /* private */

struct vt_pages {
	struct vt_memsrc src;    /* must be first: readers of single objects get a pointer to it */
	struct vt_memsrc *under; /* where pages come from; not owned */
	struct vt_heap_page *pages;
	uint32_t *index; /* open addressing over page numbers; pages[] index + 1, 0 free */
	size_t n_pages, mask;
	uint8_t *data;             /* one mapping that never moves; private how it is filled */
	size_t n_slots, max_pages; /* used and there */
	/*
	 * Of each slot the set of those lines of 64 bytes that somebody read. What else is in a
	 * page may change all the time: the stack of a thread that polls, below the frames of its
	 * callers; what the kernel writes into each thread (rseq); a counter.
	 */
	uint64_t *used;
	uint64_t *beside;         /* private: the set that does not count, see vt_pages_beside() */
	size_t n_single;          /* so many slots are filled singly */
	uint64_t last;            /* page number of last_data; UINT64_MAX none */
	const uint8_t *last_data; /* what the fast path below uses */
	size_t n_late;            /* pages read after vt_pages_copy_again() */
	bool copied;              /* vt_pages_copy_again() or vt_pages_look() was called */
	uint16_t look;            /* private: number of the look; 0 none */
	bool over;                /* vt_pages_moment_is_over() was */
	bool later;               /* a page from after it was used; whoever asks sets it to false */
	bool is_beside;           /* private */
	bool full;                /* max_pages were reached: reads of other pages fail */
	bool vanished, compared, changed; /* private, for vt_pages_have_changed() */
	bool moved;                       /* by it: anything in the pages differs, read or not */
};

/*
 * max_bytes bounds the copy. src.coherent is that of under. VT_ERR_NOMEM.
 */
struct vt_error *vt_pages_init(struct vt_pages *pages, struct vt_memsrc *under, size_t max_bytes);
/* The same for a walk that may be a short one: no page is read ahead at its beginning. */
struct vt_error *vt_pages_init_sparse(struct vt_pages *pages, struct vt_memsrc *under,
				      size_t max_bytes);
void vt_pages_deinit(struct vt_pages *pages);

/*
 * The page with this number (address / VT_HEAP_PAGE), read from under if it is not there yet. NULL:
 * it cannot be read, which is remembered, or there are too many. Valid until vt_pages_deinit();
 * its contents until vt_pages_copy_again(). Who reads a word of it calls vt_pages_used().
 */
const uint8_t *vt_pages_page(struct vt_pages *pages, uint64_t number);

/* The word at data, which is in the copy and does not lie in two lines, is used. */
static inline void vt_pages_used(struct vt_pages *pages, const uint8_t *data)
{
	size_t at = (size_t)(data - pages->data);
	uint64_t *lines = &pages->used[at >> VT_HEAP_PAGE_SHIFT];
	uint64_t line = UINT64_C(1) << (at >> VT_HEAP_LINE_SHIFT & 63);

	/* Not always: the next word is in the same line, mostly, and would wait for the store. */
	if (!(*lines & line))
		*lines |= line;
}

/*
 * What is read from now on is beside the walk (true) or part of it again (false): what the walk
 * made does not depend on it, so it does not count as read.
 */
void vt_pages_beside(struct vt_pages *pages, bool beside);

/*
 * Remembers what is in the pages that were asked for so far, with so many threads besides the
 * caller's: before the target is stopped, since vt_pages_copy_again() needs it.
 */
void vt_pages_remember(struct vt_pages *pages, unsigned int threads);

/*
 * Reads all pages again that were asked for so far, in one go: under should stand still. One that
 * cannot be read any more is unreadable from now on. On an error (the target is gone) the copy is
 * of no use.
 */
struct vt_error *vt_pages_copy_again(struct vt_pages *pages);

/*
 * As vt_pages_copy_again(), for a walk of some of the pages while the process runs: only the first
 * n are read again now, the others when they are used next.
 */
struct vt_error *vt_pages_look(struct vt_pages *pages, size_t n);

/*
 * Whether vt_pages_copy_again() found a page that differs from what it was before, or that
 * vanished. Of a page only those lines of 64 bytes count that somebody read. It takes one thread
 * some 20 ms for 100 MiB, so it is asked when the process runs again; threads: besides the
 * caller's.
 */
bool vt_pages_have_changed(struct vt_pages *pages, unsigned int threads);

/*
 * What is read from now on is of a later moment than the copy; pages->later tells whether it was
 * used.
 */
void vt_pages_moment_is_over(struct vt_pages *pages);

/* From here on pages->later is true if a page from after the moment is used. */
static inline void vt_pages_watch_later(struct vt_pages *pages)
{
	pages->later = false;
	pages->last = UINT64_MAX; /* the fast way to the last page does not look at its state */
}

/*
 * Fetches what is at addr into the processor's cache, if the page is there: an object that is known
 * now and looked at soon. The walk waits for memory more than for anything else.
 */
void vt_pages_prefetch(const struct vt_pages *pages, uint64_t addr);

/*
 * The same for the first n pages that were asked for, where a walk began, or SIZE_MAX. It looks
 * only at what was read, up to the first difference, and remembers nothing: short enough for a
 * process that stands still. False, too, when the time is over before all are looked at.
 */
bool vt_pages_first_changed(struct vt_pages *pages, size_t n, unsigned int threads,
			    uint64_t deadline_ns);

/* n bytes at addr; false: a page of them cannot be read. */
bool vt_pages_read(struct vt_pages *pages, uint64_t addr, void *buf, size_t n);

/* The word at addr, which is a multiple of 8. False: it cannot be read. */
static inline bool vt_pages_word(struct vt_pages *pages, uint64_t addr, uint64_t *word)
{
	const uint8_t *page;

	if (addr >> VT_HEAP_PAGE_SHIFT == pages->last)
		page = pages->last_data;
	else if (!(page = vt_pages_page(pages, addr >> VT_HEAP_PAGE_SHIFT)))
		return false;
	if (addr & 7) /* hostile: across the end of the page */
		return vt_pages_read(pages, addr, word, sizeof(*word));
	page += addr & (VT_HEAP_PAGE - 1);
	vt_pages_used(pages, page);
	memcpy(word, page, sizeof(*word));
	return true;
}

/* The same, 0 for what cannot be read: most readers treat both alike, as "points nowhere". */
static inline uint64_t vt_pages_u64(struct vt_pages *pages, uint64_t addr)
{
	uint64_t word;

	return vt_pages_word(pages, addr, &word) ? word : 0;
}

#endif
