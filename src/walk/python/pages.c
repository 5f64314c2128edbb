/* SPDX-License-Identifier: Apache-2.0 */
#include "walk/python/pages.h"

#include <string.h>

#define EMPTY UINT64_C(1) /* no page begins there */
#define MAX_BAD_PAGES 4   /* that a prefetch leaves out before it gives up */
#define READ_AHEAD 4

static size_t set_of(uint64_t base)
{
	/*
	 * Stacks of threads lie at equal distances, powers of two: without mixing they would share
	 * few sets.
	 */
	return (size_t)(base / VT_PY_PAGE * UINT64_C(0x9e3779b97f4a7c15) >> 32) &
	       (VT_PY_PAGE_SETS - 1);
}

static const uint8_t *find_page(const struct vt_py_pages *pages, uint64_t base)
{
	size_t set = set_of(base);

	for (int way = 0; way < VT_PY_PAGE_WAYS; way++) {
		if (pages->base[set][way] == base)
			return pages->data[set][way];
	}
	return NULL;
}

/* A place for the page, which counts as present from now on: vacate() it if it cannot be filled. */
static uint8_t *claim(struct vt_py_pages *pages, uint64_t base)
{
	size_t set = set_of(base), way = pages->next[set]++ % VT_PY_PAGE_WAYS;

	pages->base[set][way] = base;
	return pages->data[set][way];
}

static void vacate(struct vt_py_pages *pages, const struct vt_memvec *vec)
{
	size_t set = set_of(vec->addr);

	for (int way = 0; way < VT_PY_PAGE_WAYS; way++) {
		if (pages->data[set][way] == vec->buf)
			pages->base[set][way] = EMPTY;
	}
}

void vt_py_pages_prefetch(struct vt_py_pages *pages, const uint64_t *addrs, size_t n)
{
	struct vt_memvec vec[VT_PY_PREFETCH_MAX];
	size_t n_vec = 0;
	int bad = 0;

	/* Pages that may never be needed are not worth a read. */
	if (pages->under->ops->direct)
		return;
	for (size_t i = 0; i < n && n_vec < VT_PY_PREFETCH_MAX; i++) {
		uint64_t base = addrs[i] & ~(uint64_t)(VT_PY_PAGE - 1);

		if (base && !find_page(pages, base))
			vec[n_vec++] = (struct vt_memvec){ base, claim(pages, base), VT_PY_PAGE };
	}
	/* Two pages of one prefetch may have got the same place: the later one keeps it. */
	for (size_t i = 0, kept = 0, all = n_vec; i < all; i++, n_vec = kept) {
		if (find_page(pages, vec[i].addr) == vec[i].buf)
			vec[kept++] = vec[i];
	}
	while (n_vec && vt_mem_readv(pages->under, vec, n_vec)) {
		size_t i = 0;

		while (i < n_vec && pages->under->fault_addr - vec[i].addr >= VT_PY_PAGE)
			i++;
		if (i == n_vec || ++bad > MAX_BAD_PAGES) {
			while (n_vec)
				vacate(pages, &vec[--n_vec]);
			return;
		}
		vacate(pages, &vec[i]);
		memmove(&vec[i], &vec[i + 1], (--n_vec - i) * sizeof(vec[0]));
	}
}

/* The page that begins at base, or NULL when it cannot be read as a whole. */
static const uint8_t *get_page(struct vt_py_pages *pages, uint64_t base)
{
	const uint8_t *page;

	/* It has memory of its own, and is asked for what is used only. */
	if (pages->under->ops->direct)
		return NULL;
	page = find_page(pages, base);
	if (page)
		return page;
	if (find_page(pages, base + VT_PY_PAGE)) {
		/*
		 * Frames of a thread lie above those of their callers (3.11+): deep recursion runs
		 * down through memory.
		 */
		uint64_t ahead[READ_AHEAD];

		for (uint64_t i = 0; i < READ_AHEAD; i++)
			ahead[i] = base - i * VT_PY_PAGE;
		vt_py_pages_prefetch(pages, ahead, READ_AHEAD);
	} else {
		vt_py_pages_prefetch(pages, &base, 1);
	}
	return find_page(pages, base);
}

static int pages_read(struct vt_memsrc *src, uint64_t addr, void *buf, size_t len)
{
	struct vt_py_pages *pages = (struct vt_py_pages *)(void *)src;
	uint8_t *out = buf;

	while (len) {
		size_t offset = addr % VT_PY_PAGE, n = VT_PY_PAGE - offset;
		const uint8_t *page = get_page(pages, addr - offset);

		if (n > len)
			n = len;
		if (page) {
			memcpy(out, page + offset, n);
		} else {
			/*
			 * A part of it may be present: segments of cores and of buffers end
			 * anywhere.
			 */
			int ret = vt_mem_read(pages->under, addr, out, n);

			if (ret) {
				src->fault_addr = pages->under->fault_addr;
				return ret;
			}
		}
		out += n;
		addr += n; /* may wrap: page 0 is never mapped */
		len -= n;
	}
	return 0;
}

void vt_py_pages_init(struct vt_py_pages *pages, struct vt_memsrc *under)
{
	static const struct vt_memsrc_ops ops = { .read = pages_read };

	pages->src = (struct vt_memsrc){ .ops = &ops, .coherent = under->coherent };
	pages->under = under;
	vt_py_pages_drop(pages);
}

void vt_py_pages_drop(struct vt_py_pages *pages)
{
	memset(pages->next, 0, sizeof(pages->next));
	for (size_t set = 0; set < VT_PY_PAGE_SETS; set++) {
		for (size_t way = 0; way < VT_PY_PAGE_WAYS; way++)
			pages->base[set][way] = EMPTY;
	}
}
