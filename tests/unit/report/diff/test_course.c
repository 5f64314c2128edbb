/* SPDX-License-Identifier: Apache-2.0 */
/* A course keeps the first look and the last, and a bounded number in between. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "report/diff/course.h"

/* Look i is at i seconds; source 0 has i bytes, source 1 comes at look 3 and has 10 i. */
static void add(struct vt_course *course, size_t i)
{
	uint64_t bytes[2] = { i, 10 * i };

	assert_true(vt_course_add(course, (double)i, bytes, i < 3 ? 1 : 2));
}

static void check_points(const struct vt_course *course, size_t looks)
{
	size_t n = course->points.n;

	assert_in_range(n, looks < VT_COURSE_POINTS / 2 ? looks : VT_COURSE_POINTS / 2,
			VT_COURSE_POINTS);
	assert_true(course->points.data[0].seconds == 0);
	assert_true(course->points.data[n - 1].seconds == (double)(looks - 1));
	for (size_t p = 0; p < n; p++) {
		size_t look = (size_t)course->points.data[p].seconds;

		assert_true(!p || course->points.data[p - 1].seconds < (double)look);
		assert_int_equal(vt_course_bytes(course, p, 0, 7), look);
		assert_int_equal(vt_course_bytes(course, p, 1, 7), look < 3 ? 7 : 10 * look);
		assert_int_equal(course->points.data[p].sum, look < 3 ? look : 11 * look);
	}
}

static void test_any_number_of_looks(void **state)
{
	struct vt_course course = { 0 };

	(void)state;
	for (size_t i = 0; i < 5000; i++) {
		add(&course, i);
		check_points(&course, i + 1);
	}
	vt_course_deinit(&course);
	assert_int_equal(course.points.n, 0);
}

static void test_what_is_not_known_has_no_sum(void **state)
{
	struct vt_course course = { 0 };
	const uint64_t bytes[] = { 5, VT_COURSE_UNKNOWN, 6 };

	(void)state;
	assert_true(vt_course_add(&course, 0, bytes, 3));
	assert_true(course.points.data[0].sum == VT_COURSE_UNKNOWN);
	assert_true(vt_course_bytes(&course, 0, 1, 0) == VT_COURSE_UNKNOWN);
	vt_course_deinit(&course);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_any_number_of_looks),
		cmocka_unit_test(test_what_is_not_known_has_no_sum),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
