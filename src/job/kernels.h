/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What runs on a member's devices, as the CUDA debugger told: of each kernel what a comparison of
 * ranks needs. Texts are interned.
 */
#ifndef VT_JOB_KERNELS_H
#define VT_JOB_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "base/vec.h"
#include "model/kernels.h"

struct vt_job;
struct vt_member;

struct vt_job_kernel {
	const char *name;                   /* without the values of its arguments */
	int device;                         /* CUDA's number in this process */
	unsigned int sms;                   /* on how many multiprocessors it is; 0 unknown */
	uint32_t grid_dim[3], block_dim[3]; /* all 0: unknown */
	const char *file;                   /* where most of its threads are; NULL unknown */
	int line;
};

#define VT_JOB_MAX_KERNELS 16 /* of a member: those on most of the device */

struct vt_job_kernels {
	enum vt_kernels_state state;
	const char *why;                   /* NULL none */
	double took_ms;                    /* about as long as the process stood still for it */
	VT_VEC(struct vt_job_kernel) list; /* by name */
	size_t more;                       /* that run, too */
	VT_VEC(const char *) raised;       /* "Warp Illegal Address" */
};

/* Takes what a report has of them. False: out of memory. */
bool vt_job_kernels_add(struct vt_job *job, struct vt_job_kernels *kernels,
			const struct vt_model_kernels *from);

/* It was told, even if nothing runs. */
bool vt_job_kernels_known(const struct vt_job_kernels *kernels);

/* Kernels of a collective run there, and no others. */
bool vt_job_kernels_are_collective(const struct vt_job_kernels *kernels);

/*
 * "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "f, 2 x g<…>", "nothing". whole: with their sizes and
 * lines. ellipsis: "…" or "...".
 */
void vt_job_kernels_say(struct vt_str *text, const struct vt_job_kernels *kernels, bool whole,
			const char *ellipsis);

#endif
