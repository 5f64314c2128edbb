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

/* The subjects of a diagnostic; a general diagnostic has all of them. */
#define VT_TOPIC_MEMORY 1u
#define VT_TOPIC_THREADS 2u
#define VT_TOPIC_ALL (VT_TOPIC_MEMORY | VT_TOPIC_THREADS)

/*
 * The process and how it was read; the answer in a few lines; what is missing, notes, completeness.
 */
void vt_text_head(struct vt_line *line, const struct vt_model *model);
void vt_text_headlines(struct vt_line *line, const struct vt_model *model);
void vt_text_end(struct vt_line *line, const struct vt_model *model, unsigned int topics,
		 const char *command);

/* The end of a single part: what is missing, if anything. */
void vt_text_missing(struct vt_line *line, const struct vt_model *model, unsigned int topics);

/*
 * A line for each device that the process uses; why there is none while a debugger holds the
 * process; what holds its memory, and PyTorch's own statistics.
 */
void vt_text_devices(struct vt_line *line, const struct vt_model *model);
void vt_text_not_asked(struct vt_line *line, const struct vt_model *model);
void vt_text_memory(struct vt_line *line, const struct vt_model *model);

/*
 * The processes that use a device (NULL: unknown), below its line, on which used_bytes stands;
 * briefly: only if any other does.
 */
void vt_text_gpu_processes(struct vt_line *line, const struct vt_model *model,
			   const struct vt_model_gpu *gpu, bool briefly, uint64_t used_bytes);

/* Where JAX's arrays were made, if it was asked; all: every place, with all frames. */
void vt_text_jax(struct vt_line *line, const struct vt_model *model, bool all);

/* What runs on the devices, if the CUDA debugger was asked. */
void vt_text_kernels(struct vt_line *line, const struct vt_model *model);

/* Which streams have unfinished work. */
void vt_text_streams(struct vt_line *line, const struct vt_model *model);

/* Every allocation of the driver; the largest of those that nobody claims, if these are most. */
void vt_text_ranges(struct vt_line *line, const struct vt_model *model);
void vt_text_raw_ranges(struct vt_line *line, const struct vt_model *model);

/* What to do about it; the commands or settings that follow. */
void vt_text_advice(struct vt_line *line, const struct vt_model *model);
/* The same, once further looks have found that it is stuck: below them. */
void vt_text_advice_stuck(struct vt_line *line, const struct vt_model *model);
void vt_text_next(struct vt_line *line, const struct vt_model *model);

/* The out-of-memory error that the report was made for. */
void vt_text_caught(struct vt_line *line, const struct vt_model *model);

/*
 * The largest groups of blocks; the count largest blocks; every block; why there are none, or not
 * all.
 */
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

/* Why an allocator has no exact numbers, in a few words; the diagnostics have the details. */
const char *vt_text_why_inexact(const struct vt_model_allocator *a);

/*
 * The collectives of each process group; parts of the table: ranks of a row; named: NULL as in the
 * row above.
 */
void vt_text_collectives(struct vt_line *line, const struct vt_model *model);
void vt_text_group_title(struct vt_line *line);
int vt_text_group_ranks_columns(const struct vt_line *line);
void vt_text_group_row(struct vt_line *line, const struct vt_model_process_group *named,
		       const char *ranks, const struct vt_model_process_group *state);

/* What the driver logged of faults. */
void vt_text_faults(struct vt_line *line, const struct vt_model *model);

/* The segments of PyTorch's allocator, to scale. */
void vt_text_map(struct vt_line *line, const struct vt_model *model);

/* Pinned and shared memory of the host, whose it is. */
void vt_text_host(struct vt_line *line, const struct vt_model *model);

/* PyTorch's pinned host memory; every block of it. */
void vt_text_pinned(struct vt_line *line, const struct vt_model *model);
void vt_text_pinned_blocks(struct vt_line *line, const struct vt_model *model);
/* What the blocks in use are: totals, of every block, or what is known of some. */
void vt_text_owners(struct vt_line *line, const struct vt_model *model,
		    const struct vt_writer_options *options);
/* The owners of the count largest blocks. */
void vt_text_largest_owners(struct vt_line *line, const struct vt_model *model, size_t count);
/* Totals by something else than category; all that is known of the blocks that match a pattern. */
void vt_text_owners_by(struct vt_line *line, const struct vt_model *model, enum vt_owners_by by);
void vt_text_owner(struct vt_line *line, const struct vt_model *model, const char *pattern);
/* Beside its name: what it is, what else holds it, what would be freed. */
void vt_text_owner_facts(struct vt_line *line, const struct vt_model *model,
			 const struct vt_model_owner *owner);
/* Where blocks were allocated; all: every site, with its backtraces. */
void vt_text_sites(struct vt_line *line, const struct vt_model *model, bool all);

/*
 * That nothing is recorded, and how to record; the frames of a backtrace; why blocks have none, as
 * a phrase.
 */
void vt_text_no_sites(struct vt_line *line, const struct vt_model *model);
void vt_text_trace(struct vt_line *line, const struct vt_model *model,
		   const struct vt_model_trace *trace);
void vt_text_untraced(const struct vt_model *model, enum vt_untraced why, struct vt_str *text);

/* Other allocations of the driver's memory that were recorded; requests that failed. */
void vt_text_driver(struct vt_line *line, const struct vt_model *model);
void vt_text_ooms(struct vt_line *line, const struct vt_model *model);
/* "PyTorch stream 3"; "busy both times": what the driver says of it. */
void vt_text_stream_name(struct vt_str *text, const struct vt_model_stream *stream);
void vt_text_stream_doing(struct vt_str *text, const struct vt_model_stream *stream);
/* Those that were asked once more after further looks, and are not idle. */
void vt_text_streams_later(struct vt_line *line, const struct vt_model *model);
/* What streams were given and is not known to have ended. */
void vt_text_launches(struct vt_line *line, const struct vt_model *model);

/* "forward attn.py:57" */
void vt_text_frame_label(const struct vt_line *line, struct vt_str *text,
			 const struct vt_model_frame *f);

/* The place of a site in columns columns: function, file and line; NULL: without a frame. */
void vt_text_site(struct vt_line *line, const struct vt_model_frame *f, int columns);

/* A line with one frame of a stack in full; function_columns: of the function's name. */
void vt_text_frame(struct vt_line *line, const struct vt_model_frame *f, int function_columns);

/* What further looks showed of each thread. */
void vt_text_again(struct vt_line *line, const struct vt_model *model);

/* The frames of a stack, below the line that says whose it is; most: lines, unless all. */
void vt_text_stack(struct vt_line *line, const struct vt_model *model,
		   const struct vt_model_stack *stack, bool all, size_t most);

/* asyncio's tasks (tasks.c). */
void vt_text_tasks(struct vt_line *line, const struct vt_model *model, enum vt_threads_shown shown);

void vt_text_threads(struct vt_line *line, const struct vt_model *model,
		     enum vt_threads_shown shown);
/* Those that wait for the device or give it work, each with its frames. */
void vt_text_threads_in_cuda(struct vt_line *line, const struct vt_model *model);

/*
 * One thread in full, with the numbers of its Python frames, the selected one marked; a frame's
 * variables.
 */
void vt_text_thread(struct vt_line *line, const struct vt_model *model,
		    const struct vt_model_thread *t, size_t selected);
void vt_text_locals(struct vt_line *line, const struct vt_model_frame *f);

/* A line "label  text" of a list of facts about one thing; a long text goes on below itself. */
void vt_text_fact(struct vt_line *line, const char *label, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/*
 * How memory was allocated, as facts: when and by which thread (record: NULL unknown), and its
 * backtrace (index: in model.traces, or why there is none); both of a block of PyTorch's.
 */
void vt_text_record(struct vt_line *line, const struct vt_model_record *record);
void vt_text_backtrace(struct vt_line *line, const struct vt_model *model, uint32_t index);
void vt_text_origin(struct vt_line *line, const struct vt_model *model, size_t block);

/* Everything about an address, or that nothing is there. */
void vt_text_found(struct vt_line *line, const struct vt_model *model,
		   const struct vt_found *found);

/*
 * The host, the time there and the version, on one line if it is wide enough; the time alone:
 * "2026-11-24 18:40:12 UTC (19:40 CET)".
 */
void vt_text_where(struct vt_line *line, const struct vt_model_where *where,
		   const struct timespec *when, const char *version);
void vt_text_when(struct vt_str *text, const struct timespec *when,
		  const struct vt_model_where *where);

/*
 * What tells a device apart from all others, ASCII: "1B:00.0 GPU-8f2e1c34", or in full; "" unknown.
 * gpu: as NVML knows it, or NULL.
 */
const char *vt_text_gpu_id(char buf[VT_TEXT_MAX], const struct vt_model_device *d,
			   const struct vt_model_gpu *gpu, bool in_full);

/* An empty line and a title in bold; hint (NULL: none) follows where there is room. */
void vt_text_title(struct vt_line *line, const char *hint, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Ends the title's line, with hint (NULL: none) where there is room. */
void vt_text_end_title(struct vt_line *line, const char *hint);

#endif
