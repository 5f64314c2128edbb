/* SPDX-License-Identifier: Apache-2.0 */
/* The bar of a device: what bytes become. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/text/bar.h"

#define GIB (UINT64_C(1) << 30)

static void check_cells(const uint64_t *parts, unsigned int n_cells)
{
	unsigned int cells[VT_N_SHADES], sum = 0, tiny = 0;
	double exact[VT_N_SHADES], total = 0;

	for (size_t i = 0; i < VT_N_SHADES; i++)
		total += (double)parts[i];
	vt_bar_cells(parts, VT_N_SHADES, n_cells, cells);
	for (size_t i = 0; i < VT_N_SHADES; i++) {
		exact[i] = total > 0 ? (double)parts[i] * n_cells / total : 0;
		tiny += parts[i] && exact[i] < 1;
		sum += cells[i];
	}
	assert_int_equal(sum, total > 0 ? n_cells : 0);
	for (size_t i = 0; i < VT_N_SHADES; i++) {
		assert_true(!parts[i] == !cells[i]);
		/* What the tiny ones need is taken from the others. */
		assert_true(cells[i] - exact[i] < 1.001 && exact[i] - cells[i] < 1.001 + tiny);
	}
}

static void cells_are_in_proportion(void **state)
{
	static const uint64_t some[] = { 0, 1, 7 * GIB, 80 * GIB, UINT64_MAX };
	unsigned int cells[2];
	(void)state;

	for (unsigned int i = 0; i < 625; i++) {
		const uint64_t parts[VT_N_SHADES] = { some[i % 5], some[i / 5 % 5],
						      some[i / 25 % 5], some[i / 125] };

		for (unsigned int n = 6; n <= 48; n++)
			check_cells(parts, n);
	}
	srand(18);
	for (unsigned int i = 0; i < 10000; i++) {
		uint64_t parts[VT_N_SHADES];

		for (size_t k = 0; k < VT_N_SHADES; k++)
			parts[k] = rand() % 3 ? (uint64_t)rand() >> rand() % 31 : 0;
		check_cells(parts, 6 + (unsigned int)rand() % 43);
	}
	vt_bar_cells((const uint64_t[]){ 1, 1 }, 2, 1, cells); /* no room: none is invented */
	assert_int_equal(cells[0] + cells[1], 1);
}

static void parts_are_the_devices(void **state)
{
	struct vt_model_device device = {
		.have_memory = true,
		.total_bytes = 80 * GIB,
		.used_bytes = 60 * GIB,
		.free_bytes = 20 * GIB,
	};
	struct vt_model_allocator allocator = {
		.exact = true,
		.reserved_bytes = 50 * GIB,
		.cached_bytes = 8 * GIB,
		.allocated_bytes = 40 * GIB,
		.awaiting_bytes = 2 * GIB,
	};
	uint64_t parts[VT_N_SHADES], sum = 0;
	(void)state;

	assert_true(vt_bar_parts(&device, &allocator, parts));
	for (size_t i = 0; i < VT_N_SHADES; i++)
		sum += parts[i];
	assert_int_equal(sum, device.total_bytes);
	assert_int_equal(parts[VT_SHADE_IN_USE], 42 * GIB); /* what awaits is taken, too */
	assert_int_equal(parts[VT_SHADE_CACHED], 8 * GIB);
	assert_int_equal(parts[VT_SHADE_OTHER], 10 * GIB);
	assert_int_equal(parts[VT_SHADE_FREE], device.free_bytes);

	assert_false(vt_bar_parts(&device, NULL, parts));
	allocator.reserved_bytes = 61 * GIB; /* of another moment */
	assert_false(vt_bar_parts(&device, &allocator, parts));
	allocator.reserved_bytes = 50 * GIB;
	allocator.exact = false;
	assert_false(vt_bar_parts(&device, &allocator, parts));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cells_are_in_proportion),
		cmocka_unit_test(parts_are_the_devices),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
