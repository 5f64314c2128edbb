/* SPDX-License-Identifier: Apache-2.0 */
/* The summary of a job as text, and those of its sections that have a file of their own. */
#ifndef VT_JOB_TEXT_TEXT_H
#define VT_JOB_TEXT_TEXT_H

#include "job/job.h"
#include "report/text/line.h"
#include "report/writer.h"

/* The summary: the verdicts, outliers, the tree, devices, imbalance, who could not be read. */
vt_write_fn vt_write_job_text; /* of a struct vt_job */

/* job/text/groups.c: how far ranks are in each process group. */
void vt_text_job_groups(struct vt_line *line, const struct vt_job *job);

/* job/text/memory.c: each device with who holds what of it; how much memory ranks have. */
void vt_text_job_devices(struct vt_line *line, const struct vt_job *job);
void vt_text_job_imbalance(struct vt_line *line, const struct vt_job *job);

/* job/text/ras.c: whom NCCL's RAS was asked through, and its words where they are not understood. */
void vt_text_job_ras(struct vt_line *line, const struct vt_job *job);

#endif
