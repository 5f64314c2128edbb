/* SPDX-License-Identifier: Apache-2.0 */
/* A table of the memory of ranks: a row for each kind, a column for ranks with like figures. */
#ifndef VT_JOB_TEXT_FIGURES_H
#define VT_JOB_TEXT_FIGURES_H

#include "base/vec.h"
#include "job/internal.h"
#include "report/text/line.h"

#define VT_FIGURES_MAX 48 /* rows */

#define VT_FIGURE_UNKNOWN UINT64_MAX /* shown as "?"; 0 is shown as "-" */

struct vt_figures_group {
	uint64_t least[VT_FIGURES_MAX], most[VT_FIGURES_MAX];
	struct vt_job_indices members;
};

struct vt_figures {
	const char *title, *narrow_title;
	const char *(*label)(size_t row);
	const char *why_unlike; /* why figures are not known */
	size_t n_rows;
	size_t n_sorted; /* so many of the first rows come in the order of their figures */
	/* filled by vt_figures_add(): */
	VT_VEC(struct vt_figures_group) groups;
	struct vt_job_indices unlike;
};

/* bytes: of each row; NULL: not known. False when out of memory. */
bool vt_figures_add(struct vt_figures *f, const uint64_t *bytes, uint32_t member);

/* Rows of 0 are left out. */
void vt_figures_print(struct vt_line *line, const struct vt_job *job, struct vt_figures *f);
void vt_figures_deinit(struct vt_figures *f);

#endif
