/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames, stacks and doings by the bytes that they have in a document. Reports of ranks have most
 * of them in common, byte for byte: what was parsed and interned once need not be again. Only what
 * comes twice is kept, so that what one rank alone has does not drive out what all have; and it is
 * a cache: of many whose hashes fall together, some do not stay.
 *
 * They also come in the same order, so the one that followed last time is looked at before any hash
 * is taken.
 */
#ifndef VT_JOB_JSON_SEEN_H
#define VT_JOB_JSON_SEEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "job/job.h"

#define VT_SEEN_LONGEST 384 /* bytes */
#define VT_SEEN_FRAMES 64   /* of a stack */

/* Each has a cache of its own. */
enum vt_seen_kind { VT_SEEN_FRAME, VT_SEEN_STACK, VT_SEEN_DOING, VT_N_SEEN };

/* Indices of stacks and doings are those of the document. */
struct vt_seen {
	uint32_t n;     /* bytes; 0: what they are is not known yet */
	uint32_t cost;  /* what the JSON parser counts for it */
	uint32_t index; /* of a frame, in job.frames; VT_NO_INDEX: it is not there yet */
	uint32_t next;  /* private: the slot of what was found after it */
	union {
		struct vt_job_frame frame;
		struct {
			uint32_t n;
			uint32_t frames[VT_SEEN_FRAMES];
		} stack;
		struct vt_job_doing doing;
	};
	char bytes[VT_SEEN_LONGEST];
};

/* What came behind the one that was found last, if the n bytes begin with it again. */
struct vt_seen *vt_job_seen_next(struct vt_job *job, enum vt_seen_kind kind, const char *bytes,
				 size_t n);

/* What had these bytes; NULL: it is not known. hash is that of the bytes in any case. */
struct vt_seen *vt_job_seen_find(struct vt_job *job, enum vt_seen_kind kind, const char *bytes,
				 size_t n, uint64_t *hash);

/*
 * Where what was not found is to be put: its bytes, and what they are when that is known; until
 * then n is 0. NULL: it comes for the first time, or is too long.
 */
struct vt_seen *vt_job_seen_add(struct vt_job *job, enum vt_seen_kind kind, uint64_t hash,
				size_t n);

#endif
