/* SPDX-License-Identifier: Apache-2.0 */
/* Whose ranges are, that memory counts once, and that no list of ranges makes a wrong number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "unit/report/report_models.h"

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)

static const struct vt_model_ledger_device *first(const struct vt_model *model)
{
	return &model->ledger.devices.data[0];
}

static uint64_t sum_of_counted(const struct vt_model *model)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < model->ledger.ranges.n; i++)
		sum += model->ledger.ranges.data[i].counted_bytes;
	return sum;
}

static uint64_t sum_of_lines(const struct vt_model_ledger_device *d)
{
	uint64_t sum = d->claimed[VT_CLAIMER_PYTORCH].bytes;

	for (int kind = 0; kind < VT_N_RANGE_KINDS; kind++)
		if (vt_range_is_of_device((uint8_t)kind))
			sum += d->kinds[kind].bytes;
	return sum;
}

static void begin(struct vt_model *model)
{
	vt_model_init(model);
	report_add_device(model, 0, 10 * GIB, 80 * GIB);
	report_add_ledger(model, 0);
}

/* ---- what claims what ---- */

static void test_all_kinds(void **state)
{
	const struct vt_model_ledger_device *d;
	struct vt_model model;

	(void)state;
	assert_true(report_model_build(&model, "ledger"));
	d = first(&model);
	assert_true(d->claims_known);
	assert_int_equal(d->claimed[VT_CLAIMER_PYTORCH].asked,
			 model.allocators.data[0].reserved_bytes);
	assert_int_equal(d->claimed[VT_CLAIMER_PYTORCH].ranges,
			 model.allocators.data[0].result.segments);
	assert_int_equal(d->unmapped_bytes[VT_CLAIMER_PYTORCH], 0);
	assert_int_equal(d->kinds[VT_RANGE_DEVICE].bytes, 68 * MIB);
	assert_int_equal(d->kinds[VT_RANGE_DEVICE].asked, 67 * MIB + 1);
	assert_int_equal(d->kinds[VT_RANGE_DEVICE].largest, 64 * MIB);
	assert_int_equal(d->kinds[VT_RANGE_MAPPED].bytes, 40 * MIB);
	assert_int_equal(d->shareable.bytes, 20 * MIB);
	assert_int_equal(d->kinds[VT_RANGE_POOL].bytes, 96 * MIB);
	assert_int_equal(d->kinds[VT_RANGE_POOL].asked, 48 * MIB);
	assert_int_equal(d->kinds[VT_RANGE_GRAPH].bytes, 64 * MIB);
	assert_int_equal(d->kinds[VT_RANGE_ARRAY].bytes, 6 * MIB);
	assert_int_equal(d->kinds[VT_RANGE_DATA].bytes, 2 * MIB);
	assert_int_equal(d->kinds[VT_RANGE_HOST].asked, 5 * MIB);
	assert_int_equal(d->kinds[VT_RANGE_MANAGED].asked, 16 * MIB);
	assert_int_equal(d->found_bytes, sum_of_lines(d));
	assert_true(d->rest_known);
	assert_int_equal(d->rest_bytes + d->found_bytes, model.devices.data[0].used_bytes);
	vt_model_deinit(&model);
}

/* The memory of a handle that is mapped twice, and of a page with several allocations. */
static void test_shared_memory(void **state)
{
	struct vt_model model;
	struct vt_model_range *alias;

	(void)state;
	begin(&model);
	report_add_range(&model, VT_RANGE_MAPPED, 0, 64 * MIB)->rec.block = 7;
	alias = report_add_range(&model, VT_RANGE_MAPPED, 0, 64 * MIB);
	alias->rec.block = 7;
	report_add_range(&model, VT_RANGE_DEVICE, 0x7f0000000000, 1000);
	report_add_range(&model, VT_RANGE_DEVICE, 0x7f0000000400, 1000);
	report_add_range(&model, VT_RANGE_DATA, 0x7f0000000800, 12);
	assert_true(vt_model_account(&model));
	assert_int_equal(first(&model)->kinds[VT_RANGE_MAPPED].bytes, 64 * MIB);
	assert_int_equal(first(&model)->kinds[VT_RANGE_MAPPED].asked, 128 * MIB);
	assert_int_equal(first(&model)->kinds[VT_RANGE_DEVICE].bytes, 2 * MIB);
	assert_int_equal(first(&model)->kinds[VT_RANGE_DATA].bytes, 0);
	assert_int_equal(sum_of_counted(&model), 66 * MIB);
	vt_model_deinit(&model);
}

static struct vt_model_libpool *add_pool(struct vt_model *model, unsigned int kind, uint64_t start,
					 uint64_t size)
{
	struct vt_libpool_region *region = malloc(sizeof(*region));
	struct vt_model_libpool *pool = vt_vec_append(&model->libpools.pools);

	assert_non_null(region);
	assert_non_null(pool);
	*region = (struct vt_libpool_region){ start, size };
	*pool = (struct vt_model_libpool){
		.regions = region,
		.n_regions = 1,
		.rec = { .kind = (uint8_t)kind,
			 .held_bytes = size,
			 .used_bytes = size / 2,
			 .known = VT_LIBPOOL_HELD | VT_LIBPOOL_USED },
	};
	return pool;
}

/* The outer pool has the range, and the inner ones' memory is neither there again nor missing. */
static void test_nested_pools(void **state)
{
	const uint64_t start = 0x7f0000000000;
	const struct vt_model_ledger_device *d;
	struct vt_libpool_sum sum;
	struct vt_model model;

	(void)state;
	begin(&model);
	report_add_range(&model, VT_RANGE_DEVICE, start, 64 * MIB);
	report_add_range(&model, VT_RANGE_MANAGED, start + GIB, 16 * MIB);
	add_pool(&model, VT_LIBPOOL_RMM, start, 16 * MIB);
	add_pool(&model, VT_LIBPOOL_RMM, start, 64 * MIB);
	add_pool(&model, VT_LIBPOOL_RMM, start + 20 * MIB, 4 * MIB);
	add_pool(&model, VT_LIBPOOL_CUPY, start + 30 * MIB, 8 * MIB);
	add_pool(&model, VT_LIBPOOL_RMM, start + GIB, 16 * MIB);
	assert_true(vt_model_account(&model));
	d = first(&model);
	assert_int_equal(d->claimed[VT_CLAIMER_LIBPOOLS + VT_LIBPOOL_RMM].bytes, 64 * MIB);
	assert_int_equal(d->claimed[VT_CLAIMER_LIBPOOLS + VT_LIBPOOL_RMM].ranges, 1);
	assert_int_equal(d->claimed[VT_CLAIMER_LIBPOOLS + VT_LIBPOOL_CUPY].bytes, 0);
	assert_int_equal(d->unmapped_bytes[VT_CLAIMER_LIBPOOLS + VT_LIBPOOL_RMM], 0);
	assert_int_equal(d->unmapped_bytes[VT_CLAIMER_LIBPOOLS + VT_LIBPOOL_CUPY], 0);
	sum = vt_libpool_sum(&model, 0, VT_LIBPOOL_RMM, VT_LIBPOOLS_CLAIMED);
	assert_int_equal(sum.pools, 1);
	assert_int_equal(sum.used, 32 * MIB);
	assert_true(vt_libpool_sum_is_whole(&sum, 64 * MIB));
	assert_false(sum.blocks_known);
	vt_model_deinit(&model);
}

/* What is in no range is missing, also of a pool that has some elsewhere. */
static void test_missing_of_pools(void **state)
{
	const uint64_t start = 0x7f0000000000;
	struct vt_model model;

	(void)state;
	begin(&model);
	report_add_range(&model, VT_RANGE_DEVICE, start, 64 * MIB);
	add_pool(&model, VT_LIBPOOL_RMM, start, 64 * MIB);
	add_pool(&model, VT_LIBPOOL_CUPY, start + 60 * MIB, 24 * MIB);
	assert_true(vt_model_account(&model));
	assert_int_equal(first(&model)->unmapped_bytes[VT_CLAIMER_LIBPOOLS + VT_LIBPOOL_CUPY],
			 20 * MIB);
	vt_model_deinit(&model);
}

/* The same number on another device is other memory. */
static void test_devices(void **state)
{
	struct vt_model model;

	(void)state;
	begin(&model);
	report_add_device(&model, 1, GIB, 80 * GIB);
	report_add_ledger(&model, 1);
	report_add_range(&model, VT_RANGE_MAPPED, 0, 64 * MIB)->rec.block = 7;
	report_add_range(&model, VT_RANGE_MAPPED, 0, 32 * MIB)->rec.block = 7;
	model.ledger.ranges.data[1].rec.device = 1;
	assert_true(vt_model_account(&model));
	assert_int_equal(model.ledger.devices.data[0].found_bytes, 64 * MIB);
	assert_int_equal(model.ledger.devices.data[1].found_bytes, 32 * MIB);
	vt_model_deinit(&model);
}

/* A driver before CUDA 12.1 tells no mappings: whole pages are counted. */
static void test_no_mappings(void **state)
{
	struct vt_model model;

	(void)state;
	begin(&model);
	report_add_range(&model, VT_RANGE_DEVICE, 0x7f0000000000, 1000);
	report_add_range(&model, VT_RANGE_DEVICE, 0x7f0000000400, 1000);
	report_add_range(&model, VT_RANGE_DEVICE, 0x7f0000200000, 3 * MIB);
	for (size_t i = 0; i < 3; i++)
		model.ledger.ranges.data[i].rec.physical = model.ledger.ranges.data[i].rec.block =
			0;
	assert_true(vt_model_account(&model));
	assert_int_equal(first(&model)->found_bytes, 6 * MIB);
	vt_model_deinit(&model);
}

/* An expandable segment is several mappings; one that is only in part PyTorch's counts in part. */
static void test_partial_claims(void **state)
{
	const struct vt_model_ledger_device *d;
	struct vt_model model;
	uint64_t at;

	(void)state;
	begin(&model);
	report_add_allocator(&model, 0);
	report_add_segment(&model, VT_BLOCK_EXPANDABLE, 0, 0);
	at = report_add_block(&model, VT_BLOCK_ALLOCATED, 30 * MIB, 30 * MIB)->addr;
	report_add_block(&model, VT_BLOCK_CACHED, 10 * MIB, 0);
	report_add_range(&model, VT_RANGE_MAPPED, at, 20 * MIB);
	report_add_range(&model, VT_RANGE_MAPPED, at + 20 * MIB, 24 * MIB);
	assert_true(vt_model_account(&model));
	d = first(&model);
	assert_int_equal(d->claimed[VT_CLAIMER_PYTORCH].bytes, 40 * MIB);
	assert_int_equal(d->claimed[VT_CLAIMER_PYTORCH].ranges, 2);
	assert_int_equal(d->kinds[VT_RANGE_MAPPED].bytes, 4 * MIB);
	assert_int_equal(d->found_bytes, 44 * MIB);
	assert_int_equal(d->unmapped_bytes[VT_CLAIMER_PYTORCH], 0);
	vt_model_deinit(&model);
}

/* What a library unmapped behind PyTorch's back is in its books, and nowhere else. */
static void test_released_segment(void **state)
{
	struct vt_model model;

	(void)state;
	begin(&model);
	report_add_allocator(&model, 0);
	report_add_segment(&model, 0, 0, 0);
	report_add_block(&model, VT_BLOCK_ALLOCATED, 20 * MIB, 20 * MIB);
	report_add_segment(&model, 0, 0, 0);
	report_add_block(&model, VT_BLOCK_ALLOCATED, 40 * MIB, 40 * MIB);
	report_add_pytorch_ranges(&model);
	model.ledger.ranges.n = 1;
	assert_true(vt_model_account(&model));
	assert_int_equal(first(&model)->claimed[VT_CLAIMER_PYTORCH].bytes, 20 * MIB);
	assert_int_equal(first(&model)->unmapped_bytes[VT_CLAIMER_PYTORCH], 40 * MIB);
	assert_int_equal(first(&model)->rest_bytes, 10 * GIB - 20 * MIB);
	vt_model_deinit(&model);
}

/* Where PyTorch's blocks are not all known, nothing is called somebody else's. */
static void test_inexact(void **state)
{
	struct vt_model model;

	(void)state;
	assert_true(report_model_fill(&model, "ledger"));
	model.allocators.data[0].result.result = VT_WALK_UNSTABLE;
	assert_true(vt_model_account(&model));
	assert_false(first(&model)->claims_known);
	assert_int_equal(first(&model)->claimed[VT_CLAIMER_PYTORCH].bytes, 0);
	vt_model_deinit(&model);
}

static void test_moved(void **state)
{
	struct vt_model model;

	(void)state;
	assert_true(report_model_fill(&model, "ledger"));
	model.ledger.devices.data[0].moved = true;
	assert_true(vt_model_account(&model));
	assert_false(first(&model)->rest_known);
	vt_model_deinit(&model);
}

static bool is_claim_known(struct vt_torch_stat before, bool moved, struct vt_torch_stat listed)
{
	struct vt_model_ledger_device *d;
	struct vt_model model;
	bool known, said = false;

	assert_true(report_model_fill(&model, "ledger"));
	d = &model.ledger.devices.data[0];
	d->torch_known = true;
	d->torch_reserved = before;
	d->torch_moved = moved;
	model.allocators.data[0].result.have_stats = true;
	model.allocators.data[0].result.stats.reserved_bytes = listed;
	assert_true(vt_model_account(&model));
	known = first(&model)->claims_known;
	for (size_t i = 0; i < model.diags.n; i++)
		said = said || !strcmp(model.diags.data[i].code, "ledger-moved");
	assert_int_equal(said, model.allocators.data[0].exact && !known);
	vt_model_deinit(&model);
	return known;
}

/* A segment that PyTorch got between its list and the ranges would be called raw memory. */
static void test_pytorch_moved(void **state)
{
	const struct vt_torch_stat stat = { 90 * MIB, 100 * MIB, 200 * MIB, 110 * MIB },
				   later = { 90 * MIB, 100 * MIB, 220 * MIB, 130 * MIB };
	struct vt_model model;

	(void)state;
	assert_true(is_claim_known(stat, false, stat));
	assert_false(is_claim_known(stat, true, stat));
	assert_false(is_claim_known(stat, false, later));

	/* An allocator that was not found has some of it. */
	begin(&model);
	model.torch_state = VT_ALLOCATOR_REFUSED;
	assert_true(vt_model_account(&model));
	assert_false(first(&model)->claims_known);
	vt_model_deinit(&model);
}

/* The kernel driver's count of the process tells its contexts from others; only if it fits. */
static void test_own_rest(void **state)
{
	static const struct {
		uint64_t used, ours;
		bool known;
	} cases[] = {
		{ 10 * GIB, 564 * MIB, true }, /* 500 MiB more than what was found */
		{ 10 * GIB, 63 * MIB, false }, /* less: something found is another process's */
		{ 9 * GIB, 564 * MIB, false }, /* of another moment */
		{ 10 * GIB, 11 * GIB, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct vt_model_gpu *gpu;
		struct vt_model model;

		begin(&model);
		gpu = vt_vec_append(&model.usage.gpus);
		assert_non_null(gpu);
		*gpu = (struct vt_model_gpu){ .is_ours = true,
					      .ours_known = true,
					      .memory_known = true,
					      .used_bytes = cases[i].used,
					      .ours_bytes = cases[i].ours };
		report_add_range(&model, VT_RANGE_DEVICE, 0, 64 * MIB);
		assert_true(vt_model_account(&model));
		assert_int_equal(first(&model)->rest_bytes, 10 * GIB - 64 * MIB);
		assert_int_equal(first(&model)->own_rest_known, cases[i].known);
		assert_int_equal(first(&model)->own_rest_bytes, cases[i].known ? 500 * MIB : 0);
		vt_model_deinit(&model);
	}
}

/* Only what makes sense and fits into the rest. */
static void test_local_memory(void **state)
{
	static const struct {
		struct vt_model_local_memory local;
		uint64_t bytes; /* 0: not known */
	} cases[] = {
		{ { .known = true, .stack_bytes = 1024, .multiprocessors = 132, .threads = 2048 },
		  264 * MIB },
		{ { .known = false, .stack_bytes = 1024, .multiprocessors = 132, .threads = 2048 },
		  0 },
		{ { .known = true, .stack_bytes = 65536, .multiprocessors = 132, .threads = 2048 },
		  0 }, /* 16.5 GiB of a rest of 10 */
		{ { .known = true, .stack_bytes = 1024, .multiprocessors = 0, .threads = 2048 },
		  0 },
		{ { .known = true,
		    .stack_bytes = UINT64_MAX / 2,
		    .multiprocessors = 2,
		    .threads = 2 },
		  0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct vt_model model;

		begin(&model);
		model.ledger.devices.data[0].local = cases[i].local;
		assert_true(vt_model_account(&model));
		assert_int_equal(first(&model)->local.known, cases[i].bytes != 0);
		if (cases[i].bytes)
			assert_int_equal(first(&model)->local.bytes, cases[i].bytes);
		vt_model_deinit(&model);
	}
}

/* A pool whose totals could not be asked for has what its allocations have. */
static void test_unknown_pools(void **state)
{
	struct vt_model model;

	(void)state;
	assert_true(report_model_fill(&model, "ledger"));
	model.ledger.pools.data[0].known = false;
	assert_true(vt_model_account(&model));
	assert_int_equal(first(&model)->kinds[VT_RANGE_POOL].bytes, 48 * MIB);
	vt_model_deinit(&model);
}

/* The default pool is also found by its allocations: it counts once. */
static void test_pool_twice(void **state)
{
	struct vt_model_ledger_pool *again;
	struct vt_model model;

	(void)state;
	assert_true(report_model_fill(&model, "ledger"));
	again = vt_vec_append(&model.ledger.pools);
	assert_non_null(again);
	*again = model.ledger.pools.data[0];
	assert_true(vt_model_account(&model));
	assert_int_equal(first(&model)->kinds[VT_RANGE_POOL].bytes, 96 * MIB);
	assert_int_equal(model.ledger.pools.n, 1);
	vt_model_deinit(&model);
}

/* ---- hostile ---- */

static void test_overlaps(void **state)
{
	struct vt_model model;

	(void)state;
	begin(&model);
	report_add_range(&model, VT_RANGE_DEVICE, 0x7f0000000000, 64 * MIB);
	report_add_range(&model, VT_RANGE_DEVICE, 0x7f0000200000, 64 * MIB);
	report_add_range(&model, VT_RANGE_DEVICE, 0x7f0000000000, 64 * MIB);
	report_add_range(&model, VT_RANGE_DEVICE, 0x7e0000000000, 2 * MIB);
	assert_true(vt_model_account(&model));
	assert_int_equal(model.ledger.ranges.n, 2);
	assert_int_equal(model.ledger.dropped, 2);
	assert_int_equal(first(&model)->found_bytes, 66 * MIB);
	vt_model_deinit(&model);
}

static uint64_t random_word(void)
{
	uint64_t word = (uint64_t)rand() << 42 ^ (uint64_t)rand() << 21 ^ (uint64_t)rand();

	switch (rand() % 4) {
	case 0:
		return word;
	case 1:
		return UINT64_MAX - word % 4096;
	case 2:
		return word % (64 * MIB);
	default:
		return UINT64_C(0x7e0000000000) + word % (16 * GIB);
	}
}

static void test_nonsense(void **state)
{
	(void)state;
	for (unsigned int seed = 1; seed < 300; seed++) {
		const struct vt_model_ledger_device *d;
		struct vt_model model;

		srand(seed);
		begin(&model);
		report_add_allocator(&model, 0);
		for (int i = 0; i < 20; i++) {
			report_add_segment(&model, 0, 0, 0);
			report_add_block(&model, VT_BLOCK_ALLOCATED, 2 * MIB, 2 * MIB);
		}
		for (int i = 0; i < 200; i++) {
			struct vt_range_rec *r =
				&report_add_range(&model, VT_RANGE_DEVICE, random_word() | 1, MIB)
					 ->rec;

			r->kind = (uint8_t)(rand() % (VT_N_RANGE_KINDS + 2));
			r->size = rand() % 2 ? r->size : random_word();
			r->physical = rand() % 2 ? r->physical : random_word();
			r->mapping = rand() % 2 ? r->mapping : random_word();
			r->block = rand() % 2 ? r->block : random_word();
			r->device = rand() % 4 ? 0 : (int32_t)random_word();
		}
		for (int i = 0; i < 10; i++) {
			struct vt_model_ledger_pool *pool = vt_vec_append(&model.ledger.pools);

			assert_non_null(pool);
			*pool = (struct vt_model_ledger_pool){ rand() % 3 - 1, random_word(), true,
							       random_word(), random_word() };
		}
		model.ledger.devices.data[0].graph_known = true;
		model.ledger.devices.data[0].graph_reserved_bytes = random_word();
		model.ledger.devices.data[0].graph_used_bytes = random_word();
		assert_true(vt_model_account(&model));
		d = first(&model);
		assert_int_equal(d->found_bytes, sum_of_lines(d));
		assert_true(d->found_bytes < UINT64_C(1) << 60);
		if (d->rest_known)
			assert_int_equal(d->found_bytes + d->rest_bytes, 10 * GIB);
		for (size_t i = 1; i < model.ledger.ranges.n; i++)
			assert_true(model.ledger.ranges.data[i].rec.start >=
				    model.ledger.ranges.data[i - 1].rec.start);
		vt_model_deinit(&model);
	}
}

static void test_many(void **state)
{
	struct vt_model model;
	uint64_t begun;

	(void)state;
	begin(&model);
	for (int i = 0; i < 100000; i++)
		report_add_range(&model, VT_RANGE_DEVICE, 0, 64 * KIB);
	begun = vt_now_ns();
	assert_true(vt_model_account(&model));
	print_message("100,000 ranges: %.1f ms\n", (double)(vt_now_ns() - begun) / VT_NS_PER_MS);
	assert_int_equal(first(&model)->kinds[VT_RANGE_DEVICE].ranges, 100000);
	assert_int_equal(first(&model)->kinds[VT_RANGE_DEVICE].bytes, 200000 * MIB);
	assert_false(first(&model)->rest_known); /* more than is used */
	vt_model_deinit(&model);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_kinds),      cmocka_unit_test(test_shared_memory),
		cmocka_unit_test(test_nested_pools),   cmocka_unit_test(test_missing_of_pools),
		cmocka_unit_test(test_devices),        cmocka_unit_test(test_no_mappings),
		cmocka_unit_test(test_partial_claims), cmocka_unit_test(test_released_segment),
		cmocka_unit_test(test_inexact),        cmocka_unit_test(test_moved),
		cmocka_unit_test(test_pytorch_moved),  cmocka_unit_test(test_own_rest),
		cmocka_unit_test(test_unknown_pools),  cmocka_unit_test(test_pool_twice),
		cmocka_unit_test(test_overlaps),       cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_many),           cmocka_unit_test(test_local_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
