/* SPDX-License-Identifier: Apache-2.0 */
#include "report/diff/course.h"

#include <stdlib.h>
#include <string.h>

void vt_course_deinit(struct vt_course *course)
{
	for (size_t i = 0; i < course->points.n; i++)
		free(course->points.data[i].bytes);
	vt_vec_deinit(&course->points);
	*course = (struct vt_course){ 0 };
}

/* Every second point goes. The first one stays. */
static void thin_out(struct vt_course *course)
{
	size_t n = 0;

	for (size_t i = 0; i < course->points.n; i++) {
		if (i % 2)
			free(course->points.data[i].bytes);
		else
			course->points.data[n++] = course->points.data[i];
	}
	course->points.n = n;
	course->every *= 2;
}

/* The last point was kept only until there is a later one. */
static void drop_passing(struct vt_course *course)
{
	if (course->looks > 1 && (course->looks - 1) % course->every != 0)
		free(course->points.data[--course->points.n].bytes);
}

/* What is not known has no sum. */
static uint64_t sum_up(const uint64_t *bytes, size_t n)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++) {
		if (bytes[i] == VT_COURSE_UNKNOWN)
			return VT_COURSE_UNKNOWN;
		sum += bytes[i];
	}
	return sum;
}

bool vt_course_add(struct vt_course *course, double seconds, const uint64_t *bytes, size_t n)
{
	size_t kept = n < VT_COURSE_AMOUNTS ? n : VT_COURSE_AMOUNTS;
	uint64_t *copy = malloc((kept + 1) * sizeof(*copy));
	struct vt_course_point *point;

	if (!copy || !vt_vec_reserve(&course->points, course->points.n + 1)) {
		free(copy);
		return false;
	}
	if (n)
		memcpy(copy, bytes, kept * sizeof(*copy));
	if (!course->every)
		course->every = 1;
	drop_passing(course);
	if (course->points.n >= VT_COURSE_POINTS)
		thin_out(course);
	point = &course->points.data[course->points.n++];
	*point = (struct vt_course_point){
		.seconds = seconds, .bytes = copy, .n = kept, .sum = sum_up(bytes, n)
	};
	course->looks++;
	return true;
}

uint64_t vt_course_bytes(const struct vt_course *course, size_t point, size_t source,
			 uint64_t otherwise)
{
	const struct vt_course_point *p = &course->points.data[point];

	return source < p->n ? p->bytes[source] : otherwise;
}
