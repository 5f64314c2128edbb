/* SPDX-License-Identifier: Apache-2.0 */
#include "target/replay.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/map.h"

#define PAGE 4096u
#define MAX_BAD 8 /* pieces that one bulk read leaves out before it gives up */
#define NOWHERE UINT64_MAX

struct vt_replay {
	struct vt_memsrc source; /* first, so that its address is ours */
	struct vt_memsrc *under;
	/* address of a page → its place in data, NOWHERE for one that could not be read */
	struct vt_map slots;
	uint64_t *pages; /* the address of each place */
	uint8_t *data;   /* address space for all; memory appears as it is filled */
	size_t n, max;
	struct vt_memvec *pieces; /* room for a refresh: pages, neighbours joined */
	struct vt_memsrc *copies; /* NULL none; see vt_replay_refresh() */
};

static struct vt_replay *replay_of(struct vt_memsrc *src)
{
	return (struct vt_replay *)(void *)((char *)src - offsetof(struct vt_replay, source));
}

static const uint8_t *find_page(const struct vt_replay *replay, uint64_t page)
{
	const uint8_t *copy = replay->copies ? vt_mem_direct(replay->copies, page, PAGE) : NULL;
	const uint64_t *slot = copy ? NULL : vt_map_get(&replay->slots, page);

	if (copy)
		return copy;
	return slot && *slot != NOWHERE ? replay->data + *slot * PAGE : NULL;
}

/* Pages of this piece are unknown: read_under() has to read them. */
static void forget_pages(struct vt_replay *replay, const struct vt_memvec *piece)
{
	for (size_t at = 0; at < piece->len; at += PAGE) {
		uint64_t *slot = vt_map_get(&replay->slots, piece->addr + at);

		if (slot)
			*slot = NOWHERE;
	}
}

/* Reads pieces, whose pages all have a place, in one go. */
static void fill(struct vt_replay *replay, struct vt_memvec *vec, size_t count)
{
	for (int bad = 0; count > 0 && vt_mem_readv(replay->under, vec, count); bad++) {
		size_t i = 0;

		while (i < count && replay->under->fault_addr - vec[i].addr >= vec[i].len)
			i++;
		if (i == count || bad == MAX_BAD) {
			while (count > 0)
				forget_pages(replay, &vec[--count]);
			return;
		}
		/* Reads the others again: it is unknown which were filled (see vt_memsrc_ops). */
		forget_pages(replay, &vec[i]);
		memmove(vec + i, vec + i + 1, (--count - i) * sizeof(*vec));
	}
}

/* Gives a new page a place; false when no place is left, or the page is known already. */
static bool claim(struct vt_replay *replay, uint64_t page, struct vt_memvec *vec)
{
	size_t slot = replay->n;

	if (slot == replay->max || vt_map_get(&replay->slots, page) ||
	    !vt_map_put(&replay->slots, page, slot))
		return false;
	replay->pages[slot] = page;
	replay->n++;
	*vec = (struct vt_memvec){ .addr = page, .buf = replay->data + slot * PAGE, .len = PAGE };
	return true;
}

/* From under, with its failure carried over. */
static int read_under(struct vt_replay *replay, uint64_t addr, void *buf, size_t len)
{
	int ret = vt_mem_read(replay->under, addr, buf, len);

	if (ret)
		replay->source.fault_addr = replay->under->fault_addr;
	return ret;
}

static int read_replay(struct vt_memsrc *src, uint64_t addr, void *buf, size_t len)
{
	struct vt_replay *replay = replay_of(src);

	while (len > 0) {
		uint64_t page = addr & ~(uint64_t)(PAGE - 1);
		size_t at = (size_t)(addr - page);
		size_t n = len < PAGE - at ? len : PAGE - at;
		const uint8_t *data = find_page(replay, page);
		struct vt_memvec vec;

		if (!data && claim(replay, page, &vec)) {
			fill(replay, &vec, 1);
			data = find_page(replay, page);
		}
		if (data) {
			memcpy(buf, data + at, n);
		} else {
			int ret = read_under(replay, addr, buf, n);

			if (ret)
				return ret;
		}
		addr += n; /* may wrap: page 0 is never mapped */
		buf = (char *)buf + n;
		len -= n;
	}
	return 0;
}

static const void *direct_replay(struct vt_memsrc *src, uint64_t addr, size_t len)
{
	uint64_t at = addr % PAGE;
	const uint8_t *data = len <= PAGE - at ? find_page(replay_of(src), addr - at) : NULL;

	return data ? data + at : NULL;
}

static int compare_pages(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

void vt_replay_arrange(struct vt_replay *replay)
{
	size_t kept = 0;

	for (size_t i = 0; i < replay->n; i++)
		if (find_page(replay, replay->pages[i]))
			replay->pages[kept++] = replay->pages[i];
	replay->n = kept;
	if (kept > 0)
		qsort(replay->pages, kept, sizeof(*replay->pages), compare_pages);
	for (size_t i = 0; i < kept; i++)
		*vt_map_get(&replay->slots, replay->pages[i]) = i;
}

void vt_replay_refresh(struct vt_replay *replay, struct vt_memsrc *copies)
{
	size_t n = 0;

	replay->copies = copies;
	for (size_t i = 0; i < replay->n; i++) {
		uint64_t page = replay->pages[i];
		struct vt_memvec *last = n ? &replay->pieces[n - 1] : NULL;

		if (copies && vt_mem_direct(copies, page, PAGE))
			continue;
		if (last && last->addr + last->len == page)
			last->len += PAGE; /* sorted, so their places are neighbours too */
		else
			replay->pieces[n++] = (struct vt_memvec){ .addr = page,
								  .buf = replay->data + i * PAGE,
								  .len = PAGE };
	}
	fill(replay, replay->pieces, n);
}

static const struct vt_memsrc_ops ops = { .read = read_replay, .direct = direct_replay };

struct vt_error *vt_replay_create(struct vt_memsrc *under, size_t max_pages, struct vt_replay **ret)
{
	struct vt_replay *replay = calloc(1, sizeof(*replay));
	void *data;

	if (!replay)
		return &vt_enomem;
	replay->source.ops = &ops;
	replay->under = under;
	replay->max = max_pages;
	replay->pages = calloc(max_pages, sizeof(*replay->pages));
	replay->pieces = calloc(max_pages, sizeof(*replay->pieces));
	data = mmap(NULL, max_pages * PAGE, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (data != MAP_FAILED)
		replay->data = data;
	if (!replay->pages || !replay->pieces || !replay->data) {
		vt_replay_destroy(replay);
		return &vt_enomem;
	}
	*ret = replay;
	return NULL;
}

void vt_replay_destroy(struct vt_replay *replay)
{
	if (!replay)
		return;
	if (replay->data)
		munmap(replay->data, replay->max * PAGE);
	vt_map_deinit(&replay->slots);
	free(replay->pages);
	free(replay->pieces);
	free(replay);
}

struct vt_memsrc *vt_replay_source(struct vt_replay *replay)
{
	return &replay->source;
}
