/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames by the bytes that they have in a document. Reports of ranks have most frames in common,
 * byte for byte: what was parsed and interned once need not be again. Only what comes twice is
 * kept, so that the frames of one rank alone do not drive out those of all; and it is a cache: of
 * two whose hashes fall together, the later one stays.
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

#define VT_SEEN_LONGEST 208 /* bytes */

struct vt_seen_frame {
	uint32_t n;
	uint32_t cost;  /* what the JSON parser counts for it */
	uint32_t index; /* in job.frames; VT_NO_INDEX: it is not there yet */
	uint32_t next;  /* private: the slot of what was found after it */
	struct vt_job_frame frame;
	char bytes[VT_SEEN_LONGEST];
};

/* The frame that came behind the one that was found last, if the n bytes begin with it again. */
struct vt_seen_frame *vt_job_seen_next(struct vt_job *job, const char *bytes, size_t n);

/* The frame that had these bytes; NULL: it is not known. hash is that of the bytes in any case. */
struct vt_seen_frame *vt_job_seen_find(struct vt_job *job, const char *bytes, size_t n,
				       uint64_t *hash);

/*
 * Where a frame that was not found is to be put: its bytes, and what they are when that is known;
 * until then n is 0. NULL: it comes for the first time, or is too long.
 */
struct vt_seen_frame *vt_job_seen_add(struct vt_job *job, uint64_t hash, size_t n);

#endif
