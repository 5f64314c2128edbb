/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is at an address: every byte that is the edge of something, against the plainest search
 * there is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "model/find.h"
#include "unit/report/report_models.h"

#define MIB UINT64_C(1048576)

static struct vt_found find(const struct vt_model *model, uint64_t addr)
{
	struct vt_found found;

	memset(&found, 0x5a, sizeof(found));
	vt_model_find_address(model, addr, &found);
	assert_true(found.addr == addr);
	return found;
}

static const struct vt_model_allocator *owner(const struct vt_model *model, size_t block)
{
	for (size_t i = 0; i < model->allocators.n; i++) {
		const struct vt_model_allocator *a = &model->allocators.data[i];

		if (block >= a->first_block && block < a->first_block + a->n_blocks)
			return a;
	}
	return NULL;
}

/* found is block i, in the segment from first to end. */
static void check_block(const struct vt_model *model, uint64_t addr, size_t i, size_t first,
			size_t end)
{
	const struct vt_found found = find(model, addr);
	uint64_t mapped = 0;

	assert_int_equal(found.kind, VT_FOUND_BLOCK);
	assert_int_equal(found.index, i);
	assert_ptr_equal(found.allocator, owner(model, i));
	assert_int_equal(found.segment, first);
	assert_int_equal(found.segment_end, end);
	for (size_t k = first; k < end; k++)
		mapped += model->blocks[k].state == VT_BLOCK_UNMAPPED ? 0 : model->blocks[k].size;
	assert_true(found.segment_bytes == mapped);
	assert_true(found.before == (i > first ? i - 1 : VT_FOUND_NONE));
	assert_true(found.after == (i + 1 < end ? i + 1 : VT_FOUND_NONE));
	assert_true(found.below == VT_FOUND_NONE && found.above == VT_FOUND_NONE);
}

static void check_all(const struct vt_model *model)
{
	for (size_t k = 0; k < model->allocators.n; k++) {
		const struct vt_model_allocator *a = &model->allocators.data[k];
		size_t end = a->first_block + a->n_blocks, next;

		for (size_t first = a->first_block; first < end; first = next) {
			next = vt_model_segment_end(model, first, end);
			for (size_t i = first; i < next; i++) {
				const struct vt_block_rec *b = &model->blocks[i];

				check_block(model, b->addr, i, first, next);
				check_block(model, b->addr + b->size - 1, i, first, next);
			}
		}
	}
}

static void test_every_block(void **state)
{
	static const char *const names[] = { "training", "unstable", "many-devices", "debugged" };

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct vt_model model;

		assert_true(report_model_build(&model, names[i]));
		assert_true(model.n_blocks > 20);
		check_all(&model);
		vt_model_deinit(&model);
	}
}

/*
 * Segments the highest first, as no set has to have them by address; and one with memory behind a
 * part of it only.
 */
static void build_backwards(struct vt_model *model)
{
	vt_model_init(model);
	report_add_allocator(model, 3);
	for (int i = 0; i < 3; i++) {
		report_add_segment(model, 0, 0, 0);
		report_add_block(model, VT_BLOCK_ALLOCATED, 2 * MIB, MIB);
		report_add_block(model, VT_BLOCK_CACHED, MIB, 0);
	}
	report_add_segment(model, VT_BLOCK_EXPANDABLE, 0, 0);
	report_add_block(model, VT_BLOCK_CACHED, MIB, 0);
	report_add_block(model, VT_BLOCK_UNMAPPED, 64 * MIB, 0)->flags |= VT_BLOCK_SEGMENT_START;
	for (size_t i = 0; i < 2; i++) { /* the first and the third change places */
		struct vt_block_rec b = model->blocks[i];

		model->blocks[i] = model->blocks[4 + i];
		model->blocks[4 + i] = b;
	}
	assert_true(vt_model_account(model));
	assert_true(model->allocators.data[0].exact);
}

static void test_any_order(void **state)
{
	struct vt_model model;
	struct vt_found found;

	(void)state;
	build_backwards(&model);
	check_all(&model);
	found = find(&model, model.blocks[7].addr + 5 * MIB);
	assert_int_equal(found.index, 7);
	assert_true(found.segment_bytes == 0);

	/*
	 * Between the segments of blocks 4, 5 and 2, 3: one past the end of the lower, one before
	 * the higher.
	 */
	found = find(&model, model.blocks[5].addr + MIB);
	assert_int_equal(found.kind, VT_FOUND_NOTHING);
	assert_int_equal(found.below, 5);
	assert_int_equal(found.above, 2);
	found = find(&model, model.blocks[2].addr - 1);
	assert_int_equal(found.below, 5);
	assert_int_equal(found.above, 2);
	found = find(&model, 0);
	assert_true(found.kind == VT_FOUND_NOTHING && found.below == VT_FOUND_NONE);
	assert_int_equal(found.above, 4);
	found = find(&model, UINT64_MAX);
	assert_true(found.kind == VT_FOUND_NOTHING && found.above == VT_FOUND_NONE);
	assert_int_equal(found.below, 7);
	vt_model_deinit(&model);
}

static void test_other_memory(void **state)
{
	struct vt_model model;
	struct vt_found found;
	size_t of_pytorch = 0;

	(void)state;
	assert_true(report_model_build(&model, "recorder"));
	model.pinned.blocks[2].addr = 0x1000; /* those of the model lie where blocks do */
	found = find(&model, 0x1000);
	assert_true(found.kind == VT_FOUND_PINNED && found.index == 2);
	found = find(&model, 0x1000 + model.pinned.blocks[2].size - 1);
	assert_true(found.kind == VT_FOUND_PINNED && found.index == 2);
	assert_int_equal(find(&model, 0x1000 + model.pinned.blocks[2].size).kind, VT_FOUND_NOTHING);
	for (size_t i = 0; i < model.driver_blocks.n; i++) {
		const struct vt_model_driver_block *b = &model.driver_blocks.data[i];

		found = find(&model, b->addr + b->size - 1);
		assert_true(found.kind == (b->of_pytorch ? VT_FOUND_NOTHING : VT_FOUND_DRIVER));
		assert_true(b->of_pytorch || found.index == i);
		assert_int_equal(find(&model, b->addr + b->size).kind, VT_FOUND_NOTHING);
		of_pytorch += b->of_pytorch;
	}
	assert_true(model.driver_blocks.n > 5 && of_pytorch == 1);
	vt_model_deinit(&model);
}

/*
 * Not through vt_model_account(), which throws such blocks away: nothing is read past an end, and
 * no sum wraps around.
 */
static void test_hostile(void **state)
{
	struct vt_model model;
	struct vt_found found;
	struct vt_model_allocator *a;

	(void)state;
	vt_model_init(&model);
	assert_int_equal(find(&model, 1).kind, VT_FOUND_NOTHING);
	a = report_add_allocator(&model, 0);
	report_add_block(&model, VT_BLOCK_ALLOCATED, 100, 0)->addr = UINT64_MAX - 10;
	report_add_block(&model, VT_BLOCK_ALLOCATED, UINT64_MAX, 0)->addr = 0x2000;
	report_add_block(&model, 77, 0, 0)->addr = 0x1000;
	found = find(&model, UINT64_MAX);
	assert_true(found.kind == VT_FOUND_BLOCK && found.index == 0);
	found = find(&model, 0x5000);
	assert_true(found.kind == VT_FOUND_BLOCK && found.index == 1);
	found = find(&model, 0x1000);
	assert_true(found.kind == VT_FOUND_NOTHING && found.below == 2 && found.above == 1);
	found = find(&model, 0x80); /* where the sum of the first one's address and size would be */
	assert_true(found.kind == VT_FOUND_NOTHING && found.below == VT_FOUND_NONE &&
		    found.above == 2);
	a->n_blocks = SIZE_MAX;
	assert_int_equal(find(&model, 0x5000).segment_end, 2);
	a->first_block = SIZE_MAX - 1;
	assert_int_equal(find(&model, 0x5000).kind, VT_FOUND_NOTHING);
	vt_model_deinit(&model);
}

/* Of this thread: others may have the processor in between. */
static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * VT_NS_PER_S + (uint64_t)ts.tv_nsec;
}

/* The last of a million blocks, whose segment is all of them. */
static void test_many(void **state)
{
	struct vt_model model;
	uint64_t best = UINT64_MAX;
	size_t n = 1000000;

	(void)state;
	vt_model_init(&model);
	report_add_allocator(&model, 0);
	report_add_segment(&model, VT_BLOCK_SMALL_POOL, 0, 0);
	for (size_t i = 0; i < n; i++)
		report_add_block(&model, VT_BLOCK_ALLOCATED, 512, 512);
	for (int i = 0; i < 5; i++) {
		uint64_t start = cpu_ns(), took;
		struct vt_found found = find(&model, model.blocks[n - 1].addr + 511);

		took = cpu_ns() - start;
		best = took < best ? took : best;
		assert_true(found.index == n - 1 && found.segment == 0 && found.segment_end == n);
	}
	print_message("one of %zu blocks: %.1f ms\n", n, (double)best / VT_NS_PER_MS);
	assert_true(best < 50 * VT_NS_PER_MS);
	vt_model_deinit(&model);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_block),  cmocka_unit_test(test_any_order),
		cmocka_unit_test(test_other_memory), cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
