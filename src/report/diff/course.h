/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How amounts went over a series of looks, in a bounded number of points: a series of days keeps
 * fewer points a minute than one of an hour. The first look and the last are always there.
 */
#ifndef VT_REPORT_DIFF_COURSE_H
#define VT_REPORT_DIFF_COURSE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"

#define VT_COURSE_POINTS 240   /* at most */
#define VT_COURSE_AMOUNTS 4096 /* of each point: those of later sources are not kept */
#define VT_COURSE_UNKNOWN UINT64_MAX

struct vt_course_point {
	double seconds;  /* since the first look */
	uint64_t *bytes; /* of each source that there was then; heap */
	size_t n;
	uint64_t sum; /* of all, also of those that are not kept; unknown if one is */
};

struct vt_course {
	VT_VEC(struct vt_course_point) points;
	size_t every; /* each look of so many is kept; 0 none was added */
	size_t looks; /* that were added */
};

void vt_course_deinit(struct vt_course *course);

/* Adds a look; bytes are copied, and summed up. False when out of memory: nothing changed. */
bool vt_course_add(struct vt_course *course, double seconds, const uint64_t *bytes, size_t n);

/* What a source had at a point; otherwise: it was not there yet. */
uint64_t vt_course_bytes(const struct vt_course *course, size_t point, size_t source,
			 uint64_t otherwise);

#endif
