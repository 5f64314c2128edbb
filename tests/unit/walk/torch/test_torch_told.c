/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allocator as PyTorch tells it: mutexes found by their look, and what is told judged by its
 * own counters.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "unit/walk/torch/torch_image.h"
#include "walk/torch/abi.h"
#include "walk/torch/told.h"

/* ---- mutexes ---- */

static void test_mutexes(void **state)
{
	(void)state;
	for (int release = 0; release < IMAGE_RELEASES; release++) {
		uint64_t mutexes[VT_TORCH_MAX_DEVICES];
		struct image image;

		image_init(&image, (enum image_release)release, 3, 100, false);
		image_fill(&image, 5, 100, 2);
		image_finish(&image);
		assert_int_equal(vt_torch_mutexes(&image.src, image.allocator, mutexes), 3);
		for (int i = 0; i < 3; i++) {
			assert_int_equal(mutexes[i], image.dcas[i]);
			assert_int_equal(vt_torch_mutex_tid(&image.src, mutexes[i]), 0);
		}
		/* one that is held: lock and count, owner and users */
		image_poke64(&image, image.dcas[1], UINT64_C(1) << 32 | 1);
		image_poke64(&image, image.dcas[1] + 8, UINT64_C(1) << 32 | 4711);
		assert_int_equal(vt_torch_mutexes(&image.src, image.allocator, mutexes), 3);
		assert_int_equal(vt_torch_mutex_tid(&image.src, mutexes[1]), 4711);
		assert_int_equal(vt_torch_mutex_tid(&image.src, 1), -1);
		image_deinit(&image);
	}
}

/* One device whose object begins with something else: none of them is believed. */
static void test_no_mutexes(void **state)
{
	static const struct {
		uint64_t offset, value;
	} spoilt[] = {
		{ VT_MUTEX_KIND, 0 },
		{ VT_MUTEX_KIND, 2 },
		{ VT_MUTEX_KIND, UINT64_C(1) << 32 | 1 },
		{ 0, 3 },
		{ 8, UINT32_MAX },
		{ 24, 1 },
		{ 32, 1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(spoilt) / sizeof(spoilt[0]); i++) {
		uint64_t mutexes[VT_TORCH_MAX_DEVICES];
		struct image image;

		image_init(&image, IMAGE_2_15, 3, 100, false);
		image_fill(&image, 5, 100, 2);
		image_finish(&image);
		image_poke64(&image, image.dcas[2] + spoilt[i].offset, spoilt[i].value);
		assert_int_equal(vt_torch_mutexes(&image.src, image.allocator, mutexes), 0);
		assert_int_equal(vt_torch_mutexes(&image.src, 8, mutexes), 0); /* nothing there */
		image_deinit(&image);
	}
}

/* ---- judgement ---- */

#define START VT_BLOCK_SEGMENT_START

struct told {
	struct vt_block_rec recs[6];
	struct vt_torch_stats before, after;
	struct vt_torch_device_result result;
};

/* Two segments of GPU 0, one of GPU 1. */
static void make(struct told *told)
{
	static const struct vt_block_rec recs[] = {
		{ .addr = 1000,
		  .size = 512,
		  .requested = 500,
		  .state = VT_BLOCK_ALLOCATED,
		  .flags = START },
		{ .addr = 1512, .size = 488, .state = VT_BLOCK_AWAITING_FREE },
		{ .addr = 2000, .size = 1000, .state = VT_BLOCK_CACHED, .flags = START },
		{ .addr = 3000, .size = 24, .requested = 24, .state = VT_BLOCK_ALLOCATED },
		{ .addr = 1000,
		  .size = 100,
		  .state = VT_BLOCK_CACHED,
		  .flags = START,
		  .device = 1 },
		{ .addr = 1100,
		  .size = 1,
		  .requested = 1,
		  .state = VT_BLOCK_ALLOCATED,
		  .device = 1 },
	};
	struct vt_torch_stats *s = &told->after;

	memset(told, 0, sizeof(*told));
	memcpy(told->recs, recs, sizeof(recs));
	s->allocation.current = 2;
	s->active.current = 3;
	s->allocated_bytes.current = 536;
	s->active_bytes.current = 1024;
	s->reserved_bytes.current = 2024;
	told->before = *s;
}

static enum vt_walk_result judge(struct told *told)
{
	uint64_t n = vt_torch_judge(told->recs, 6, 0, &told->before, &told->after, &told->result);

	assert_int_equal(n, told->result.blocks);
	assert_int_equal(!told->result.why[0], told->result.result == VT_WALK_COMPLETE);
	return (enum vt_walk_result)told->result.result;
}

static void test_complete(void **state)
{
	struct told told;

	(void)state;
	make(&told);
	assert_int_equal(judge(&told), VT_WALK_COMPLETE);
	assert_int_equal(told.result.blocks, 4);
	assert_int_equal(told.result.segments, 2);
	assert_int_equal(told.result.bytes[VT_BLOCK_ALLOCATED], 536);
	assert_int_equal(told.result.bytes[VT_BLOCK_AWAITING_FREE], 488);
	assert_int_equal(told.result.bytes[VT_BLOCK_CACHED], 1000);
	assert_true(told.result.have_stats);
	/* the other device's counters are other ones */
	assert_int_equal(
		vt_torch_judge(told.recs + 4, 2, 1, &told.before, &told.after, &told.result), 2);
	assert_int_equal(told.result.result, VT_WALK_REFUSED);
	/* counters that moved before the blocks were listed, and agree with them */
	make(&told);
	told.before.allocation.allocated = -7;
	assert_int_equal(judge(&told), VT_WALK_COMPLETE);
	/* none at all */
	memset(&told, 0, sizeof(told));
	assert_int_equal(vt_torch_judge(told.recs, 0, 0, &told.before, &told.after, &told.result),
			 0);
	assert_int_equal(told.result.result, VT_WALK_COMPLETE);
}

static void test_not_complete(void **state)
{
	enum { CASES = 14 };

	(void)state;
	for (int i = 0; i < CASES; i++) {
		struct told told;
		struct vt_torch_stats *s = &told.after;

		make(&told);
		switch (i) {
		case 0:
			told.recs[0].state = VT_BLOCK_UNMAPPED;
			break;
		case 1:
			told.recs[1].state = 200;
			break;
		case 2:
			told.recs[0].flags = 0;
			break;
		case 3:
			told.recs[1].addr++;
			break;
		case 4:
			told.recs[2].addr = 1999;
			break;
		case 5:
			told.recs[3].size = UINT64_MAX;
			break;
		case 6:
			told.recs[0].requested = 513;
			break;
		case 7:
			told.recs[1].size = 0;
			break;
		case 8:
			s->allocated_bytes.current++;
			break;
		case 9:
			s->active_bytes.current = -1;
			break;
		case 10:
			s->reserved_bytes.current--;
			break;
		case 11:
			s->allocation.current = 3;
			break;
		case 12:
			s->active.current = 2;
			break;
		default:
			told.recs[2].addr = 0;
			break;
		}
		told.before = *s;
		assert_int_equal(judge(&told), VT_WALK_REFUSED);
		assert_int_equal(told.result.blocks, 4);
		told.before.active.freed = 1;
		assert_int_equal(judge(&told), VT_WALK_UNSTABLE);
		/* a program can set its peaks back at any time */
		told.before = *s;
		told.before.active.peak = 1;
		assert_int_equal(judge(&told), VT_WALK_REFUSED);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mutexes),
		cmocka_unit_test(test_no_mutexes),
		cmocka_unit_test(test_complete),
		cmocka_unit_test(test_not_complete),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
