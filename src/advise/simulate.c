/* SPDX-License-Identifier: Apache-2.0 */
#include "advise/simulate.h"

#define MIB (UINT64_C(1) << 20)
/*
 * Expandable segments map pages of these sizes (kSmallBuffer, kLargeBuffer of PyTorch 2.0 to 2.15),
 * and before a request fails they unmap each page without a block in use, whatever its stream.
 */
#define SMALL_PAGE (2 * MIB)
#define LARGE_PAGE (20 * MIB)
#define MIN_BLOCK 512
#define SMALL_SIZE MIB /* larger requests are of the large pool */
/* A block of less is in a segment of LARGE_PAGE with others; a larger one has its own, rounded. */
#define MIN_OWN_SEGMENT (10 * MIB)
#define ROUND_SEGMENT (2 * MIB)
/* PyTorch refuses a max_split_size_mb of less; larger ones than this keep nothing whole. */
#define MIN_SPLIT_MB 32
#define MAX_SPLIT_MB (64 * 1024)

/* Whole pages in a hole, wherever the first begins. */
static uint64_t pages_in(uint64_t hole, uint64_t page)
{
	return hole < page ? 0 : (hole - (page - MIN_BLOCK)) / page * page;
}

struct segment {
	uint64_t bytes, used_bytes, used_blocks, holes_bytes, holes, largest_hole, largest_used,
		page_bytes;
	/* What its blocks in use would take elsewhere: those with segments of their own, others. */
	uint64_t own_bytes, shared_bytes;
	bool private_pool, expandable, small;
};

/* Its blocks end before next; false: it has no memory. */
static bool read_segment(const struct vt_model *model, size_t first, size_t next, struct segment *s)
{
	const struct vt_block_rec *head = &model->blocks[first];

	*s = (struct segment){
		.private_pool = head->flags & VT_BLOCK_PRIVATE_POOL,
		.expandable = head->flags & VT_BLOCK_EXPANDABLE,
		.small = head->flags & VT_BLOCK_SMALL_POOL,
	};
	for (size_t i = first; i < next; i++) {
		const struct vt_block_rec *b = &model->blocks[i];

		if (b->state == VT_BLOCK_UNMAPPED)
			continue;
		s->bytes += b->size;
		if (b->state == VT_BLOCK_CACHED) {
			s->holes_bytes += b->size;
			s->holes++;
			s->page_bytes += pages_in(b->size, s->small ? SMALL_PAGE : LARGE_PAGE);
			s->largest_hole = b->size > s->largest_hole ? b->size : s->largest_hole;
			continue;
		}
		s->used_bytes += b->size;
		s->used_blocks++;
		if (b->size < MIN_OWN_SEGMENT)
			s->shared_bytes += b->size;
		else
			s->own_bytes +=
				(b->size + ROUND_SEGMENT - 1) / ROUND_SEGMENT * ROUND_SEGMENT;
		s->largest_used = b->size > s->largest_used ? b->size : s->largest_used;
	}
	return s->bytes > 0;
}

static void add_segment(struct vt_simulated *sum, const struct segment *s)
{
	sum->expandable |= s->expandable;
	if (s->private_pool || !s->holes)
		return;
	if (!s->used_blocks && !s->expandable) {
		sum->whole_bytes += s->bytes;
		sum->whole_segments++;
		return;
	}
	sum->whole_bytes += s->expandable ? s->page_bytes : 0;
	sum->hole_bytes += s->holes_bytes;
	sum->holes += s->holes;
	sum->pinning_bytes += s->used_bytes;
	sum->pinning_blocks += s->used_blocks;
	if (s->small)
		sum->small_page_bytes += s->page_bytes;
	else
		sum->large_page_bytes += s->page_bytes;
	if (s->largest_hole > sum->largest_hole)
		sum->largest_hole = s->largest_hole;
}

/*
 * With this setting no request of less than it takes a part of a larger segment. So a segment would
 * be whole, and given back before a request fails, that is larger and has no block in use which is
 * as large as that. What is in use there would be in other segments.
 */
static bool would_be_whole(const struct segment *s, uint64_t split)
{
	return !s->private_pool && !s->expandable && !s->small && s->used_blocks > 0 &&
	       s->holes > 0 && s->bytes > split && s->largest_used < split;
}

static bool try_split(const struct vt_model *model, const struct vt_model_allocator *a,
		      uint64_t split_mb, uint64_t missing, struct vt_simulated *ret)
{
	size_t end = a->first_block + a->n_blocks, next;
	uint64_t bytes = 0, elsewhere = 0, shared = 0, n = 0;
	struct segment s;

	for (size_t i = a->first_block; i < end; i = next) {
		next = vt_model_segment_end(model, i, end);
		if (!read_segment(model, i, next, &s) || !would_be_whole(&s, split_mb * MIB))
			continue;
		bytes += s.bytes;
		elsewhere += s.own_bytes;
		shared += s.shared_bytes;
		n++;
	}
	elsewhere += (shared + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
	bytes = bytes > elsewhere ? bytes - elsewhere : 0;
	if (bytes < missing || !n)
		return false;
	ret->split_mb = split_mb;
	ret->unsplit_bytes = bytes;
	ret->unsplit_segments = n;
	return true;
}

void vt_advise_simulate(const struct vt_model *model, const struct vt_model_allocator *a,
			uint64_t needed, uint64_t free_bytes, struct vt_simulated *ret)
{
	size_t end = a->first_block + a->n_blocks, next;
	uint64_t pages_needed = (needed + LARGE_PAGE - 1) / LARGE_PAGE;
	struct segment s;

	*ret = (struct vt_simulated){ 0 };
	for (size_t i = a->first_block; i < end; i = next) {
		next = vt_model_segment_end(model, i, end);
		if (read_segment(model, i, next, &s))
			add_segment(ret, &s);
	}
	ret->joined_bytes = (!needed || needed > SMALL_SIZE ? ret->large_page_bytes : 0) +
			    (needed <= SMALL_SIZE ? ret->small_page_bytes : 0);
	if (!needed || ret->expandable)
		return;
	/* A request of the small pool takes one small page: there would be others to join. */
	ret->pages_suffice = needed > SMALL_SIZE && ret->large_page_bytes / LARGE_PAGE +
								    free_bytes / LARGE_PAGE +
								    ret->whole_bytes / LARGE_PAGE >=
							    pages_needed;
	/* It helps requests that are larger than it. */
	for (uint64_t mb = MAX_SPLIT_MB; mb >= MIN_SPLIT_MB; mb /= 2)
		if (mb * MIB < needed &&
		    try_split(model, a, mb, needed > free_bytes ? needed - free_bytes : 0, ret))
			return;
}
