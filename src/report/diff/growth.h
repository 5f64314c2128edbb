/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the sources whose memory grows, from a series of looks at one process. A source is a site
 * if backtraces are recorded; otherwise all blocks in use of one size on one stream. A look counts
 * only if every allocator in it is exact. A source may also be an owner: a variable that holds
 * blocks for one purpose (keepers.h). Its looks are fewer, as they cost more. And a source may be
 * a line of the ledger (lines.h): memory that is not PyTorch's. A line that is not known for
 * certain in a look is left out of that look.
 *
 * A source grows if all these conditions hold:
 *
 *	enough   there were 5 looks or more: 3 rises in a row are chance once in 24 times, of a
 *	         saw-tooth that is met at random
 *	often    it rose in more than half of the intervals, or rose 4 times, never fell: slow leak
 *	kept     all falls are at most 1/8 of all rises: no saw-tooth, no replaced cache
 *	no jump  without its largest rise it grew by 1/4 of the whole or more: no one-time buffer
 *
 * For an owner, these have to hold: it was there in 5 looks at owners, rose in more than half of
 * the intervals since it first appeared, never fell, and it is no jump. A variable that only grows
 * is what a leak in a list or a dict is.
 *
 * For a line, the conditions are those of a place over the looks in which it was known, and one
 * more: it rose in the last third of them. A library that loads code or fills a pool in the first
 * minutes is no leak.
 *
 * Blocks that are older than the recording have no backtrace; the blocks that replace them do. So a
 * rise counts only as far as it exceeds the decrease of blocks without a backtrace in that interval
 * and in the one before.
 */
#ifndef VT_REPORT_DIFF_GROWTH_H
#define VT_REPORT_DIFF_GROWTH_H

#include <stdbool.h>

#include "base/map.h"
#include "model/model.h"
#include "report/diff/course.h"

#define VT_GROWTH_LOOKS 5
#define VT_GROWTH_RISES 4
#define VT_GROWTH_GIVEN_BACK 8 /* at most one part in so many */
/* at least one part in so many comes from other rises than the largest */
#define VT_GROWTH_JUMP 4
#define VT_GROWTH_MAX_SOURCES 100000

enum vt_growth_by { VT_GROWTH_BY_SITE, VT_GROWTH_BY_SIZE, VT_GROWTH_BY_OWNER, VT_GROWTH_BY_LINE };

struct vt_growth_source {
	const struct vt_model_frame *title; /* of a site; NULL: traces without a frame */
	unsigned int line;                  /* of the ledger (lines.h) */
	int device;                         /* of a line; of a size: */
	uint64_t stream, size;
	const char *variable, *path; /* of an owner, with the category: see struct vt_keeper */
	enum vt_category category;
	bool certain;
	/* 0 before it first appeared; an owner's blocks are its tensors */
	struct vt_model_amount first, last;
	int64_t change;        /* bytes, in the last interval */
	uint64_t rises, falls; /* intervals */
	/* bytes: of all rises, of all falls, of the largest rise */
	uint64_t taken, given, largest;
	uint64_t replaced; /* bytes of rises that do not count */
	size_t look;       /* the last look that has it */
	size_t born;       /* the first one */
	size_t seen;       /* looks that have it */
	size_t rose_at;    /* what seen was when it rose last */
};

struct vt_growth {
	enum vt_growth_by by;
	struct vt_arena arena; /* the titles */
	struct vt_map index;
	VT_VEC(struct vt_growth_source) sources;
	size_t looks;
	uint64_t untraced, fell[2]; /* bytes without a backtrace; decrease in two intervals */
	bool cut;                   /* there are more sources than are tracked */
	bool by_attributes;         /* by line: what the driver told of kinds in the first look */
	struct vt_course course;    /* of all sources */
	struct timespec began;      /* the first look, CLOCK_REALTIME */
};

void vt_growth_init(struct vt_growth *growth, enum vt_growth_by by);
void vt_growth_deinit(struct vt_growth *growth);

/* Whether owners of model can be compared: it has all of them, of one moment. */
bool vt_growth_has_owners(const struct vt_model *model);

/* Whether model can be a look: it is exact and has what is compared: backtraces, owners, ledger. */
bool vt_growth_is_look(const struct vt_growth *growth, const struct vt_model *model);

/* Adds a look. False when out of memory: growth is then unusable. */
bool vt_growth_add(struct vt_growth *growth, const struct vt_model *model);

bool vt_growth_is_growing(const struct vt_growth *growth, const struct vt_growth_source *source);

/*
 * Fills order (room for sources.n) with indices of sources: growing sources first, both parts by
 * total growth. Returns the number of growing sources.
 */
size_t vt_growth_order(const struct vt_growth *growth, size_t *order);

/* Bytes, between the first look and the last; a lower bound if something was replaced. */
int64_t vt_growth_grown(const struct vt_growth_source *source);

/* The source that grows and has grown most, NULL when none grows. */
const struct vt_growth_source *vt_growth_most(const struct vt_growth *growth);

/* The source with the largest rise in the last interval, NULL when none rose. */
const struct vt_growth_source *vt_growth_latest(const struct vt_growth *growth);

#endif
