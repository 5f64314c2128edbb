/* SPDX-License-Identifier: Apache-2.0 */
#include "target/snapshot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "target/arch/native.h"

#define PAGE 4096u

/*
 * Size to try when maps does not know the stack (maps was read earlier); it is shrunk to what is
 * readable.
 */
#define UNKNOWN_STACK (64u * 1024)

/* A copied range. */
struct piece {
	uint64_t start;
	uint64_t end;
	const uint8_t *data;
};

struct vt_snapshot {
	struct vt_memsrc source; /* first, so that its address is ours */
	struct vt_live *live;    /* not owned */
	struct vt_memsrc *rest;  /* what is not in the copies: live's */
	struct vt_snapshot_limits limits;
	struct piece *pieces; /* sorted, disjoint */
	size_t n;
	uint8_t *data; /* address space for limits.total; memory appears as it is filled */
	size_t size;
	size_t cut; /* threads whose stack goes on behind the limit */
};

static struct vt_snapshot *snapshot_of(struct vt_memsrc *src)
{
	return (struct vt_snapshot *)(void *)((char *)src - offsetof(struct vt_snapshot, source));
}

/* The first piece that ends after addr; n when there is none. */
static size_t piece_at(const struct vt_snapshot *snapshot, uint64_t addr)
{
	size_t low = 0, high = snapshot->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (snapshot->pieces[mid].end <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static int read_snapshot(struct vt_memsrc *src, uint64_t addr, void *buf, size_t len)
{
	struct vt_snapshot *snapshot = snapshot_of(src);

	while (len > 0) {
		size_t i = piece_at(snapshot, addr);
		const struct piece *piece = i < snapshot->n ? &snapshot->pieces[i] : NULL;
		bool inside = piece && piece->start <= addr;
		uint64_t room = !piece ? len : inside ? piece->end - addr : piece->start - addr;
		size_t n = room < len ? (size_t)room : len;

		if (inside) {
			memcpy(buf, piece->data + (addr - piece->start), n);
		} else {
			int ret = vt_mem_read(snapshot->rest, addr, buf, n);

			if (ret) {
				src->fault_addr = snapshot->rest->fault_addr;
				return ret;
			}
		}
		addr += n;
		buf = (char *)buf + n;
		len -= n;
	}
	return 0;
}

static const void *direct_snapshot(struct vt_memsrc *src, uint64_t addr, size_t len)
{
	const struct vt_snapshot *snapshot = snapshot_of(src);
	size_t i = piece_at(snapshot, addr);

	if (i == snapshot->n || addr < snapshot->pieces[i].start ||
	    len > snapshot->pieces[i].end - addr)
		return NULL;
	return snapshot->pieces[i].data + (addr - snapshot->pieces[i].start);
}

static const struct vt_memsrc_ops snapshot_ops = { .read = read_snapshot,
						   .direct = direct_snapshot };

/* The part of one thread's stack to copy; an empty range when there is none. */
static struct piece wanted_of(const struct vt_maps *maps, uint64_t sp, size_t limit)
{
	const struct vt_map_entry *entry = vt_maps_find(maps, sp);
	/* Whole pages, so that no page has to be read again later. */
	struct piece piece = { .start = sp > VT_NATIVE->red_zone ?
						(sp - VT_NATIVE->red_zone) & ~(uint64_t)(PAGE - 1) :
						0 };
	uint64_t end = entry                           ? entry->end :
		       sp < UINT64_MAX - UNKNOWN_STACK ? sp + UNKNOWN_STACK :
							 sp;

	/*
	 * A mapping without read permission, or of a device, is not a stack, whatever the register
	 * says.
	 */
	if (entry && (!(entry->flags & VT_MAP_READ) || !strncmp(entry->path, "/dev/nvidia", 11)))
		end = piece.start;
	if (entry && piece.start < entry->start)
		piece.start = entry->start;
	piece.end = end > piece.start && end - piece.start > limit ? piece.start + limit : end;
	return piece;
}

static int compare_pieces(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

/*
 * Sorts, and joins those that overlap (threads on stacks of one mapping, alternate signal stacks).
 */
static size_t join(struct piece *pieces, size_t n)
{
	size_t kept = 0;

	if (n > 0)
		qsort(pieces, n, sizeof(*pieces), compare_pieces);
	for (size_t i = 0; i < n; i++) {
		if (pieces[i].end <= pieces[i].start)
			continue;
		if (kept > 0 && pieces[i].start <= pieces[kept - 1].end) {
			if (pieces[i].end > pieces[kept - 1].end)
				pieces[kept - 1].end = pieces[i].end;
			continue;
		}
		pieces[kept++] = pieces[i];
	}
	return kept;
}

static uint64_t sum(const struct piece *pieces, size_t n)
{
	uint64_t total = 0;

	for (size_t i = 0; i < n; i++)
		total += pieces[i].end - pieces[i].start;
	return total;
}

/*
 * The pieces of all threads whose stack pointer is known; *cut is set to the number of threads
 * whose stack is deeper than the limit.
 */
static size_t list_pieces(const struct vt_session *session, const struct vt_maps *maps,
			  size_t limit, struct piece *pieces, size_t *cut)
{
	size_t n = 0;

	*cut = 0;

	for (size_t i = 0; i < session->threads.n; i++) {
		const struct vt_session_thread *thread = &session->threads.data[i];

		if (!thread->stopped && !thread->sampled)
			continue;
		pieces[n] = wanted_of(maps, thread->regs.r[VT_NATIVE->abi.sp], limit);
		*cut += pieces[n].end - pieces[n].start == limit;
		n++;
	}
	return join(pieces, n);
}

/* The map may be older than the stacks: keeps the readable part from the start on. */
static void read_what_can_be(struct vt_memsrc *src, struct piece *piece)
{
	for (int tries = 0; tries < 4 && piece->end > piece->start; tries++) {
		size_t len = (size_t)(piece->end - piece->start);

		/* The data is ours; the pointer is const for the readers. */
		int ret = vt_mem_read(src, piece->start, (uint8_t *)(uintptr_t)piece->data, len);

		if (!ret)
			return;
		if (ret != -EFAULT || src->fault_addr <= piece->start ||
		    src->fault_addr >= piece->end)
			break;
		piece->end = src->fault_addr;
	}
	piece->end = piece->start;
}

/* Fills all pieces with as few system calls as possible: the target is stopped during this. */
static struct vt_error *copy_all(struct vt_snapshot *snapshot, struct vt_memsrc *src)
{
	VT_FREE struct vt_memvec *vec = calloc(snapshot->n + 1, sizeof(*vec));
	size_t kept = 0;
	int ret;

	if (!vec)
		return &vt_enomem;
	for (size_t i = 0; i < snapshot->n; i++) {
		const struct piece *piece = &snapshot->pieces[i];

		vec[i].addr = piece->start;
		vec[i].buf = (uint8_t *)(uintptr_t)piece->data;
		vec[i].len = (size_t)(piece->end - piece->start);
	}
	ret = vt_mem_readv(src, vec, snapshot->n);
	if (!ret)
		return NULL;
	if (ret != -EFAULT)
		return vt_mem_error(src, ret, "the stacks");
	for (size_t i = 0; i < snapshot->n; i++) {
		read_what_can_be(src, &snapshot->pieces[i]);
		if (snapshot->pieces[i].end > snapshot->pieces[i].start)
			snapshot->pieces[kept++] = snapshot->pieces[i];
	}
	snapshot->n = kept;
	return NULL;
}

struct vt_error *vt_snapshot_take(struct vt_snapshot *snapshot, const struct vt_session *session,
				  const struct vt_maps *maps)
{
	size_t n_threads = session->threads.n;
	const struct vt_snapshot_limits *limits = &snapshot->limits;
	uint64_t at = 0;

	snapshot->pieces = calloc(n_threads + 1, sizeof(*snapshot->pieces));
	if (!snapshot->pieces)
		return &vt_enomem;
	snapshot->n =
		list_pieces(session, maps, limits->per_thread, snapshot->pieces, &snapshot->cut);
	/*
	 * Too much in total: the same smaller limit for all threads, so that none loses the top of
	 * its stack.
	 */
	if (sum(snapshot->pieces, snapshot->n) > limits->total)
		snapshot->n = list_pieces(session, maps, limits->total / n_threads,
					  snapshot->pieces, &snapshot->cut);
	for (size_t i = 0; i < snapshot->n; i++) {
		snapshot->pieces[i].data = snapshot->data + at;
		at += snapshot->pieces[i].end - snapshot->pieces[i].start;
	}

	struct vt_error *err = copy_all(snapshot, vt_live_source(snapshot->live));

	if (err)
		snapshot->n = 0;
	return err;
}

size_t vt_snapshot_stack_size(const struct vt_maps *maps, uint64_t sp,
			      const struct vt_snapshot_limits *limits)
{
	struct piece piece = wanted_of(maps, sp, limits->per_thread);

	return piece.end > piece.start ? (size_t)(piece.end - piece.start) : 0;
}

struct vt_error *vt_snapshot_create(struct vt_live *live, const struct vt_snapshot_limits *limits,
				    size_t expect, struct vt_snapshot **ret)
{
	struct vt_snapshot *snapshot = calloc(1, sizeof(*snapshot));
	size_t size = limits->total + 1; /* not 0, which mmap() refuses */
	void *data = mmap(NULL, size, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (!snapshot || data == MAP_FAILED) {
		if (data != MAP_FAILED)
			munmap(data, size);
		free(snapshot);
		return &vt_enomem;
	}
	*snapshot = (struct vt_snapshot){
		.source.ops = &snapshot_ops,
		.live = live,
		.rest = vt_live_cached_source(live),
		.limits = *limits,
		.data = data,
		.size = size,
	};
	/* Not MAP_POPULATE: that would be for all of it. */
	for (size_t at = 0; at < expect && at < limits->total; at += PAGE)
		((volatile uint8_t *)data)[at] = 0;
	*ret = snapshot;
	return NULL;
}

void vt_snapshot_destroy(struct vt_snapshot *snapshot)
{
	if (!snapshot)
		return;
	munmap(snapshot->data, snapshot->size);
	free(snapshot->pieces);
	free(snapshot);
}

size_t vt_snapshot_cut_threads(const struct vt_snapshot *snapshot)
{
	return snapshot->cut;
}

struct vt_memsrc *vt_snapshot_source(struct vt_snapshot *snapshot)
{
	return &snapshot->source;
}
