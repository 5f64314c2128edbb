/* SPDX-License-Identifier: Apache-2.0 */
/* What a series of looks at one process found to grow (watch --grow): part of the model. */
#ifndef VT_MODEL_GROWTH_H
#define VT_MODEL_GROWTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"

enum vt_grown_by {
	VT_GROWN_LINE, /* of the ledger: memory that is not PyTorch's */
	VT_GROWN_SITE,
	VT_GROWN_SIZE,
	VT_GROWN_OWNER,
	VT_N_GROWN_BY
};

struct vt_model_grown {
	enum vt_grown_by by;
	const char *name;  /* of a line: its code, "device_memory"; else NULL */
	const char *label; /* in words */
	int device;        /* -1: of none, or of all */
	uint64_t before_bytes, after_bytes;
	uint64_t before_blocks,
		after_blocks; /* of a line: ranges or chunks; of an owner: tensors */
	int64_t grown_bytes;  /* after - before, without what replaced older memory */
};

/* How much one source had at the points of a course. */
struct vt_model_course_line {
	const char *name;  /* as in struct vt_model_grown */
	const char *label; /* in words */
	int device;        /* -1: of none, or of all */
	bool grows;
	const uint64_t *bytes; /* at each point; UINT64_MAX: not known then */
};

/* The largest sources of a kind over the looks; when there are many looks, not each is a point. */
struct vt_model_course {
	enum vt_grown_by by;
	const double *seconds; /* since the first look */
	const uint64_t *sums; /* of all sources, UINT64_MAX unknown; lines can contain each other */
	size_t n_points;
	const struct vt_model_course_line *lines; /* the largest at the last look first */
	size_t n_lines;
	size_t left_out; /* came when there were too many: large ones may be among them */
};

struct vt_model_growth {
	bool known; /* the report is the last of a series */
	uint64_t looks, failed;
	uint64_t line_looks, owner_looks;       /* of looks: with a ledger, with owners */
	double seconds;                         /* from the first look to the last */
	double line_seconds;                    /* the same of those with a ledger */
	VT_VEC(struct vt_model_grown) items;    /* what grows; the largest of each kind first */
	VT_VEC(struct vt_model_course) courses; /* how it went: of each kind that there is */
};

/* "line", "site", "size", "owner" */
const char *vt_grown_by_name(unsigned int by);

#endif
