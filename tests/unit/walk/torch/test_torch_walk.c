/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allocator walk on synthetic allocators of every known shape, whole, damaged, and changing
 * while they are read.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "unit/walk/torch/torch_image.h"
#include "walk/torch/torch.h"
#include "walk/torch/abi.h"

#define BLOCKS 700
#define MAX_RECS 4096

/* ---- walking an image ---- */

struct walked {
	struct vt_torch_device_result result;
	struct vt_block_rec recs[MAX_RECS];
};

struct sink {
	struct vt_torch_sink base;
	struct vt_block_rec *recs;
	uint64_t capacity;
};

static struct vt_block_rec *reserve(struct vt_torch_sink *base, uint64_t n)
{
	struct sink *sink = (struct sink *)base;

	return n <= sink->capacity ? sink->recs : NULL;
}

static const struct vt_torch_walk_limits no_limits = { .max_blocks = MAX_RECS,
						       .deadline_ns = UINT64_MAX,
						       .now_ns = vt_now_ns };

static void walk_with(struct image *image, int device, const struct vt_torch_layout *layout,
		      const struct vt_torch_walk_limits *limits, uint64_t scratch_blocks,
		      uint64_t sink_blocks, uint8_t lock, struct walked *walked)
{
	/* exactly as much as asked for, so that a sanitizer sees a byte too many */
	struct vt_torch_scratch scratch = { .size = vt_torch_scratch_size(scratch_blocks) };
	struct sink sink = { .base.reserve = reserve,
			     .recs = walked->recs,
			     .capacity = sink_blocks };

	scratch.base = malloc(scratch.size);
	memset(scratch.base, 0xa5, scratch.size);
	memset(walked, 0, sizeof(*walked));
	walked->result.lock = lock;
	vt_torch_walk_device(&image->src, layout, image->dcas[device], device, limits, &scratch,
			     &sink.base, &walked->result);
	free(scratch.base);
}

static void walk(struct image *image, int device, struct walked *walked)
{
	struct vt_torch_layout layout;

	image_layout(image, &layout);
	walk_with(image, device, &layout, &no_limits, BLOCKS + 50, MAX_RECS, VT_LOCK_NONE, walked);
}

static int by_addr(const void *a, const void *b)
{
	const struct vt_block_rec *x = *(const struct vt_block_rec *const *)a,
				  *y = *(const struct vt_block_rec *const *)b;

	return (x->addr > y->addr) - (x->addr < y->addr);
}

/* The expected records of a device, sorted by address; returns how many. */
static size_t expected(const struct image *image, int device, const struct vt_block_rec **recs)
{
	size_t n = 0;

	for (size_t i = 0; i < image->n_blocks; i++) {
		if (image->blocks[i].rec.device == device)
			recs[n++] = &image->blocks[i].rec;
	}
	qsort(recs, n, sizeof(*recs), by_addr);
	return n;
}

static void assert_same(const struct image *image, int device, const struct walked *walked)
{
	const struct vt_block_rec *recs[MAX_RECS];
	size_t n = expected(image, device, recs);
	uint64_t bytes[4] = { 0 };

	assert_string_equal(walked->result.why, "");
	assert_int_equal(walked->result.result, VT_WALK_COMPLETE);
	assert_int_equal(walked->result.blocks, n);
	assert_int_equal(walked->result.dropped, 0);
	assert_int_equal(walked->result.device, device);
	assert_int_equal(walked->result.allocator, image->dcas[device]);
	assert_int_equal(walked->result.segments, image->n_expected_segments[device]);
	for (size_t i = 0; i < n; i++) {
		assert_memory_equal(&walked->recs[i], recs[i], sizeof(*recs[i]));
		bytes[recs[i]->state] += recs[i]->size;
	}
	assert_memory_equal(walked->result.bytes, bytes, sizeof(bytes));
	assert_true(walked->result.have_stats);
	assert_int_equal(walked->result.stats.allocated_bytes.current, bytes[VT_BLOCK_ALLOCATED]);
	assert_int_equal(walked->result.stats.num_alloc_retries, 3);
	assert_int_equal(walked->result.stats.num_ooms, 2);
}

/* What came out is at least true: every record is one of the target's blocks. */
static void assert_subset(const struct image *image, int device, const struct walked *walked)
{
	const struct vt_block_rec *recs[MAX_RECS];
	size_t n = expected(image, device, recs), at = 0;

	for (uint64_t i = 0; i < walked->result.blocks; i++) {
		while (at < n && recs[at]->addr < walked->recs[i].addr)
			at++;
		assert_true(at < n);
		assert_int_equal(walked->recs[i].addr, recs[at]->addr);
		assert_int_equal(walked->recs[i].size, recs[at]->size);
	}
}

/* ---- whole ones ---- */

static void test_every_release(void **state)
{
	static struct walked walked;

	(void)state;
	for (int release = 0; release < IMAGE_RELEASES; release++) {
		for (int direct = 0; direct < 2; direct++) {
			struct image image;
			struct vt_torch_layout layout;

			image_init(&image, (enum image_release)release, 3, BLOCKS, direct);
			image_fill(&image, (uint64_t)release + 1, BLOCKS, 5);
			image_finish(&image);
			image_layout(&image, &layout);
			for (int device = 0; device < 3; device++) {
				const struct vt_block_rec *recs[MAX_RECS];

				assert_int_equal(vt_torch_count_blocks(&image.src, &layout,
								       image.dcas[device]),
						 expected(&image, device, recs));
				walk(&image, device, &walked);
				assert_same(&image, device, &walked);
			}
			image_deinit(&image);
		}
	}
}

static void test_empty(void **state)
{
	static struct walked walked;
	struct image image;
	uint64_t dcas[VT_TORCH_MAX_DEVICES];
	struct vt_torch_layout layout;

	(void)state;
	image_init(&image, IMAGE_2_11, 2, 1, true);
	image_finish(&image);
	image_layout(&image, &layout);
	assert_int_equal(vt_torch_devices(&image.src, &layout, image.allocator, dcas), 2);
	assert_memory_equal(dcas, image.dcas, 2 * sizeof(*dcas));
	walk(&image, 1, &walked);
	assert_int_equal(walked.result.result, VT_WALK_COMPLETE);
	assert_int_equal(walked.result.blocks, 0);
	assert_int_equal(walked.result.segments, 0);
	/* a device whose allocator another thread is just making */
	image_poke64(&image, image_peek64(&image, image.allocator + layout.device_vector) + 8, 0);
	assert_int_equal(vt_torch_devices(&image.src, &layout, image.allocator, dcas), -1);
	image_deinit(&image);
}

/*
 * The offset of the large pool in a PrivatePool is not always known; graph_pools may not be known
 * at all.
 */
static void test_private_pools(void **state)
{
	static struct walked walked;
	struct image image;
	struct vt_torch_layout layout;

	(void)state;
	image_init(&image, IMAGE_2_14, 1, BLOCKS, false);
	image_fill(&image, 5, BLOCKS, 12);
	image_finish(&image);
	image_layout(&image, &layout);
	layout.private_large = VT_TORCH_NO_FIELD;
	walk_with(&image, 0, &layout, &no_limits, BLOCKS, BLOCKS, VT_LOCK_NONE, &walked);
	assert_same(&image, 0, &walked);
	/*
	 * without graph_pools, pools with a live block are found through it, and the rest is
	 * noticed by the sums
	 */
	layout.graph_pools = VT_TORCH_NO_FIELD;
	walk_with(&image, 0, &layout, &no_limits, BLOCKS, BLOCKS, VT_LOCK_NONE, &walked);
	if (walked.result.result == VT_WALK_COMPLETE)
		assert_int_equal(walked.result.blocks, BLOCKS);
	else
		assert_int_equal(walked.result.result, VT_WALK_REFUSED);
	image_deinit(&image);
}

/*
 * Cached blocks of a private pool that nothing leads to: the allocator's own sum shows that they
 * are missing.
 */
static void test_hidden_private_pool(void **state)
{
	static const struct image_spec cached[] = { { 2 << 20, 0, VT_BLOCK_CACHED } };
	static const struct image_spec live[] = { { 2 << 20, 100, VT_BLOCK_ALLOCATED } };
	static struct walked walked;
	struct image image;
	struct vt_torch_layout layout;

	(void)state;
	image_init(&image, IMAGE_2_6, 1, 16, true);
	image_add_segment(&image, 0, 0x7f0000000000, 0, false, live, 1);
	image_add_segment(&image, image_add_private(&image, 0, 7, 0), 0x7f1000000000, 0, false,
			  cached, 1);
	image_finish(&image);
	image_layout(&image, &layout);
	walk_with(&image, 0, &layout, &no_limits, 16, 16, VT_LOCK_NONE, &walked);
	assert_same(&image, 0, &walked);
	assert_int_equal(walked.recs[1].pool, UINT64_C(7) << 32);
	layout.graph_pools = VT_TORCH_NO_FIELD;
	walk_with(&image, 0, &layout, &no_limits, 16, 16, VT_LOCK_NONE, &walked);
	assert_int_equal(walked.result.result, VT_WALK_REFUSED);
	assert_non_null(strstr(walked.result.why, "in the statistics"));
	assert_int_equal(walked.result.blocks, 0);
	assert_false(walked.result.have_stats);
	image_deinit(&image);
}

/* An allocator of a private pool may hand out any size (2.15: managed pools do not round). */
static void test_odd_sizes_in_private_pools(void **state)
{
	static const struct image_spec odd[] = { { 1000, 1000, VT_BLOCK_ALLOCATED } };
	static struct walked walked;
	struct image image;

	(void)state;
	for (int private_pool = 0; private_pool < 2; private_pool++) {
		int pool = 0;

		image_init(&image, IMAGE_2_15, 1, 16, true);
		if (private_pool)
			pool = image_add_private(&image, 0, 0, 3);
		image_add_segment(&image, pool, 0x7f0000000100, 0, false, odd, 1);
		image_finish(&image);
		walk(&image, 0, &walked);
		assert_int_equal(walked.result.result,
				 private_pool ? VT_WALK_COMPLETE : VT_WALK_REFUSED);
		image_deinit(&image);
	}
}

/*
 * Addresses whose lowest and highest bits differ: together with the index of the block they fit no
 * single sort key, so that ordering takes a second round.
 */
static void test_addresses_far_apart(void **state)
{
	static struct walked walked;
	struct image image;
	uint64_t seed = 1;

	(void)state;
	for (int direct = 0; direct < 2; direct++) {
		int pool;

		image_init(&image, IMAGE_2_15, 1, BLOCKS, direct);
		pool = image_add_private(&image, 0, 0, 3);
		for (uint64_t i = 0; i < BLOCKS; i++) {
			uint64_t size = 1 + i % 7;

			seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
			image_add_segment(&image, pool,
					  ((seed >> 9) & ~UINT64_C(0xffff)) | (8 * i + i % 2), 0,
					  false,
					  &(struct image_spec){ size, size, VT_BLOCK_ALLOCATED },
					  1);
		}
		image_finish(&image);
		walk(&image, 0, &walked);
		assert_same(&image, 0, &walked);
		image_deinit(&image);
	}
}

/* Expandable segments: each run of mapped blocks is a segment, what is unmapped stands alone. */
static void test_unmapped_ends_a_segment(void **state)
{
	static const struct image_spec specs[] = {
		{ 2 << 20, 0, VT_BLOCK_UNMAPPED },      { 1 << 20, 1 << 20, VT_BLOCK_ALLOCATED },
		{ 1 << 20, 0, VT_BLOCK_CACHED },        { 4 << 20, 0, VT_BLOCK_UNMAPPED },
		{ 2 << 20, 5, VT_BLOCK_AWAITING_FREE }, { 64 << 20, 0, VT_BLOCK_UNMAPPED },
	};
	static const uint8_t starts[] = { 1, 1, 0, 1, 1, 1 };
	static struct walked walked;
	struct image image;

	(void)state;
	image_init(&image, IMAGE_2_11, 1, 16, false);
	image_add_segment(&image, 0, 0x7f0000000000, 0x55, true, specs, 6);
	image_finish(&image);
	walk(&image, 0, &walked);
	assert_same(&image, 0, &walked);
	assert_int_equal(walked.result.segments, 2);
	for (int i = 0; i < 6; i++)
		assert_int_equal(!!(walked.recs[i].flags & VT_BLOCK_SEGMENT_START), starts[i]);
	image_deinit(&image);
}

/* ---- damaged ones ---- */

/* The first block of device 0's default pools in this state; with_next: that has a next one. */
static size_t block_in(const struct image *image, uint8_t state, bool with_next)
{
	const uint16_t next = 104; /* of a Block in 2.11 */

	for (size_t i = 0; i < image->n_blocks; i++) {
		if (image->blocks[i].pool < 2 && image->blocks[i].rec.state == state &&
		    (!with_next || image_peek64(image, image_block_field(image, i, next))))
			return i;
	}
	fail();
	return 0;
}

static struct vt_torch_layout layout_2_11(const struct image *image)
{
	struct vt_torch_layout layout;

	image_layout(image, &layout);
	return layout;
}

/* A block's field in 2.11, as add() or set() to it. */
static void add_to(struct image *image, uint8_t state, uint16_t field, uint64_t by)
{
	uint64_t at = image_block_field(image, block_in(image, state, false), field);

	image_poke64(image, at, image_peek64(image, at) + by);
}

static void set_field(struct image *image, uint8_t state, uint16_t field, uint64_t to)
{
	image_poke64(image, image_block_field(image, block_in(image, state, true), field), to);
}

static void set_byte(struct image *image, uint8_t state, uint16_t field, uint8_t to)
{
	*(uint8_t *)(uintptr_t)image_block_field(image, block_in(image, state, false), field) = to;
}

#define B(field) (layout_2_11(image).block.field)
#define DCA(field) (image->dcas[0] + layout_2_11(image).field)

static void odd_size(struct image *image)
{
	add_to(image, VT_BLOCK_CACHED, B(size), 1);
}

static void no_size(struct image *image)
{
	set_field(image, VT_BLOCK_ALLOCATED, B(size), 0);
}

static void huge_size(struct image *image)
{
	set_field(image, VT_BLOCK_ALLOCATED, B(size), UINT64_MAX - 511);
}

static void moved(struct image *image)
{
	add_to(image, VT_BLOCK_ALLOCATED, B(ptr), 512);
}

static void moved_far(struct image *image)
{
	add_to(image, VT_BLOCK_ALLOCATED, B(ptr), UINT64_C(1) << 45);
}

static void no_address(struct image *image)
{
	set_field(image, VT_BLOCK_ALLOCATED, B(ptr), 0);
}

static void next_to_self(struct image *image)
{
	set_field(image, VT_BLOCK_ALLOCATED, B(next),
		  image->blocks[block_in(image, VT_BLOCK_ALLOCATED, true)].object);
}

static void next_wild(struct image *image)
{
	set_field(image, VT_BLOCK_ALLOCATED, B(next), 0xdeadbee8);
}

static void next_cut(struct image *image)
{
	set_field(image, VT_BLOCK_ALLOCATED, B(next), 0);
}

static void prev_wild(struct image *image)
{
	set_field(image, VT_BLOCK_ALLOCATED, B(prev), 0xdeadbee8);
}

static void pool_wild(struct image *image)
{
	set_field(image, VT_BLOCK_ALLOCATED, B(pool), 0xdeadbee8);
}

static void pool_other(struct image *image)
{
	set_field(image, VT_BLOCK_CACHED, B(pool), image->pools[3].addr);
}

static void pool_swapped(struct image *image)
{
	size_t i = block_in(image, VT_BLOCK_ALLOCATED, true);

	image_poke64(image, image_block_field(image, i, B(pool)),
		     image->pools[image->blocks[i].pool ^ 1].addr);
}

static void device_wrong(struct image *image)
{
	set_byte(image, VT_BLOCK_ALLOCATED, B(device), 1);
}

static void flag_wrong(struct image *image)
{
	set_byte(image, VT_BLOCK_ALLOCATED, B(allocated), 2);
}

static void active_unmapped(struct image *image)
{
	set_byte(image, VT_BLOCK_ALLOCATED, B(mapped), 0);
}

static void cached_allocated(struct image *image)
{
	set_byte(image, VT_BLOCK_CACHED, B(allocated), 1);
}

static void cached_with_event(struct image *image)
{
	set_byte(image, VT_BLOCK_CACHED, B(event_count), 1);
}

static void cached_in_use(struct image *image)
{
	add_to(image, VT_BLOCK_CACHED, B(stream_uses) + 24, 1);
}

static void events_negative(struct image *image)
{
	set_byte(image, VT_BLOCK_ALLOCATED, B(event_count) + 3, 0x80);
}

static void asked_for_more(struct image *image)
{
	add_to(image, VT_BLOCK_ALLOCATED, B(requested_size), 1 << 20);
}

static void active_more(struct image *image)
{
	image_poke64(image, DCA(active_blocks) + 24,
		     image_peek64(image, DCA(active_blocks) + 24) + 1);
}

static void active_less(struct image *image)
{
	image_poke64(image, DCA(active_blocks) + 24,
		     image_peek64(image, DCA(active_blocks) + 24) - 1);
}

static void active_absurd(struct image *image)
{
	image_poke64(image, DCA(active_blocks) + 8, (UINT64_C(1) << 40) - 1);
}

static void active_gone(struct image *image)
{
	image_poke64(image, DCA(active_blocks), 0x123450);
}

static void active_mask(struct image *image)
{
	image_poke64(image, DCA(active_blocks) + 8, 1000);
}

/* The first used slot of active_blocks. */
static uint64_t used_slot(struct image *image)
{
	uint64_t at = image_peek64(image, DCA(active_blocks));

	while ((int8_t)image_peek64(image, at) < 0)
		at += 16;
	return at;
}

static void object_wild(struct image *image)
{
	image_poke64(image, used_slot(image) + 8, 0x123450);
}

static void object_odd(struct image *image)
{
	image_poke64(image, used_slot(image) + 8, image_peek64(image, used_slot(image) + 8) + 1);
}

static void object_at_end(struct image *image)
{
	image_poke64(image, used_slot(image) + 8,
		     (uint64_t)(uintptr_t)image->base + image->size - 16);
}

static void object_twice(struct image *image)
{
	uint64_t at = used_slot(image), other = at + 16;

	while ((int8_t)image_peek64(image, other) < 0)
		other += 16;
	image_poke64(image, at + 8, image_peek64(image, other + 8));
}

/* The root node of the large default pool's set. */
static uint64_t root(struct image *image)
{
	return image_peek64(image, DCA(large_blocks) + 16);
}

static void set_more(struct image *image)
{
	image_poke64(image, DCA(large_blocks) + 40,
		     image_peek64(image, DCA(large_blocks) + 40) + 1);
}

static void set_less(struct image *image)
{
	image_poke64(image, DCA(large_blocks) + 40,
		     image_peek64(image, DCA(large_blocks) + 40) - 1);
}

static void set_absurd(struct image *image)
{
	image_poke64(image, DCA(large_blocks) + 40, UINT64_MAX);
}

static void set_many(struct image *image)
{
	image_poke64(image, DCA(large_blocks) + 40, UINT32_MAX);
}

static void root_gone(struct image *image)
{
	image_poke64(image, DCA(large_blocks) + 16, 0);
}

static void tree_cycle(struct image *image)
{
	image_poke64(image, image_peek64(image, root(image) + 16) + 16, root(image));
}

static void node_wild(struct image *image)
{
	image_poke64(image, root(image) + 24, 0x123450);
}

static void value_wild(struct image *image)
{
	image_poke64(image, root(image) + 32, 0x123450);
}

static void set_emptied(struct image *image)
{
	uint64_t at = DCA(large_blocks);

	image_poke64(image, at + 16, 0);
	image_poke64(image, at + 24, at + 8);
	image_poke64(image, at + 32, at + 8);
	image_poke64(image, at + 40, 0);
}

static void pool_flag(struct image *image)
{
	image_poke64(image, DCA(small_blocks) + 96, 0);
}

static void graph_pools_gone(struct image *image)
{
	image_poke64(image, DCA(graph_pools), 0x123450);
}

static void private_gone(struct image *image)
{
	uint64_t at = image_peek64(image, DCA(graph_pools));

	while ((int8_t)image_peek64(image, at) < 0)
		at += 32;
	image_poke64(image, at + 24, 0x123450);
}

static void stat(struct image *image, uint64_t offset)
{
	image_poke64(image, DCA(stats) + offset, image_peek64(image, DCA(stats) + offset) + 512);
}

static void stat_allocation(struct image *image)
{
	stat(image, 0);
}

static void stat_segment(struct image *image)
{
	stat(image, 96);
}

static void stat_active(struct image *image)
{
	stat(image, 192);
}

static void stat_allocated(struct image *image)
{
	stat(image, 384);
}

static void stat_reserved(struct image *image)
{
	stat(image, 480);
}

static void stat_active_bytes(struct image *image)
{
	stat(image, 576);
}

static void stat_requested(struct image *image)
{
	stat(image, 768);
}

static void stat_negative(struct image *image)
{
	image_poke64(image, DCA(stats) + 480, (uint64_t)-5);
}

static const struct damage {
	const char *name;
	void (*damage)(struct image *image);
	const char *why; /* part of what the walk must say */
} damages[] = {
	{ "odd_size", odd_size, "multiple of 512" },
	{ "no_size", no_size, "impossible" },
	{ "huge_size", huge_size, "impossible" },
	{ "moved", moved, "" },
	{ "moved_far", moved_far, "" },
	{ "no_address", no_address, "impossible" },
	{ "next_to_self", next_to_self, "does not follow" },
	{ "next_wild", next_wild, "does not follow" },
	{ "next_cut", next_cut, "disagree" },
	{ "prev_wild", prev_wild, "precede" },
	{ "pool_wild", pool_wild, "pool is unknown" },
	{ "pool_other", pool_other, "" },
	{ "pool_swapped", pool_swapped, "different pools" },
	{ "device_wrong", device_wrong, "another device" },
	{ "flag_wrong", flag_wrong, "not flags" },
	{ "active_unmapped", active_unmapped, "does not fit the table" },
	{ "cached_allocated", cached_allocated, "does not fit the table" },
	{ "cached_with_event", cached_with_event, "in use by a stream" },
	{ "cached_in_use", cached_in_use, "in use by a stream" },
	{ "events_negative", events_negative, "event count" },
	{ "asked_for_more", asked_for_more, "smaller than what was asked" },
	{ "active_more", active_more, "fewer elements" },
	{ "active_less", active_less, "more elements" },
	{ "active_absurd", active_absurd, "active_blocks is not" },
	{ "active_gone", active_gone, "cannot be read" },
	{ "active_mask", active_mask, "active_blocks is not" },
	{ "object_wild", object_wild, "cannot be read" },
	{ "object_odd", object_odd, "cannot be read" },
	{ "object_at_end", object_at_end, "cannot be read" },
	{ "object_twice", object_twice, "" },
	{ "set_more", set_more, "fewer elements" },
	{ "set_less", set_less, "more elements" },
	{ "set_absurd", set_absurd, "default pool" },
	{ "set_many", set_many, "room for" },
	{ "root_gone", root_gone, "default pool" },
	{ "tree_cycle", tree_cycle, "" },
	{ "node_wild", node_wild, "cannot be read" },
	{ "value_wild", value_wild, "cannot be read" },
	{ "set_emptied", set_emptied, "" },
	{ "pool_flag", pool_flag, "default pool" },
	{ "graph_pools_gone", graph_pools_gone, "graph_pools" },
	{ "private_gone", private_gone, "not a private pool" },
	{ "stat_allocation", stat_allocation, "allocation is" },
	{ "stat_segment", stat_segment, "segment is" },
	{ "stat_active", stat_active, "active is" },
	{ "stat_allocated", stat_allocated, "allocated_bytes is" },
	{ "stat_reserved", stat_reserved, "reserved_bytes is" },
	{ "stat_active_bytes", stat_active_bytes, "active_bytes is" },
	{ "stat_requested", stat_requested, "requested_bytes is" },
	{ "stat_negative", stat_negative, "negative" },
};

/*
 * Whatever is wrong, a coherent source means refusal, and a changing one never more than true
 * blocks marked as unstable.
 */
static void test_damage(void **state)
{
	static struct walked walked;

	(void)state;
	for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
		for (int mode = 0; mode < 4; mode++) {
			const struct damage *d = &damages[i];
			struct image image;

			image_init(&image, IMAGE_2_11, 2, BLOCKS, mode & 1);
			image_fill(&image, 42, BLOCKS, 2);
			image_finish(&image);
			d->damage(&image);
			image.src.coherent = mode < 2;
			walk(&image, 0, &walked);
			if (walked.result.result == VT_WALK_COMPLETE ||
			    !strstr(walked.result.why, d->why))
				fail_msg("%s, mode %d: result %d, why '%s'", d->name, mode,
					 walked.result.result, walked.result.why);
			if (mode < 2 && walked.result.result != VT_WALK_TRUNCATED) {
				assert_int_equal(walked.result.result, VT_WALK_REFUSED);
				assert_int_equal(walked.result.blocks, 0);
				assert_false(walked.result.have_stats);
			}
			if (d->damage != moved && d->damage != moved_far && d->damage != odd_size)
				assert_subset(&image, 0, &walked);
			image_deinit(&image);
		}
	}
}

/*
 * Any byte may be anything: no crash, no endless loop, and nothing complete that contradicts the
 * statistics.
 */
static void test_random_damage(void **state)
{
	static struct walked walked;
	struct vt_torch_layout layout;
	struct image image;
	uint8_t *copy;

	(void)state;
	image_init(&image, IMAGE_2_15, 1, 300, false);
	image_fill(&image, 7, 300, 2);
	image_finish(&image);
	image_layout(&image, &layout);
	copy = malloc(image.used);
	memcpy(copy, image.base, image.used);
	srand(1);
	for (int round = 0; round < 3000; round++) {
		int n = 1 + rand() % 8;

		image.src.coherent = round % 3 != 0;
		for (int i = 0; i < n; i++) {
			/* half of them where the small structures are */
			size_t at = rand() % 2 ? (size_t)rand() % image.used :
						 image.dcas[0] - (uint64_t)(uintptr_t)image.base +
							 (size_t)rand() % 3200;

			image.base[at] = rand() % 3 ? (uint8_t)rand() : 0xff;
		}
		walk_with(&image, 0, &layout, &no_limits, 350, 350, VT_LOCK_NONE, &walked);
		if (walked.result.result == VT_WALK_COMPLETE) {
			uint64_t bytes = 0;

			for (uint64_t i = 0; i < walked.result.blocks; i++)
				bytes += walked.recs[i].state == VT_BLOCK_UNMAPPED ?
						 0 :
						 walked.recs[i].size;
			assert_int_equal(bytes, walked.result.stats.reserved_bytes.current);
		}
		assert_true(walked.result.blocks <= 350);
		memcpy(image.base, copy, image.used);
	}
	free(copy);
	image_deinit(&image);
}

/* A layout that is off by a field is noticed. */
static void test_wrong_layout(void **state)
{
	static struct walked walked;

	(void)state;
	for (int is = 0; is < IMAGE_RELEASES; is++) {
		for (int taken = 0; taken < IMAGE_RELEASES; taken++) {
			struct image image, other;
			struct vt_torch_layout layout;

			image_init(&image, (enum image_release)is, 1, 200, taken % 2);
			image_fill(&image, 3, 200, 2);
			image_finish(&image);
			image_init(&other, (enum image_release)taken, 1, 1, true);
			image_layout(&other, &layout);
			walk_with(&image, 0, &layout, &no_limits, 250, 250, VT_LOCK_NONE, &walked);
			if (is != taken && walked.result.result == VT_WALK_COMPLETE)
				/* alike */
				assert_true(is + taken == IMAGE_2_14 + IMAGE_2_15 &&
					    abs(is - taken) == 1);
			image_deinit(&other);
			image_deinit(&image);
		}
	}
}

static void test_impossible_layout(void **state)
{
	static struct walked walked;
	struct image image;

	(void)state;
	image_init(&image, IMAGE_2_11, 1, 100, true);
	image_fill(&image, 3, 100, 0);
	image_finish(&image);
	for (size_t at = 0; at < offsetof(struct vt_torch_layout, name); at += 2) {
		struct vt_torch_layout layout;

		image_layout(&image, &layout);
		memset((uint8_t *)&layout + at, 0x7f, 2);
		walk_with(&image, 0, &layout, &no_limits, 150, 150, VT_LOCK_NONE, &walked);
		memset((uint8_t *)&layout + at, 0xff, 2);
		walk_with(&image, 0, &layout, &no_limits, 150, 150, VT_LOCK_NONE, &walked);
	}
	image_deinit(&image);
}

/* ---- bounds ---- */

static void test_bounds(void **state)
{
	static struct walked walked;
	struct vt_torch_walk_limits limits = no_limits;
	struct vt_torch_layout layout;
	struct image image;

	(void)state;
	image_init(&image, IMAGE_2_11, 1, BLOCKS, true);
	image_fill(&image, 3, BLOCKS, 1);
	image_finish(&image);
	image_layout(&image, &layout);

	walk_with(&image, 0, &layout, &limits, BLOCKS, BLOCKS, VT_LOCK_NONE, &walked);
	assert_same(&image, 0, &walked);
	walk_with(&image, 0, &layout, &limits, BLOCKS - 1, BLOCKS, VT_LOCK_NONE, &walked);
	assert_int_equal(walked.result.result, VT_WALK_TRUNCATED);
	assert_int_equal(walked.result.blocks, 0);
	assert_int_equal(walked.result.segments, 0);
	assert_true(walked.result.have_stats);
	walk_with(&image, 0, &layout, &limits, BLOCKS, BLOCKS - 1, VT_LOCK_NONE, &walked);
	assert_int_equal(walked.result.result, VT_WALK_TRUNCATED);
	assert_non_null(strstr(walked.result.why, "records"));
	limits.max_blocks = BLOCKS - 1;
	walk_with(&image, 0, &layout, &limits, BLOCKS, BLOCKS, VT_LOCK_NONE, &walked);
	assert_int_equal(walked.result.result, VT_WALK_TRUNCATED);
	limits = no_limits;
	limits.deadline_ns = 1;
	walk_with(&image, 0, &layout, &limits, BLOCKS, BLOCKS, VT_LOCK_NONE, &walked);
	assert_int_equal(walked.result.result, VT_WALK_TRUNCATED);
	assert_non_null(strstr(walked.result.why, "longer"));
	image_deinit(&image);
}

static uint64_t fake_now;

static uint64_t fake_clock(void)
{
	return fake_now;
}

/* The caller may take its time between the halves, but not the walk in either of them. */
static void test_late_second_half(void **state)
{
	enum { MANY = 5000 }; /* the clock is looked at every few thousand */
	struct vt_torch_walk_limits limits = { .max_blocks = MANY,
					       .deadline_ns = 1000,
					       .now_ns = fake_clock };
	struct vt_torch_scratch scratch = { .size = vt_torch_scratch_size(MANY) };
	VT_FREE struct vt_block_rec *recs = calloc(MANY, sizeof(*recs));
	struct sink sink = { .base.reserve = reserve, .recs = recs, .capacity = MANY };
	struct vt_torch_device_result result = { 0 };
	struct vt_torch_layout layout;
	struct vt_torch_walk *walk;
	struct image image;

	(void)state;
	scratch.base = malloc(scratch.size);
	image_init(&image, IMAGE_2_11, 1, MANY, true);
	image_fill(&image, 3, MANY, 1);
	image_finish(&image);
	image_layout(&image, &layout);
	fake_now = 0;
	walk = vt_torch_walk_read(&image.src, &layout, image.dcas[0], 0, &limits, &scratch,
				  &result);
	assert_non_null(walk);
	fake_now = 100000;
	vt_torch_walk_finish(walk, &sink.base);
	assert_int_equal(result.result, VT_WALK_COMPLETE);
	assert_int_equal(result.blocks, MANY);
	assert_int_equal(result.walk_ns, 0);
	fake_now = 1000;
	assert_null(vt_torch_walk_read(&image.src, &layout, image.dcas[0], 0, &limits, &scratch,
				       &result));
	assert_int_equal(result.result, VT_WALK_TRUNCATED);
	free(scratch.base);
	image_deinit(&image);
}

/* ---- a target that changes ---- */

static void test_not_coherent_but_still(void **state)
{
	static struct walked walked;
	struct image image;

	(void)state;
	image_init(&image, IMAGE_2_11, 1, BLOCKS, false);
	image_fill(&image, 3, BLOCKS, 1);
	image_finish(&image);
	image.src.coherent = false;
	walk(&image, 0, &walked);
	assert_same(&image, 0, &walked);
	image_deinit(&image);
}

/* Every read is followed by another operation of the allocator, as far as its statistics tell. */
static void count_up(struct image *image)
{
	uint64_t at = image->dcas[0] + 40 + 16; /* allocation.allocated */

	image_poke64(image, at, image_peek64(image, at) + 1);
}

static void test_changing(void **state)
{
	static struct walked walked;
	struct image image;

	(void)state;
	image_init(&image, IMAGE_2_11, 1, BLOCKS, false);
	image_fill(&image, 3, BLOCKS, 1);
	image_finish(&image);
	image.src.coherent = false;
	image.after_read = count_up;
	walk(&image, 0, &walked);
	assert_int_equal(walked.result.result, VT_WALK_UNSTABLE);
	assert_non_null(strstr(walked.result.why, "changing"));
	assert_int_equal(walked.result.blocks, BLOCKS);
	assert_subset(&image, 0, &walked);
	image_deinit(&image);
}

/*
 * A source that cannot change, but a mutex that somebody holds in the middle of something: not a
 * reason to refuse.
 */
static void test_lock_held(void **state)
{
	static struct walked walked;
	struct vt_torch_layout layout;
	struct image image;

	(void)state;
	image_init(&image, IMAGE_2_11, 1, BLOCKS, true);
	image_fill(&image, 3, BLOCKS, 1);
	image_finish(&image);
	image_layout(&image, &layout);
	image_poke64(&image, image.dcas[0] + 8, UINT64_C(1) << 32 | 4711);
	assert_int_equal(vt_torch_mutex_owner(&image.src, &layout, image.dcas[0]), 4711);
	assert_int_equal(vt_torch_mutex_owner(&image.src, &layout, 0x1000), -1);
	walk_with(&image, 0, &layout, &no_limits, BLOCKS, BLOCKS, VT_LOCK_HELD_BY, &walked);
	assert_same(&image, 0, &walked);
	next_cut(&image);
	walk_with(&image, 0, &layout, &no_limits, BLOCKS, BLOCKS, VT_LOCK_HELD_BY, &walked);
	assert_int_equal(walked.result.result, VT_WALK_UNSTABLE);
	assert_int_equal(walked.result.lock, VT_LOCK_HELD_BY);
	image_deinit(&image);
}

/* ---- whether anything happened ---- */

/* A walk without a stop, between its halves. */
struct looked {
	struct image image;
	struct vt_torch_layout layout;
	struct vt_torch_scratch scratch;
	struct vt_torch_device_result result;
	struct vt_torch_walk *walk;
};

static void look_at(struct looked *l, void (*before)(struct image *image))
{
	struct vt_torch_walk_limits limits = { .max_blocks = BLOCKS,
					       .deadline_ns = UINT64_MAX,
					       .now_ns = fake_clock };

	memset(l, 0, sizeof(*l));
	image_init(&l->image, IMAGE_2_11, 1, BLOCKS, false);
	image_fill(&l->image, 3, BLOCKS, 2);
	image_finish(&l->image);
	if (before)
		before(&l->image);
	image_layout(&l->image, &l->layout);
	l->image.src.coherent = false;
	l->scratch.size = vt_torch_scratch_size(BLOCKS);
	l->scratch.base = malloc(l->scratch.size);
	l->walk = vt_torch_walk_read(&l->image.src, &l->layout, l->image.dcas[0], 0, &limits,
				     &l->scratch, &l->result);
}

static void looked_deinit(struct looked *l)
{
	free(l->scratch.base);
	image_deinit(&l->image);
}

static void take_mutex(struct image *image)
{
	image_poke64(image, image->dcas[0] + 8, 4711);
	image_poke64(image, image->dcas[0], 1);
}

static void just_locked(struct image *image)
{
	image_poke64(image, image->dcas[0], 1);
}

static void rename_private_pool(struct image *image)
{
	uint64_t at = image_peek64(image, image->dcas[0] + layout_2_11(image).graph_pools);

	while ((int8_t)image_peek64(image, at) < 0)
		at += 32;
	image_poke64(image, at + 16, image_peek64(image, at + 16) + 100);
}

/* As reset_accumulated_stats() leaves them. */
static void reset_counts(struct image *image)
{
	for (int i = 0; i < 6 + 3; i++) {
		uint64_t at = image->dcas[0] + 40 + 96 * (uint64_t)i;

		image_poke64(image, at + 16, 0);
		image_poke64(image, at + 24, 0);
	}
}

static void test_holds(void **state)
{
	static void (*const changes[])(struct image * image) = { count_up, take_mutex, just_locked,
								 rename_private_pool,
								 reset_counts };
	struct looked l;

	(void)state;
	fake_now = 0;
	look_at(&l, NULL);
	assert_non_null(l.walk);
	assert_int_equal(l.result.certain, 1);
	assert_true(vt_torch_walk_holds(l.walk, &l.image.src));
	fake_now = UINT64_C(3600) * 1000000000;
	/* counts that were never set back stay good */
	assert_true(vt_torch_walk_holds(l.walk, &l.image.src));
	looked_deinit(&l);
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		fake_now = 0;
		look_at(&l, NULL);
		assert_non_null(l.walk);
		changes[i](&l.image);
		assert_false(vt_torch_walk_holds(l.walk, &l.image.src));
		looked_deinit(&l);
	}
}

static void reset_and_count(struct image *image)
{
	reset_counts(image);
	image_poke64(image, image->dcas[0] + 40 + 16, 1000); /* allocation.allocated */
}

/*
 * Statistics that were set back say something only for as long as it takes to count so far again.
 */
static void test_counts_that_were_set_back(void **state)
{
	struct looked l;

	(void)state;
	fake_now = 0;
	look_at(&l, reset_counts);
	assert_int_equal(l.result.certain, 0);
	assert_false(vt_torch_walk_holds(l.walk, &l.image.src));
	looked_deinit(&l);
	look_at(&l, reset_and_count);
	assert_int_equal(l.result.certain, 1);
	fake_now = 1000 * 10;
	assert_true(vt_torch_walk_holds(l.walk, &l.image.src));
	fake_now = 1000 * 1000;
	assert_false(vt_torch_walk_holds(l.walk, &l.image.src));
	looked_deinit(&l);
}

/* What is wrong although nothing happened is no change that was seen half. */
static void test_damage_without_a_stop(void **state)
{
	struct looked l;

	(void)state;
	fake_now = 0;
	look_at(&l, events_negative);
	assert_null(l.walk);
	assert_int_equal(l.result.result, VT_WALK_REFUSED);
	assert_non_null(strstr(l.result.why, "negative"));
	assert_int_equal(l.result.have_stats, 0);
	looked_deinit(&l);
	look_at(&l, next_cut); /* found in the second half */
	assert_non_null(l.walk);
	assert_true(vt_torch_walk_holds(l.walk, &l.image.src));
	vt_torch_walk_finish(l.walk, &(struct sink){ .base.reserve = reserve,
						     .recs = (struct vt_block_rec[BLOCKS]){ { 0 } },
						     .capacity = BLOCKS }
					      .base);
	assert_int_equal(l.result.result, VT_WALK_REFUSED);
	looked_deinit(&l);
}

/* Without a stop the walk itself names the thread that keeps the mutex. */
static void test_lock_found(void **state)
{
	struct looked l;

	(void)state;
	fake_now = 0;
	look_at(&l, take_mutex);
	assert_non_null(l.walk);
	assert_int_equal(l.result.lock, VT_LOCK_HELD_BY);
	assert_int_equal(l.result.owner_tid, 4711);
	assert_int_equal(l.result.certain, 0);
	looked_deinit(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_release),
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_private_pools),
		cmocka_unit_test(test_hidden_private_pool),
		cmocka_unit_test(test_odd_sizes_in_private_pools),
		cmocka_unit_test(test_addresses_far_apart),
		cmocka_unit_test(test_unmapped_ends_a_segment),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_random_damage),
		cmocka_unit_test(test_wrong_layout),
		cmocka_unit_test(test_impossible_layout),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_late_second_half),
		cmocka_unit_test(test_not_coherent_but_still),
		cmocka_unit_test(test_changing),
		cmocka_unit_test(test_lock_held),
		cmocka_unit_test(test_holds),
		cmocka_unit_test(test_counts_that_were_set_back),
		cmocka_unit_test(test_damage_without_a_stop),
		cmocka_unit_test(test_lock_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
