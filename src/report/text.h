/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sections of the text report. Each prints nothing when nothing is known, and begins with an
 * empty line.
 */
#ifndef VT_REPORT_TEXT_H
#define VT_REPORT_TEXT_H

#include "report/line.h"
#include "report/model.h"

/* Who it is, and how it was read; the answer in a few lines; what is missing, notes, and whether it is complete. */
void vt_text_head(struct vt_line *line, const struct vt_model *model);
void vt_text_headlines(struct vt_line *line, const struct vt_model *model);
void vt_text_end(struct vt_line *line, const struct vt_model *model, const char *command);

/*
 * A line for each device that the process uses; what holds its memory; what PyTorch's own
 * statistics say.
 */
void vt_text_devices(struct vt_line *line, const struct vt_model *model);
void vt_text_memory(struct vt_line *line, const struct vt_model *model);

/* The out-of-memory error that the report was made for. */
void vt_text_caught(struct vt_line *line, const struct vt_model *model);

/* The largest groups of blocks; every block. */
void vt_text_block_groups(struct vt_line *line, const struct vt_model *model);
void vt_text_all_blocks(struct vt_line *line, const struct vt_model *model);

/* PyTorch's pinned host memory; every block of it. */
void vt_text_pinned(struct vt_line *line, const struct vt_model *model);
void vt_text_pinned_blocks(struct vt_line *line, const struct vt_model *model);
/* Where blocks were allocated; all: every site, with its backtraces. */
void vt_text_sites(struct vt_line *line, const struct vt_model *model, bool all);

/* Other allocations of the driver's memory that were recorded; requests that failed. */
void vt_text_driver(struct vt_line *line, const struct vt_model *model);
void vt_text_ooms(struct vt_line *line, const struct vt_model *model);

/* "forward attn.py:57" */
void vt_text_frame_label(const struct vt_line *line, struct vt_str *text, const struct vt_model_frame *f);

/* Where a site is, in so many columns: function, file and line; NULL is that of what has no frame. */
void vt_text_site(struct vt_line *line, const struct vt_model_frame *f, int columns);

/* A line with one frame of a stack in full; function_columns: of the function's name. */
void vt_text_frame(struct vt_line *line, const struct vt_model_frame *f, int function_columns);

void vt_text_threads(struct vt_line *line, const struct vt_model *model, enum vt_threads_shown shown);

/* An empty line and a title in bold; hint (NULL: none) follows where there is room. */
void vt_text_title(struct vt_line *line, const char *hint, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Ends the title's line, with hint (NULL: none) where there is room. */
void vt_text_end_title(struct vt_line *line, const char *hint);

#endif
