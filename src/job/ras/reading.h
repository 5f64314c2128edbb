/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to job/ras: the answers of NCCL's RAS (src/ras/client_support.cc of NCCL 2.24 to 2.30):
 * text, or JSON from 2.28.7 on. The process that sent them may be hostile.
 */
#ifndef VT_JOB_RAS_READING_H
#define VT_JOB_RAS_READING_H

#include "job/internal.h"

struct vt_ras_reading {
	struct vt_job *job;
	struct vt_ras *ras;
	bool whole;         /* the answer is complete */
	size_t n_ranks;     /* named in all groups */
	size_t first_group; /* of the current part of the answer */
};

/* The group of this part that equals like, created if needed; NULL: out of memory or too many. */
struct vt_ras_group *vt_ras_group(struct vt_ras_reading *r, const struct vt_ras_group *like);

/* Ends a part: makes its groups with the same subject adjacent. */
void vt_ras_end_part(struct vt_ras_reading *r);

/* Removes all groups from the nth on. */
void vt_ras_drop_groups(struct vt_ras_reading *r, size_t n);

/* Adds a rank; beyond the most a job can have, only counts it. host: n bytes. */
void vt_ras_add_rank(struct vt_ras_reading *r, struct vt_ras_group *group, int rank, pid_t pid,
		     const char *host, size_t n);

/* Adds a raw line that was not understood. Keeps only some of many. */
void vt_ras_add_line(struct vt_ras_reading *r, const char *line, size_t n);

/*
 * Each fills ras as far as it understands the text, and sets ras->understood if it understood all.
 */
void vt_ras_read_text(struct vt_ras_reading *r, const char *text); /* job/ras/text.c */
/* job/ras/told.c; changes text */
void vt_ras_read_json(struct vt_ras_reading *r, char *text, size_t n);

#endif
