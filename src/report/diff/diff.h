/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares two reports: which device memory changed, and at which sites. Every number comes from
 * one of the models or is the difference of two; a number that is inexact in one of them is not
 * compared, and a note tells so. Sites match by title, backtraces by all frames (model/place.h).
 * Strings are in the arena of the comparison or of the models, which must outlive it.
 */
#ifndef VT_REPORT_DIFF_DIFF_H
#define VT_REPORT_DIFF_DIFF_H

#include <stdbool.h>
#include <stdio.h>

#include "model/model.h"
#include "report/diff/keepers.h"
#include "report/writer.h"

struct vt_diff_amount {
	struct vt_model_amount before, after;
};

static inline int64_t vt_diff_bytes(const struct vt_diff_amount *a)
{
	return (int64_t)(a->after.bytes - a->before.bytes);
}

static inline int64_t vt_diff_blocks(const struct vt_diff_amount *a)
{
	return (int64_t)(a->after.blocks - a->before.blocks);
}

/* The parts of a device's memory that are compared. */
enum vt_diff_part {
	VT_DIFF_ALLOCATED, /* in use by PyTorch */
	VT_DIFF_AWAITING,
	VT_DIFF_CACHED,
	VT_DIFF_OTHER, /* everything else on the device */
	VT_DIFF_FREE,
	VT_N_DIFF_PARTS
};

/* Lines of the ledger: the pools of libraries, kinds of memory, and what is left of the process. */
enum {
	VT_DIFF_LINE_KINDS = VT_N_CLAIMERS, /* before: claimers; PyTorch's parts are not repeated */
	VT_DIFF_LINE_REST = VT_DIFF_LINE_KINDS + VT_N_RANGE_KINDS,
	VT_N_DIFF_LINES
};

struct vt_diff_device {
	int ordinal;
	bool has_lines; /* the ledgers can be compared: then "everything else" is split up */
	bool line_known[VT_N_DIFF_LINES];
	struct vt_diff_amount lines[VT_N_DIFF_LINES];
	bool known[VT_N_DIFF_PARTS];                  /* in both, exactly */
	struct vt_diff_amount parts[VT_N_DIFF_PARTS]; /* the last two have no blocks: 0 */
	bool exact; /* the allocators can be compared: exact in both, or missing in one */
};

struct vt_diff_trace {
	const struct vt_model *model; /* the model with this trace: the later one if both have it */
	const struct vt_model_trace *trace;
	struct vt_diff_amount amount;
	struct vt_model_amount kept; /* blocks that are in both */
	size_t site;                 /* index in vt_diff.sites, until they are sorted */
	/* index in vt_diff.traces, VT_NO_TRACE after the last; by growth */
	size_t next_in_site;
};

struct vt_diff_site {
	const struct vt_model_frame *title; /* NULL: traces without a frame */
	struct vt_diff_amount amount;
	struct vt_model_amount kept;
	uint64_t unsure; /* may be kept, too: the second report has no record, or another */
	struct vt_model_ages ages; /* in the later report */
	size_t first_trace, n_traces;
};

/* Blocks of one size on one stream, in use. */
struct vt_diff_group {
	int device;
	uint64_t stream, size;
	struct vt_diff_amount amount;
};

/* Driver allocations outside PyTorch's allocator, by library, as vramtap recorded them. */
struct vt_diff_driver {
	const struct vt_model_driver_group *group; /* the later one if both have it */
	struct vt_diff_amount amount;
};

/* A variable, or an attribute, that holds blocks, for one purpose. */
struct vt_diff_owner {
	const char *variable, *path; /* see struct vt_keeper */
	enum vt_category category;
	bool certain; /* in the later report that has it */
	struct vt_diff_amount amount;
	uint64_t tensors_before, tensors_after;
	/*
	 * Of what it holds now: blocks that were in use before, at the same address and of the same
	 * size, and that another owner held. They may be the same, and have another name now.
	 */
	struct vt_model_amount renamed;
};

/* Whether owners can be compared. */
enum vt_diff_owners {
	VT_DIFF_OWNERS_COMPARED,
	VT_DIFF_OWNERS_NEITHER, /* neither has them */
	VT_DIFF_OWNERS_AFTER,   /* only the later one has */
	VT_DIFF_OWNERS_BEFORE,
	VT_DIFF_OWNERS_INEXACT, /* an allocator is not exact in one */
};

/* Whether sites can be compared. */
enum vt_diff_sites {
	VT_DIFF_SITES_COMPARED,
	VT_DIFF_SITES_NEITHER, /* neither has backtraces */
	VT_DIFF_SITES_AFTER,   /* only the later one has: earlier sizes are unknown */
	VT_DIFF_SITES_BEFORE,
	VT_DIFF_SITES_INEXACT, /* an allocator is exact in only one */
};

struct vt_diff {
	struct vt_arena arena;
	const struct vt_model *before, *after;
	const char *why_other; /* ours; NULL: both are of one process */
	double seconds;        /* from before to after; may be below 0 */
	VT_VEC(struct vt_diff_device) devices;
	enum vt_diff_sites sites_compared;
	VT_VEC(struct vt_diff_site) sites; /* by growth; for _AFTER and _BEFORE: of that report */
	VT_VEC(struct vt_diff_trace) traces;
	struct vt_diff_amount untraced[VT_N_UNTRACED]; /* if sites are compared */
	VT_VEC(struct vt_diff_group) groups;           /* by growth; of devices that are exact */
	VT_VEC(struct vt_diff_driver) driver;          /* by growth */
	enum vt_diff_owners owners_compared;
	VT_VEC(struct vt_diff_owner) owners; /* by growth */
	/* both have all of them, or what was asked for: then no change is one of reading */
	bool owners_whole;
	struct vt_diff_amount categories[VT_N_CATEGORIES];
	struct vt_keepers keepers[2]; /* before, after: what owners' strings are in */
	bool kept_known;
	/*
	 * Blocks in use in both, at the same address, with the same size and backtrace, and not
	 * known to be newer than the first report.
	 */
	struct vt_model_amount kept;
	uint64_t kept_traced; /* of its blocks, those with a backtrace; others have none twice */
	bool kept_certain;    /* each is known to be older than that; else some may have
			    * been freed, and allocated again in the same way */
	VT_VEC(struct vt_model_headline) headlines;
	VT_VEC(struct vt_diag) notes;
	enum vt_completeness completeness;
};

/* VT_ERR_NOMEM. */
struct vt_error *vt_diff_create(struct vt_diff *diff, const struct vt_model *before,
				const struct vt_model *after);
void vt_diff_deinit(struct vt_diff *diff);

/* "xla", "device_memory", "mapped", ..., "rest_of_process" */
const char *vt_diff_line_name(unsigned int line);
const char *vt_diff_line_label(unsigned int line); /* of texts */

const char *vt_diff_part_name(enum vt_diff_part part); /* "allocated", ... */
/* "compared", "not-recorded", ... */
const char *vt_diff_sites_name(enum vt_diff_sites compared);

/* "compared", "not-read", ... */
const char *vt_diff_owners_name(enum vt_diff_owners compared);

struct vt_diff_options {
	size_t limit; /* rows of a table; 0 all */
	bool traces;  /* backtraces below each site */
};

struct vt_error *vt_diff_write_text(const struct vt_diff *diff, const struct vt_diff_options *what,
				    const struct vt_writer_options *options, FILE *out);
struct vt_error *vt_diff_write_json(const struct vt_diff *diff, FILE *out);

#endif
