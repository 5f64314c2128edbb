/* SPDX-License-Identifier: Apache-2.0 */
/* Reading many objects of one length. */
#include "walk/torch/walk_state.h"

#define PAGE UINT64_C(4096)

static bool each_direct(struct vt_torch_walk *w, const uint64_t *addrs, uint64_t n,
			unsigned int len, vt_torch_object_fn fn)
{
	uint8_t copy[BLOCK_MAX];

	for (uint64_t i = 0; i < n; i++) {
		const uint8_t *bytes;

		if (i + AHEAD < n) { /* a prefetch of a bad address does nothing */
			uint64_t next = addrs[i + AHEAD];

			for (unsigned int line = 0; line < len; line += 64)
				__builtin_prefetch((const void *)(uintptr_t)(next + line));
			/* objects are not aligned to lines */
			__builtin_prefetch((const void *)(uintptr_t)(next + len - 1));
		}
		if (!vt_torch_walk_in_time(w, i + 1))
			return false;
		bytes = vt_is_object(addrs[i]) ? vt_mem_direct(w->src, addrs[i], len) : NULL;
		if (!bytes && vt_is_object(addrs[i]) && !vt_mem_read(w->src, addrs[i], copy, len))
			bytes = copy;
		if (!fn(w, addrs[i], bytes))
			return false;
	}
	return true;
}

/*
 * The objects of places [from, to), whose bytes are at chunk (NULL: read each by itself, the piece
 * had a hole).
 */
static bool each_of_piece(struct vt_torch_walk *w, const uint64_t *addrs, uint64_t from,
			  uint64_t to, const uint8_t *chunk, unsigned int len,
			  vt_torch_object_fn fn)
{
	uint64_t base = addrs[vt_torch_walk_index_at(w, from)];
	uint8_t copy[BLOCK_MAX];

	for (uint64_t i = from; i < to; i++) {
		uint64_t addr = addrs[vt_torch_walk_index_at(w, i)];
		const uint8_t *bytes = NULL;

		if (!vt_torch_walk_in_time(w, i + 1))
			return false;
		if (chunk && vt_is_object(addr))
			bytes = chunk + (addr - base);
		else if (vt_is_object(addr) && !vt_mem_read(w->src, addr, copy, len))
			bytes = copy;
		if (!fn(w, addr, bytes))
			return false;
	}
	return true;
}

/*
 * Reads with copies: objects come from the same heap, so they are read in order of address and in
 * runs of whole neighbourhoods (a run never contains a page without an object), many runs a call.
 */
static bool each_copied(struct vt_torch_walk *w, const uint64_t *addrs, uint64_t n,
			unsigned int len, vt_torch_object_fn fn)
{
	struct fixed *f = w->fixed;
	uint64_t at = 0;

	vt_torch_walk_order_by(w, addrs, n);
	while (at < n) {
		uint64_t used = 0, first = at;
		size_t pieces = 0;
		bool whole;

		while (at < n && pieces < PIECES && used + len <= w->chunk_size) {
			uint64_t start = addrs[vt_torch_walk_index_at(w, at)], end = start + len;

			for (at++; at < n; at++) {
				uint64_t next = addrs[vt_torch_walk_index_at(w, at)];

				if (next / PAGE > (end - 1) / PAGE + 1 ||
				    next + len - start > w->chunk_size - used)
					break;
				if (next + len > end)
					end = next + len;
			}
			f->vec[pieces] = (struct vt_memvec){ .addr = start,
							     .buf = w->chunk + used,
							     .len = end - start };
			f->piece_end[pieces++] = at;
			used += end - start;
		}
		whole = !vt_mem_readv(w->src, f->vec, pieces);
		for (size_t i = 0; i < pieces; i++) {
			const struct vt_memvec *vec = &f->vec[i];
			bool good = whole || !vt_mem_read(w->src, vec->addr, vec->buf, vec->len);

			if (!each_of_piece(w, addrs, first, f->piece_end[i], good ? vec->buf : NULL,
					   len, fn))
				return false;
			first = f->piece_end[i];
		}
	}
	return true;
}

bool vt_torch_walk_each_object(struct vt_torch_walk *w, const uint64_t *addrs, uint64_t n,
			       unsigned int len, vt_torch_object_fn fn)
{
	return (w->src->ops->direct ? each_direct : each_copied)(w, addrs, n, len, fn);
}
