/* SPDX-License-Identifier: Apache-2.0 */
/* The summary of a job as text, and its sections that have their own file. */
#ifndef VT_JOB_TEXT_TEXT_H
#define VT_JOB_TEXT_TEXT_H

#include "job/job.h"
#include "report/text/line.h"
#include "report/writer.h"

struct vt_str;

/*
 * The summary: verdicts, outliers, the tree, devices, imbalance, and processes that were not read.
 */
vt_write_fn vt_write_job_text; /* of a struct vt_job */

/* job/text/chains.c: where to start, and what can be done there. */
void vt_text_job_chains(struct vt_line *line, const struct vt_job *job);

/* job/text/groups.c: the progress of ranks in each process group. */
void vt_text_job_groups(struct vt_line *line, const struct vt_job *job);

/* job/text/kernels.c: what the GPUs of ranks run, if that was asked. */
void vt_text_job_kernels(struct vt_line *line, const struct vt_job *job);

/* job/text/faults.c: faults of the GPUs, and what they say of their own health. */
void vt_text_job_faults(struct vt_line *line, const struct vt_job *job);

/* job/text/memory.c: each device with its holders; how much memory ranks have. */
void vt_text_job_devices(struct vt_line *line, const struct vt_job *job);
void vt_text_job_imbalance(struct vt_line *line, const struct vt_job *job);

/*
 * job/text/holders.c: who uses a device, each with its memory: by the driver's count, or PyTorch's.
 * False: out of memory.
 */
bool vt_text_job_holders(const struct vt_job *job, const struct vt_job_device *d, bool counted,
			 struct vt_str *text);

/* job/text/tree.c: all stacks as a tree. */
void vt_text_job_tree(struct vt_line *line, const struct vt_job *job);

/*
 * job/text/frames.c: "train_step train.py:88", "at::native::add libtorch_cpu.so"; a set, "3 [1]",
 * in so many columns at most.
 */
void vt_text_job_frame(struct vt_str *text, const struct vt_job_frame *f, bool ascii);
void vt_text_job_set(const struct vt_job *job, const struct vt_member_set *set, int columns,
		     struct vt_str *text);

/* job/text/frames.c: "Ranks", "Loader workers" */
const char *vt_text_job_role(enum vt_role role);

/* job/text/ledger.c: which libraries hold the memory of ranks. */
void vt_text_job_ledger(struct vt_line *line, const struct vt_job *job);

/* job/text/categories.c: what the memory of ranks is. */
void vt_text_job_categories(struct vt_line *line, const struct vt_job *job);

/* job/text/ras.c: which process answered for NCCL's RAS, and the lines that were not understood. */
void vt_text_job_ras(struct vt_line *line, const struct vt_job *job);

#endif
