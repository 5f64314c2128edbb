/* SPDX-License-Identifier: Apache-2.0 */
/* The cells of a map: what bytes become. tests/functional/report_map.py compares whole maps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "report/text/cells.h"

static void no_byte_is_lost(void **state)
{
	struct vt_cell cells[64] = { 0 };
	struct vt_cells map = { .cells = cells, .n = 64, .scale = 100 };
	uint64_t added[VT_N_MEMORY] = { 0 }, owned[VT_N_CATEGORIES] = { 0 };
	(void)state;

	srand(18);
	while (map.at < 6300) {
		enum vt_cell_state now = (enum vt_cell_state)(rand() % VT_N_MEMORY);
		enum vt_category category = (enum vt_category)(rand() % VT_N_CATEGORIES);
		uint64_t bytes = (uint64_t)rand() % (rand() % 5 ? 30 : 500);

		bytes = map.at + bytes > 6400 ? 6400 - map.at : bytes;
		vt_cells_add(&map, bytes, now, category);
		added[now] += bytes;
		owned[category] += now == VT_MEMORY_IN_USE ? bytes : 0;
	}
	for (size_t i = 0; i < 64; i++) {
		uint64_t sum = 0, of_owners = 0;

		for (size_t k = 0; k < VT_N_MEMORY; k++) {
			sum += cells[i].bytes[k];
			added[k] -= cells[i].bytes[k];
		}
		for (size_t k = 0; k < VT_N_CATEGORIES; k++) {
			of_owners += cells[i].owned[k];
			owned[k] -= cells[i].owned[k];
		}
		assert_int_equal(of_owners, cells[i].bytes[VT_MEMORY_IN_USE]);
		if (i < 63)
			assert_int_equal(sum, 100);
	}
	for (size_t k = 0; k < VT_N_MEMORY; k++)
		assert_int_equal(added[k], 0);
	for (size_t k = 0; k < VT_N_CATEGORIES; k++)
		assert_int_equal(owned[k], 0);
}

/* What a target says may be anything. */
static void beyond_the_end(void **state)
{
	struct vt_cell cells[3] = { 0 };
	struct vt_cells map = { .cells = cells, .n = 2, .scale = 4096 };
	(void)state;

	vt_cells_add(&map, UINT64_MAX, VT_MEMORY_IN_USE, VT_CATEGORY_CACHE);
	vt_cells_add(&map, UINT64_MAX, VT_MEMORY_HOLE, VT_CATEGORY_CACHE);
	assert_int_equal(cells[1].bytes[VT_MEMORY_IN_USE], 4096);
	assert_int_equal(cells[2].bytes[VT_MEMORY_IN_USE] + cells[2].bytes[VT_MEMORY_HOLE], 0);
	assert_int_equal(vt_cells_of(UINT64_MAX, 1), UINT64_MAX);
	assert_int_equal(vt_cells_of(4096, 4096), 1);
	assert_int_equal(vt_cells_of(4097, 4096), 2);
	assert_int_equal(vt_cells_of(0, 4096), 0);
}

static struct vt_cell cell(uint64_t in_use, uint64_t awaiting, uint64_t hole, uint64_t spare,
			   uint64_t unmapped)
{
	return (struct vt_cell){ .bytes = { in_use, awaiting, hole, spare, unmapped } };
}

static void kinds(void **state)
{
	const struct {
		struct vt_cell cell;
		enum vt_cell_kind kind;
	} cases[] = {
		{ cell(0, 0, 0, 0, 0), VT_CELL_EMPTY },
		{ cell(0, 0, 0, 0, 8), VT_CELL_UNMAPPED },
		{ cell(0, 0, 1, 0, 9), VT_CELL_HOLE },
		{ cell(0, 0, 0, 1, 9), VT_CELL_SPARE },
		{ cell(0, 0, 4, 4, 0), VT_CELL_HOLE },
		{ cell(0, 0, 4, 5, 0), VT_CELL_SPARE },
		{ cell(8, 0, 0, 0, 0), VT_CELL_FULL },
		{ cell(5, 3, 0, 0, 0), VT_CELL_FULL },
		{ cell(3, 5, 0, 0, 0), VT_CELL_AWAITING },
		{ cell(0, 1, 90, 0, 0), VT_CELL_AWAITING },
		{ cell(1, 0, UINT64_MAX / 2, 0, 0), VT_CELL_PART }, /* however little it is */
		{ cell(UINT64_MAX / 2, 0, 1, 0, 0), VT_CELL_PART },
		{ cell(7, 0, 0, 0, 1), VT_CELL_PART },
	};
	(void)state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(vt_cell_kind(&cases[i].cell), cases[i].kind);
}

static void eighths(void **state)
{
	struct vt_cell huge = cell(UINT64_MAX / 4, 0, UINT64_MAX / 4, 0, 0);
	(void)state;

	for (unsigned int taken = 0; taken <= 1600; taken++) {
		struct vt_cell one = cell(taken / 2, taken - taken / 2, 1600 - taken, 0, 0);
		unsigned int got = vt_cell_eighths(&one);
		double exact = taken / 200.0;

		assert_true(got >= 1 && got <= 7);
		if (exact >= 0.5 && exact < 7.5)
			assert_true(got - exact <= 0.5 && exact - got <= 0.5);
	}
	assert_int_equal(vt_cell_eighths(&huge), 4);
}

static void categories(void **state)
{
	struct vt_cell one = { .owned = { [VT_CATEGORY_UNKNOWN] = 5, [VT_CATEGORY_GRADIENT] = 5 } };
	(void)state;

	assert_int_equal(vt_cell_category(&one), VT_CATEGORY_UNKNOWN);
	one.owned[VT_CATEGORY_NATIVE] = 6;
	assert_int_equal(vt_cell_category(&one), VT_CATEGORY_NATIVE);
}

/* Not many more cells than asked for, and not half as many. */
static void scales(void **state)
{
	static const uint64_t totals[] = {
		1, 4096, 4097, UINT64_C(20) << 20, UINT64_C(80) << 30, UINT64_MAX
	};
	(void)state;

	for (size_t i = 0; i < sizeof(totals) / sizeof(totals[0]); i++) {
		for (uint64_t n = 8; n < 10000; n = n * 3 / 2) {
			uint64_t scale = vt_cells_scale(totals[i], n, 4096);

			assert_true(scale >= 4096 && !(scale & (scale - 1)));
			assert_true(totals[i] / scale <= n);
			if (scale > 4096)
				assert_true(totals[i] / (scale / 2) >= n);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_byte_is_lost), cmocka_unit_test(beyond_the_end),
		cmocka_unit_test(kinds),           cmocka_unit_test(eighths),
		cmocka_unit_test(categories),      cmocka_unit_test(scales),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
