/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For which streams blocks wait, on synthetic allocators of every known shape: whole, damaged, and
 * changing while they are read. What is wrong there never harms the walk of the blocks.
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

#define BLOCKS 1600
#define DEVICES 2

/* ---- walking an image ---- */

struct sink {
	struct vt_torch_sink base;
	struct vt_block_rec recs[BLOCKS];
};

static struct vt_block_rec *reserve(struct vt_torch_sink *base, uint64_t n)
{
	return n <= BLOCKS ? ((struct sink *)base)->recs : NULL;
}

static void walk_with(struct image *image, int device, const struct vt_torch_layout *layout,
		      struct vt_torch_device_result *result)
{
	struct vt_torch_walk_limits limits = { .max_blocks = BLOCKS,
					       .deadline_ns = UINT64_MAX,
					       .now_ns = vt_now_ns };
	/* exactly as much as asked for, so that a sanitizer sees a byte too many */
	struct vt_torch_scratch scratch = { .size = vt_torch_scratch_size(BLOCKS) };
	struct sink *sink = calloc(1, sizeof(*sink));

	sink->base.reserve = reserve;
	scratch.base = malloc(scratch.size);
	memset(scratch.base, 0xa5, scratch.size);
	memset(result, 0, sizeof(*result));
	vt_torch_walk_device(&image->src, layout, image->dcas[device], device, &limits, &scratch,
			     &sink->base, result);
	free(scratch.base);
	free(sink);
}

static void walk(struct image *image, int device, struct vt_torch_device_result *result)
{
	struct vt_torch_layout layout;

	image_layout(image, &layout);
	walk_with(image, device, &layout, result);
}

static bool has(const struct vt_torch_waits *waits, const struct vt_torch_wait *wait)
{
	for (uint32_t i = 0; i < waits->n; i++)
		if (!memcmp(&waits->list[i], wait, sizeof(*wait)))
			return true;
	return false;
}

static bool are_true(const struct image *image, int device, const struct vt_torch_waits *waits)
{
	const struct vt_torch_waits *expected = &image->waits[device];

	if (waits->n != expected->n || waits->eventless_blocks)
		return false;
	for (uint32_t i = 0; i < expected->n; i++)
		if (!has(waits, &expected->list[i]))
			return false;
	return true;
}

static void make(struct image *image, enum image_release release, bool direct)
{
	image_init(image, release, DEVICES, BLOCKS, direct);
	image_fill(image, (uint64_t)release + 1, BLOCKS, 4);
	image_finish(image);
}

/* ---- whole ones ---- */

static void test_every_release(void **state)
{
	(void)state;
	for (int release = 0; release < IMAGE_RELEASES; release++) {
		for (int mode = 0; mode < 4; mode++) {
			struct image image;

			make(&image, (enum image_release)release, mode & 1);
			image.src.coherent = mode < 2;
			for (int device = 0; device < DEVICES; device++) {
				struct vt_torch_device_result result;

				walk(&image, device, &result);
				assert_int_equal(result.result, VT_WALK_COMPLETE);
				assert_int_equal(result.waits.state, VT_TORCH_WAITS_KNOWN);
				assert_int_equal(image.waits[device].n, 4);
				/* more than one node of the deque */
				assert_true(image.waits[device].list[0].blocks > 10);
				assert_true(are_true(&image, device, &result.waits));
			}
			image_deinit(&image);
		}
	}
}

/* No block awaits its free: that is known wherever events are. */
static void test_none(void **state)
{
	static const struct image_spec spec[] = { { 2 << 20, 1 << 20, VT_BLOCK_ALLOCATED } };
	struct vt_torch_device_result result;
	struct vt_torch_layout layout;
	struct image image;

	(void)state;
	image_init(&image, IMAGE_2_11, 1, 10, true);
	image_add_segment(&image, 0, 0x7f0000000000, 0, false, spec, 1);
	image_finish(&image);
	image_layout(&image, &layout);
	layout.cuda_events = 0;
	walk_with(&image, 0, &layout, &result);
	assert_int_equal(result.waits.state, VT_TORCH_WAITS_KNOWN);
	assert_int_equal(result.waits.n, 0);
	image_deinit(&image);
}

/* One that was freed during a capture has no event until its end. */
static void test_eventless(void **state)
{
	static const struct image_spec spec[] = { { 2 << 20, 1, VT_BLOCK_AWAITING_FREE },
						  { 4 << 20, 1, VT_BLOCK_AWAITING_FREE } };
	struct vt_torch_device_result result;
	struct image image;

	(void)state;
	image_init(&image, IMAGE_2_11, 1, 10, true);
	image_add_segment(&image, 0, 0x7f0000000000, 0, false, spec, 2);
	image_finish(&image);
	image_poke64(&image, image_block_field(&image, 1, image.block.event_count), 0);
	walk(&image, 0, &result);
	assert_int_equal(result.waits.state, VT_TORCH_WAITS_MISMATCH);
	image_deinit(&image);

	image_init(&image, IMAGE_2_11, 1, 10, true);
	image_add_segment(&image, 0, 0x7f0000000000, 0, false, spec, 2);
	image_finish(&image);
	for (size_t i = 0; i < 2; i++)
		image_poke64(&image, image_block_field(&image, i, image.block.event_count), 0);
	walk(&image, 0, &result);
	assert_int_equal(result.waits.state, VT_TORCH_WAITS_KNOWN);
	assert_int_equal(result.waits.n, 0);
	assert_int_equal(result.waits.eventless_blocks, 2);
	assert_int_equal(result.waits.eventless_bytes, 6 << 20);
	image_deinit(&image);
}

/* Where the map is, or what counts, is not known; or another table is there. */
static void test_other_places(void **state)
{
	struct vt_torch_device_result result;
	struct vt_torch_layout layout;
	struct image image;

	(void)state;
	make(&image, IMAGE_2_11, true);
	image_layout(&image, &layout);
	for (uint16_t at = layout.active_blocks; at < 2900; at += 8) {
		bool is = at == layout.cuda_events;
		struct vt_torch_layout other = layout;

		other.cuda_events = at;
		walk_with(&image, 0, &other, &result);
		assert_int_equal(result.result, VT_WALK_COMPLETE);
		if (result.waits.state == VT_TORCH_WAITS_TOO_MANY)
			assert_int_equal(at, layout.active_blocks);
		else
			assert_int_equal(result.waits.state,
					 is ? VT_TORCH_WAITS_KNOWN : VT_TORCH_WAITS_MISMATCH);
		assert_int_equal(result.waits.n, is ? 4 : 0);
	}
	layout.cuda_events = 0;
	walk_with(&image, 0, &layout, &result);
	assert_int_equal(result.waits.state, VT_TORCH_WAITS_NO_PLACE);
	image_layout(&image, &layout);
	layout.block.event_count = VT_TORCH_NO_FIELD;
	walk_with(&image, 0, &layout, &result);
	assert_int_equal(result.result, VT_WALK_COMPLETE);
	assert_int_equal(result.waits.state, VT_TORCH_WAITS_NO_PLACE);
	image_deinit(&image);
}

/* ---- damage ---- */

/* Of the first deque that is found: its word, as std::deque has them. */
enum {
	MAP,
	MAP_SIZE,
	START_CUR,
	START_FIRST,
	START_LAST,
	START_NODE,
	FINISH_CUR,
	FINISH_FIRST,
	FINISH_LAST,
	FINISH_NODE
};

static uint64_t word(const struct image *image, int index)
{
	return image->deques[0] + 8 * (uint64_t)index;
}

static uint64_t get(const struct image *image, int index)
{
	return image_peek64(image, word(image, index));
}

/* The first element. */
static uint64_t element(const struct image *image)
{
	return get(image, START_CUR);
}

/* Sets a word of the deque to a value, or adds it to what is there. */
struct damage {
	int index;
	bool adds;
	uint64_t value;
};

static const struct damage deque_damages[] = {
	{ MAP, false, 0 },
	{ MAP, true, 4 },
	{ MAP, true, 1 << 20 },
	{ MAP_SIZE, false, 0 },
	{ MAP_SIZE, false, 2 },
	{ MAP_SIZE, false, UINT64_MAX },
	{ START_CUR, true, 8 },
	{ START_CUR, true, 48 },
	{ START_CUR, true, (uint64_t)-48 },
	{ START_CUR, true, 480 },
	{ START_FIRST, true, 48 },
	{ START_FIRST, false, 0 },
	{ START_LAST, true, 24 },
	{ START_NODE, true, 8 },
	{ START_NODE, true, (uint64_t)-8 },
	{ START_NODE, true, 4 },
	{ START_NODE, false, UINT64_C(0x7ffff0000000) },
	{ FINISH_CUR, true, 48 },
	{ FINISH_CUR, true, (uint64_t)-48 },
	{ FINISH_FIRST, false, UINT64_C(0x7ffff0000000) },
	{ FINISH_LAST, true, 480 },
	{ FINISH_NODE, true, 8 },
	{ FINISH_NODE, true, 8 << 10 },
	{ FINISH_NODE, true, UINT64_C(8) << 50 },
	{ FINISH_NODE, false, 0 },
	{ FINISH_NODE, true, (uint64_t)-8 },
};

static void bad_node(struct image *image)
{
	image_poke64(image, get(image, START_NODE), UINT64_C(0x7ffff0000000));
}

static void other_node(struct image *image)
{
	image_poke64(image, get(image, START_NODE) + 8, get(image, START_FIRST));
}

static void no_event(struct image *image)
{
	image_poke64(image, element(image) + 32, 0);
}

static void no_block(struct image *image)
{
	image_poke64(image, element(image) + 40, 0);
}

/* One that does not await its free. */
static void other_block(struct image *image)
{
	for (size_t i = 0; i < image->n_blocks; i++)
		if (image->blocks[i].rec.state == VT_BLOCK_ALLOCATED)
			image_poke64(image, element(image) + 40, image->blocks[i].object);
}

/* One of another device. */
static void far_block(struct image *image)
{
	for (size_t i = 0; i < image->n_blocks; i++)
		if (image->blocks[i].rec.state == VT_BLOCK_AWAITING_FREE &&
		    image->blocks[i].rec.device == 1)
			image_poke64(image, element(image) + 40, image->blocks[i].object);
}

static void block_twice(struct image *image)
{
	image_poke64(image, element(image) + 48 + 40, image_peek64(image, element(image) + 40));
}

static void counts_more(struct image *image)
{
	uint64_t at = image_peek64(image, element(image) + 40) + image->block.event_count;

	image_poke64(image, at, image_peek64(image, at) + 1);
}

static void counts_less(struct image *image)
{
	uint64_t at = image_peek64(image, element(image) + 40) + image->block.event_count;

	image_poke64(image, at, image_peek64(image, at) - 1);
}

static void of_no_device(struct image *image)
{
	image_poke64(image, image->deques[0] - 16, 0xff01);
}

static void of_no_cuda(struct image *image)
{
	image_poke64(image, image->deques[0] - 16, 0);
}

static void of_no_stream(struct image *image)
{
	image_poke64(image, image->deques[0] - 8, 32 << 5 | 1 << 1 | 1);
}

static void of_no_priority(struct image *image)
{
	image_poke64(image, image->deques[0] - 8, 3 << 5 | 5 << 1 | 1);
}

static uint64_t table_of(const struct image *image)
{
	struct vt_torch_layout layout;

	image_layout(image, &layout);
	return image->dcas[0] + layout.cuda_events;
}

static void one_stream_more(struct image *image)
{
	image_poke64(image, table_of(image) + 24, 5);
}

static void one_stream_less(struct image *image)
{
	image_poke64(image, table_of(image) + 24, 3);
}

static void slots_gone(struct image *image)
{
	image_poke64(image, table_of(image), UINT64_C(0x7ffff0000000));
}

static void (*const damages[])(struct image *image) = {
	bad_node,       other_node,      no_event,        no_block,     other_block, far_block,
	block_twice,    counts_more,     counts_less,     of_no_device, of_no_cuda,  of_no_stream,
	of_no_priority, one_stream_more, one_stream_less, slots_gone,
};

#define N_DEQUE_DAMAGES (sizeof(deque_damages) / sizeof(deque_damages[0]))
#define N_DAMAGES (sizeof(damages) / sizeof(damages[0]))

static void do_damage(struct image *image, size_t which)
{
	const struct damage *d;

	if (which >= N_DEQUE_DAMAGES) {
		damages[which - N_DEQUE_DAMAGES](image);
		return;
	}
	d = &deque_damages[which];
	image_poke64(image, word(image, d->index),
		     d->adds ? get(image, d->index) + d->value : d->value);
}

/* The blocks are as good as before, and nothing is said of what they wait for. */
static void test_damage(void **state)
{
	(void)state;
	for (size_t which = 0; which < N_DEQUE_DAMAGES + N_DAMAGES; which++) {
		for (int mode = 0; mode < 2; mode++) {
			struct vt_torch_device_result result;
			struct image image;

			make(&image, IMAGE_2_15, mode);
			do_damage(&image, which);
			walk(&image, 0, &result);
			assert_int_equal(result.result, VT_WALK_COMPLETE);
			if (result.waits.state != VT_TORCH_WAITS_MISMATCH || result.waits.n)
				fail_msg("damage %zu: state %d", which, (int)result.waits.state);
			image_deinit(&image);
		}
	}
}

static void test_too_many(void **state)
{
	struct vt_torch_device_result result;
	struct image image;

	(void)state;
	make(&image, IMAGE_2_15, true);
	image_poke64(&image, image_peek64(&image, element(&image) + 40) + image.block.event_count,
		     INT32_MAX);
	walk(&image, 0, &result);
	assert_int_equal(result.waits.state, VT_TORCH_WAITS_TOO_MANY);
	assert_int_equal(result.waits.n, 0);
	image_deinit(&image);
}

/*
 * Any byte of the map, the deques and their nodes may be anything: what is known then is still
 * the sum of what each block counts.
 */
static void test_random_damage(void **state)
{
	struct image image;
	uint64_t from, slot, bytes = 0, blocks = 0;
	uint8_t *copy;

	(void)state;
	make(&image, IMAGE_2_11, false);
	from = get(&image, MAP) - (uint64_t)(uintptr_t)image.base;
	slot = image.deques[0] - 24 - (uint64_t)(uintptr_t)image.base;
	for (uint32_t i = 0; i < image.waits[0].n; i++) {
		bytes += image.waits[0].list[i].bytes;
		blocks += image.waits[0].list[i].blocks;
	}
	copy = malloc(image.used);
	memcpy(copy, image.base, image.used);
	srand(2);
	for (int round = 0; round < 5000; round++) {
		struct vt_torch_device_result result;
		uint64_t sums[2] = { 0 };

		for (int i = 0; i < 1 + round % 3; i++) {
			size_t at = (rand() % 2 ? slot : from) + (size_t)rand() % 600;

			image.base[at] = (uint8_t)rand();
			if (round % 7 == 0)
				image.base[from + (size_t)rand() % (image.used - from)] = 0xff;
		}
		walk(&image, 0, &result);
		for (uint32_t i = 0; i < result.waits.n; i++) {
			sums[0] += result.waits.list[i].bytes;
			sums[1] += result.waits.list[i].blocks;
		}
		if (result.waits.state == VT_TORCH_WAITS_KNOWN)
			assert_true(sums[0] == bytes && sums[1] == blocks);
		else
			assert_int_equal(result.waits.n, 0);
		memcpy(image.base, copy, image.used);
	}
	free(copy);
	image_deinit(&image);
}

/* ---- a program that runs ---- */

/* After some reads an event of a block that has another one is over: no statistic tells. */
static uint64_t until;

static void end_now(struct image *image)
{
	uint64_t at = get(image, FINISH_CUR) - 48, block;

	block = image_peek64(image, at + 40) + image->block.event_count;
	image_poke64(image, image->deques[0] + 8 * FINISH_CUR, at);
	image_poke64(image, block, image_peek64(image, block) - 1);
}

static void end_event(struct image *image)
{
	if (image->reads == until)
		end_now(image);
}

static void test_changing(void **state)
{
	size_t known = 0, changed = 0;

	(void)state;
	for (until = 1; until < 120; until++) {
		struct vt_torch_device_result result;
		struct image image;

		make(&image, IMAGE_2_11, false);
		image.src.coherent = false;
		image.after_read = end_event;
		walk(&image, 0, &result);
		assert_int_equal(result.result, VT_WALK_COMPLETE);
		if (result.waits.state == VT_TORCH_WAITS_CHANGED) {
			assert_int_equal(result.waits.n, 0);
			changed++;
		} else if (result.waits.state == VT_TORCH_WAITS_KNOWN) {
			known++;
		} else {
			assert_int_equal(result.waits.state, VT_TORCH_WAITS_MISMATCH);
			changed += result.certain;
		}
		image_deinit(&image);
	}
	assert_true(known > 0 && changed > 0);
}

/* The blocks hold when the process stands still; what they wait for is that of then. */
static void test_holds(void **state)
{
	struct vt_torch_walk_limits limits = { .max_blocks = BLOCKS,
					       .deadline_ns = UINT64_MAX,
					       .now_ns = vt_now_ns };
	struct vt_torch_scratch scratch = { .size = vt_torch_scratch_size(BLOCKS) };
	struct sink *sink = calloc(1, sizeof(*sink));
	struct vt_torch_device_result result = { 0 };
	struct vt_torch_layout layout;
	struct vt_torch_walk *w;
	struct image image;
	uint64_t blocks = 0, expected = 0;

	(void)state;
	sink->base.reserve = reserve;
	scratch.base = malloc(scratch.size);
	make(&image, IMAGE_2_11, false);
	image_layout(&image, &layout);
	image.src.coherent = false;
	w = vt_torch_walk_read(&image.src, &layout, image.dcas[0], 0, &limits, &scratch, &result);
	assert_non_null(w);
	end_now(&image);
	assert_true(vt_torch_walk_holds(w, &image.src));
	vt_torch_walk_finish(w, &sink->base);
	assert_int_equal(result.result, VT_WALK_COMPLETE);
	assert_int_equal(result.waits.state, VT_TORCH_WAITS_KNOWN);
	for (uint32_t i = 0; i < 4; i++) {
		blocks += result.waits.list[i].blocks;
		expected += image.waits[0].list[i].blocks;
	}
	assert_int_equal(blocks, expected - 1);
	free(scratch.base);
	free(sink);
	image_deinit(&image);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_release), cmocka_unit_test(test_none),
		cmocka_unit_test(test_eventless),     cmocka_unit_test(test_other_places),
		cmocka_unit_test(test_damage),        cmocka_unit_test(test_too_many),
		cmocka_unit_test(test_random_damage), cmocka_unit_test(test_changing),
		cmocka_unit_test(test_holds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
