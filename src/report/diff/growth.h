/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which places' memory grows, out of a series of looks at one process. A place is a site when backtraces are recorded; else all
 * blocks in use of one size on one stream. A look counts only when every allocator in it is exact.
 *
 * A place grows when all of this is so:
 *
 *	enough   there were 5 looks or more: 3 rises in a row are chance once in 24 times, of a saw-tooth that is met at random
 *	often    it rose in more than half of the intervals, or rose 4 times and never fell (a slow leak, looked at often)
 *	kept     what it gave back, all falls together, is at most 1/8 of what it took: no saw-tooth, no cache that is swapped
 *	no jump  without its largest single rise it still grew, by at least 1/4 of the whole: not a buffer made once
 *
 * Of a rise only that counts by which it is larger than what blocks without a backtrace became less by, in that interval and in the one
 * before: blocks that are older than the recording are freed, and those that take their place have a backtrace.
 */
#ifndef VT_REPORT_DIFF_GROWTH_H
#define VT_REPORT_DIFF_GROWTH_H

#include <stdbool.h>

#include "base/map.h"
#include "model/model.h"

#define VT_GROWTH_LOOKS 5
#define VT_GROWTH_RISES 4
#define VT_GROWTH_GIVEN_BACK 8 /* at most one part in so many */
#define VT_GROWTH_JUMP 4       /* at least one part in so many comes from other rises than the largest */
#define VT_GROWTH_MAX_PLACES 100000

enum vt_growth_by { VT_GROWTH_BY_SITE, VT_GROWTH_BY_SIZE };

struct vt_growth_place {
	const struct vt_model_frame *title; /* of a site; NULL: of traces without a frame */
	int device;                         /* of a size: */
	uint64_t stream, size;
	struct vt_model_amount first, last; /* 0 before it was first met */
	int64_t change;                     /* bytes, in the last interval */
	uint64_t rises, falls;              /* intervals */
	uint64_t taken, given, largest;     /* bytes: of all rises, of all falls, of the largest rise */
	uint64_t replaced;                  /* bytes of rises that do not count */
	size_t look;                        /* in which it was met last */
};

struct vt_growth {
	enum vt_growth_by by;
	struct vt_arena arena; /* the titles */
	struct vt_map index;
	VT_VEC(struct vt_growth_place) places;
	size_t looks;
	uint64_t untraced, fell[2]; /* bytes without a backtrace; by how much they became less in this interval, and the one before */
	bool cut; /* there are more places than are followed */
};

void vt_growth_init(struct vt_growth *growth, enum vt_growth_by by);
void vt_growth_deinit(struct vt_growth *growth);

/* Whether model can be a look: exact, and with backtraces for sites. */
bool vt_growth_is_look(const struct vt_growth *growth, const struct vt_model *model);

/* Adds one. False when out of memory: growth is of no use then. */
bool vt_growth_add(struct vt_growth *growth, const struct vt_model *model);

bool vt_growth_is_growing(const struct vt_growth *growth, const struct vt_growth_place *place);

/*
 * Fills order (room for places.n) with indices of places: what grows first, each part by how much it has grown in all. Returns how
 * many grow.
 */
size_t vt_growth_order(const struct vt_growth *growth, size_t *order);

/* Bytes, between the first look and the last; at least so many, where something was replaced. */
int64_t vt_growth_grown(const struct vt_growth_place *place);

/* The place that grows and has grown most, NULL when none grows. */
const struct vt_growth_place *vt_growth_most(const struct vt_growth *growth);

/* The place with the largest rise in the last interval, NULL when none rose. */
const struct vt_growth_place *vt_growth_latest(const struct vt_growth *growth);

#endif
