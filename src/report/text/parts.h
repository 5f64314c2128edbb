/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single parts of a report as text, for the commands of gdb. Each begins with its answer, and ends
 * with what is missing from it (the model's diagnostics), if anything.
 */
#ifndef VT_REPORT_TEXT_PARTS_H
#define VT_REPORT_TEXT_PARTS_H

#include "model/find.h"
#include "report/writer.h"

/* The process, its devices, totals, pinned memory, notes: no list of blocks, no thread. */
struct vt_error *vt_write_summary_text(const struct vt_model *model,
				       const struct vt_writer_options *options, FILE *out);

/* Devices, the memory table, and with options->all_ranges every range. */
struct vt_error *vt_write_ledger_text(const struct vt_model *model,
				      const struct vt_writer_options *options, FILE *out);

/*
 * The largest groups of equal blocks and the largest single blocks, count of them;
 * options->all_blocks: every block.
 */
struct vt_error *vt_write_blocks_text(const struct vt_model *model, size_t count,
				      const struct vt_writer_options *options, FILE *out);

/*
 * Where blocks were allocated; options->all_sites: every site with its backtraces. Says so when
 * nothing was recorded.
 */
struct vt_error *vt_write_sites_text(const struct vt_model *model,
				     const struct vt_writer_options *options, FILE *out);

/*
 * What the blocks in use are: totals, what would be freed, and the owners of the largest blocks,
 * count of them; options->all_owners: of every block; options->owner: all about those that match.
 */
struct vt_error *vt_write_owners_text(const struct vt_model *model, size_t count,
				      const struct vt_writer_options *options, FILE *out);

/*
 * What runs on the devices, and the threads that are in CUDA meanwhile, with their frames.
 */
struct vt_error *vt_write_kernels_text(const struct vt_model *model,
				       const struct vt_writer_options *options, FILE *out);

/*
 * Everything about an address: allocator, segment, state, neighbours, owner, known backtrace; or
 * that nothing is there.
 */
struct vt_error *vt_write_found_text(const struct vt_model *model, const struct vt_found *found,
				     const struct vt_writer_options *options, FILE *out);

/*
 * One thread: what it waits for, every frame, and the number of each Python frame (0 is the
 * innermost) for the next two functions; selected (VT_NO_FRAME: none) is marked.
 */
#define VT_NO_FRAME SIZE_MAX
struct vt_error *vt_write_thread_text(const struct vt_model *model,
				      const struct vt_model_thread *thread, size_t selected,
				      const struct vt_writer_options *options, FILE *out);

/*
 * One Python frame of a thread: its function and place; its local variables. number is below
 * vt_model_count_python().
 */
struct vt_error *vt_write_python_frame_text(const struct vt_model *model,
					    const struct vt_model_thread *thread, size_t number,
					    const struct vt_writer_options *options, FILE *out);
struct vt_error *vt_write_locals_text(const struct vt_model *model,
				      const struct vt_model_thread *thread, size_t number,
				      const struct vt_writer_options *options, FILE *out);

/* The number of Python frames in the stack; the frame with this number, or NULL. */
size_t vt_model_count_python(const struct vt_model_stack *stack);
const struct vt_model_frame *vt_model_python_numbered(const struct vt_model_stack *stack,
						      size_t number);

#endif
