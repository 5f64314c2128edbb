/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sections of the text report. Each prints nothing when nothing is known, and begins with an
 * empty line.
 */
#ifndef VT_REPORT_TEXT_TEXT_H
#define VT_REPORT_TEXT_TEXT_H

#include "model/find.h"
#include "report/text/line.h"
#include "model/model.h"

/* What a diagnostic is about; one that is about everything is about each. */
#define VT_TOPIC_MEMORY 1u
#define VT_TOPIC_THREADS 2u
#define VT_TOPIC_ALL (VT_TOPIC_MEMORY | VT_TOPIC_THREADS)

/* Who it is, and how it was read; the answer in a few lines; what is missing, notes, and whether it is complete. */
void vt_text_head(struct vt_line *line, const struct vt_model *model);
void vt_text_headlines(struct vt_line *line, const struct vt_model *model);
void vt_text_end(struct vt_line *line, const struct vt_model *model, unsigned int topics, const char *command);

/* The end of a single part: only what is missing, nothing when nothing is. */
void vt_text_missing(struct vt_line *line, const struct vt_model *model, unsigned int topics);

/*
 * A line for each device that the process uses; why there is none of what a debugger holds; what holds its memory; what
 * PyTorch's own statistics say.
 */
void vt_text_devices(struct vt_line *line, const struct vt_model *model);
void vt_text_not_asked(struct vt_line *line, const struct vt_model *model);
void vt_text_memory(struct vt_line *line, const struct vt_model *model);

/* The out-of-memory error that the report was made for. */
void vt_text_caught(struct vt_line *line, const struct vt_model *model);

/* The largest groups of blocks; the count largest blocks; every block; why there are none, or not all. */
void vt_text_block_groups(struct vt_line *line, const struct vt_model *model);
void vt_text_largest_blocks(struct vt_line *line, const struct vt_model *model, size_t count);
void vt_text_all_blocks(struct vt_line *line, const struct vt_model *model);
void vt_text_no_blocks(struct vt_line *line, const struct vt_model *model);

/* Why there is no allocator, if there is none. */
void vt_text_no_allocator(struct vt_line *line, const struct vt_model *model);

/* "in use"; "private 12:0 small exp."; "default" */
#define VT_TEXT_MAX 80
const char *vt_text_state(uint8_t state);
const char *vt_text_pool(char buf[VT_TEXT_MAX], const struct vt_block_rec *b);
const char *vt_text_stream(char buf[VT_TEXT_MAX], uint64_t stream);

/* Why an allocator has no exact numbers, in a few words; the diagnostics say it in full. */
const char *vt_text_why_inexact(const struct vt_model_allocator *a);

/* How far the collectives of each process group are; the parts of such a table: ranks are those of a row, named: NULL as above. */
void vt_text_collectives(struct vt_line *line, const struct vt_model *model);
void vt_text_group_title(struct vt_line *line);
int vt_text_group_ranks_columns(const struct vt_line *line);
void vt_text_group_row(struct vt_line *line, const struct vt_model_process_group *named, const char *ranks,
		       const struct vt_model_process_group *state);

/* PyTorch's pinned host memory; every block of it. */
void vt_text_pinned(struct vt_line *line, const struct vt_model *model);
void vt_text_pinned_blocks(struct vt_line *line, const struct vt_model *model);
/* Where blocks were allocated; all: every site, with its backtraces. */
void vt_text_sites(struct vt_line *line, const struct vt_model *model, bool all);

/* That nothing is recorded, and what would record; the frames of a recorded backtrace; why blocks have none, as half a sentence. */
void vt_text_no_sites(struct vt_line *line, const struct vt_model *model);
void vt_text_trace(struct vt_line *line, const struct vt_model *model, const struct vt_model_trace *trace);
void vt_text_untraced(const struct vt_model *model, enum vt_untraced why, struct vt_str *text);

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

/* One thread with all that is known, and the number of each Python frame, that with the selected one marked; a frame's variables. */
void vt_text_thread(struct vt_line *line, const struct vt_model *model, const struct vt_model_thread *t, size_t selected);
void vt_text_locals(struct vt_line *line, const struct vt_model_frame *f);

/* All about what is at an address, or that nothing is. */
void vt_text_found(struct vt_line *line, const struct vt_model *model, const struct vt_found *found);

/* An empty line and a title in bold; hint (NULL: none) follows where there is room. */
void vt_text_title(struct vt_line *line, const char *hint, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Ends the title's line, with hint (NULL: none) where there is room. */
void vt_text_end_title(struct vt_line *line, const char *hint);

#endif
