/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to job/ras: the words of NCCL's RAS (src/ras/client_support.cc of NCCL 2.24 to 2.30): text, or JSON from 2.28.7 on. They were sent by a
 * process that may be hostile.
 */
#ifndef VT_JOB_RAS_READING_H
#define VT_JOB_RAS_READING_H

#include "job/parts.h"

struct vt_ras_reading {
	struct vt_job *job;
	struct vt_ras *ras;
	bool whole;         /* the answer came to its end */
	size_t n_ranks;     /* named in all groups */
	size_t first_group; /* of the part of the answer that is read */
};

/* The group of this part that is like it, made when there is none; NULL when out of memory, or there are too many. */
struct vt_ras_group *vt_ras_group(struct vt_ras_reading *r, const struct vt_ras_group *like);

/* A part is read: those of its groups that are about the same become neighbours. */
void vt_ras_end_part(struct vt_ras_reading *r);

/* All groups from the nth on. */
void vt_ras_drop_groups(struct vt_ras_reading *r, size_t n);

/* Adds one; of more than a job can have the number only. host: n bytes. */
void vt_ras_add_rank(struct vt_ras_reading *r, struct vt_ras_group *group, int rank, pid_t pid, const char *host, size_t n);

/* A line as it is: for what was not understood. Some of many. */
void vt_ras_add_line(struct vt_ras_reading *r, const char *line, size_t n);

/* Each fills ras as far as it understands the text, and sets ras->understood when that is all of it. */
void vt_ras_read_text(struct vt_ras_reading *r, const char *text);      /* job/ras/text.c */
void vt_ras_read_json(struct vt_ras_reading *r, char *text, size_t n);  /* job/ras/told.c; changes text */

#endif
