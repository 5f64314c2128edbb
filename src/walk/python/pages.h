/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A memory source that reads whole pages of another source and caches some of them. A capture needs
 * a few pages of each thread: its state, its frames, the top of its stack. A prefetch gets them
 * together, in one read for many threads.
 */
#ifndef VT_WALK_PYTHON_PAGES_H
#define VT_WALK_PYTHON_PAGES_H

#include "vramtap/mem.h"

enum {
	VT_PY_PAGE = 4096,
	VT_PY_PAGE_SETS = 128, /* a power of two */
	VT_PY_PAGE_WAYS = 4,
	VT_PY_PREFETCH_MAX = 256, /* pages per prefetch */
};

struct vt_py_pages {
	struct vt_memsrc src; /* must be first: readers get a pointer to it */
	struct vt_memsrc *under;
	uint64_t base[VT_PY_PAGE_SETS][VT_PY_PAGE_WAYS]; /* address of the page */
	uint8_t next[VT_PY_PAGE_SETS];                   /* the way to replace next */
	uint8_t data[VT_PY_PAGE_SETS][VT_PY_PAGE_WAYS][VT_PY_PAGE];
};

void vt_py_pages_init(struct vt_py_pages *pages, struct vt_memsrc *under);

/* Drops all pages, because the target ran. */
void vt_py_pages_drop(struct vt_py_pages *pages);

/*
 * Reads the pages of n addresses at once (address 0: skipped). It is a hint and cannot fail: it
 * skips unreadable pages.
 */
void vt_py_pages_prefetch(struct vt_py_pages *pages, const uint64_t *addrs, size_t n);

#endif
