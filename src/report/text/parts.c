/* SPDX-License-Identifier: Apache-2.0 */
#include "report/text/parts.h"

#include <string.h>

#include "report/text/text.h"

static void begin(struct vt_line *line, const struct vt_writer_options *options, FILE *out)
{
	vt_line_init(line, out, options);
	line->top = true;
}

struct vt_error *vt_write_summary_text(const struct vt_model *model,
				       const struct vt_writer_options *options, FILE *out)
{
	struct vt_line line;

	begin(&line, options, out);
	vt_text_head(&line, model);
	vt_text_devices(&line, model);
	vt_text_not_asked(&line, model);
	vt_text_headlines(&line, model);
	vt_text_memory(&line, model);
	vt_text_pinned(&line, model);
	vt_text_ooms(&line, model);
	vt_text_end(&line, model, VT_TOPIC_MEMORY, "report");
	return vt_line_finish(&line);
}

struct vt_error *vt_write_ledger_text(const struct vt_model *model,
				      const struct vt_writer_options *options, FILE *out)
{
	struct vt_line line;

	begin(&line, options, out);
	vt_text_devices(&line, model);
	vt_text_not_asked(&line, model);
	vt_text_memory(&line, model);
	vt_text_pinned(&line, model);
	if (options->all_ranges)
		vt_text_ranges(&line, model);
	vt_text_missing(&line, model, VT_TOPIC_MEMORY);
	return vt_line_finish(&line);
}

struct vt_error *vt_write_blocks_text(const struct vt_model *model, size_t count,
				      const struct vt_writer_options *options, FILE *out)
{
	struct vt_line line;

	begin(&line, options, out);
	vt_text_no_blocks(&line, model);
	vt_text_block_groups(&line, model);
	if (options->all_blocks)
		vt_text_all_blocks(&line, model);
	else
		vt_text_largest_blocks(&line, model, count);
	vt_text_missing(&line, model, VT_TOPIC_MEMORY);
	return vt_line_finish(&line);
}

struct vt_error *vt_write_sites_text(const struct vt_model *model,
				     const struct vt_writer_options *options, FILE *out)
{
	struct vt_line line;

	begin(&line, options, out);
	vt_text_no_allocator(&line, model);
	vt_text_sites(&line, model, options->all_sites);
	vt_text_no_sites(&line, model);
	vt_text_driver(&line, model);
	vt_text_missing(&line, model, VT_TOPIC_MEMORY);
	return vt_line_finish(&line);
}

struct vt_error *vt_write_owners_text(const struct vt_model *model, size_t count,
				      const struct vt_writer_options *options, FILE *out)
{
	struct vt_writer_options totals = *options;
	struct vt_line line;

	begin(&line, options, out);
	vt_text_no_allocator(&line, model);
	totals.owners_by_given = model->allocators.n; /* who asks learns why there is nothing */
	if (options->owner && model->owners.state == VT_OWNERS_READ)
		vt_text_owner(&line, model, options->owner);
	else
		vt_text_owners(&line, model, &totals);
	if (!options->owner && !options->all_owners)
		vt_text_largest_owners(&line, model, count);
	vt_text_missing(&line, model, VT_TOPIC_MEMORY);
	return vt_line_finish(&line);
}

struct vt_error *vt_write_found_text(const struct vt_model *model, const struct vt_found *found,
				     const struct vt_writer_options *options, FILE *out)
{
	struct vt_line line;

	begin(&line, options, out);
	vt_text_found(&line, model, found);
	vt_text_missing(&line, model, VT_TOPIC_MEMORY);
	return vt_line_finish(&line);
}

struct vt_error *vt_write_kernels_text(const struct vt_model *model,
				       const struct vt_writer_options *options, FILE *out)
{
	struct vt_line line;

	begin(&line, options, out);
	vt_text_kernels(&line, model);
	vt_text_launches(&line, model);
	vt_text_threads_in_cuda(&line, model);
	vt_text_missing(&line, model, VT_TOPIC_THREADS);
	return vt_line_finish(&line);
}

struct vt_error *vt_write_thread_text(const struct vt_model *model,
				      const struct vt_model_thread *thread, size_t selected,
				      const struct vt_writer_options *options, FILE *out)
{
	struct vt_line line;

	begin(&line, options, out);
	vt_text_thread(&line, model, thread, selected);
	vt_text_missing(&line, model, VT_TOPIC_THREADS);
	return vt_line_finish(&line);
}

/* "#3 forward (attn.py:57)", and the number of frames. */
static void print_python(struct vt_line *line, const struct vt_model_thread *thread, size_t number)
{
	const struct vt_model_frame *f = vt_model_python_numbered(&thread->stack, number);
	struct vt_str place = { 0 };
	char whose[80];
	int width;

	if (f->file)
		vt_str_addf(&place, f->line > 0 ? "(%s:%d)" : "(%s)", f->file, f->line);
	vt_line_addf(line, VT_PLAIN, "#%zu ", number);
	vt_line_add(line, VT_BOLD, f->function ? f->function : "??");
	width = vt_line_width(line, vt_str_get(&place));
	if (width + 1 > vt_line_room(line)) {
		vt_line_end(line);
		vt_line_pad(line, 2);
	} else {
		vt_line_pad(line, line->want + 1);
	}
	vt_line_cell(line, VT_PLAIN, vt_str_get(&place),
		     width < vt_line_room(line) ? width : vt_line_room(line), VT_CUT_PATH);
	snprintf(whose, sizeof(whose), "one of %zu Python frames of thread %d",
		 vt_model_count_python(&thread->stack), (int)thread->tid);
	vt_text_end_title(line, whose);
	if (place.failed)
		line->buf.failed = true;
	vt_str_deinit(&place);
}

static void print_note(struct vt_line *line, const char *text)
{
	vt_line_pad(line, 2);
	vt_line_add(line, VT_DIM, text);
	vt_line_end(line);
}

struct vt_error *vt_write_python_frame_text(const struct vt_model *model,
					    const struct vt_model_thread *thread, size_t number,
					    const struct vt_writer_options *options, FILE *out)
{
	struct vt_line line;

	begin(&line, options, out);
	print_python(&line, thread, number);
	vt_text_missing(&line, model, VT_TOPIC_THREADS);
	return vt_line_finish(&line);
}

struct vt_error *vt_write_locals_text(const struct vt_model *model,
				      const struct vt_model_thread *thread, size_t number,
				      const struct vt_writer_options *options, FILE *out)
{
	const struct vt_model_frame *f = vt_model_python_numbered(&thread->stack, number);
	struct vt_line line;

	begin(&line, options, out);
	print_python(&line, thread, number);
	vt_text_locals(&line, f);
	if (!f->locals)
		print_note(&line, "its local variables could not be read");
	else if (f->n_locals == 0 && !f->locals_cut)
		print_note(&line, "it has no local variables");
	vt_text_missing(&line, model, VT_TOPIC_THREADS);
	return vt_line_finish(&line);
}

size_t vt_model_count_python(const struct vt_model_stack *stack)
{
	size_t n = 0;

	for (size_t i = 0; i < stack->n_frames; i++)
		n += stack->frames[i].kind == VT_FRAME_PYTHON;
	return n;
}

const struct vt_model_frame *vt_model_python_numbered(const struct vt_model_stack *stack,
						      size_t number)
{
	for (size_t i = 0; i < stack->n_frames; i++)
		if (stack->frames[i].kind == VT_FRAME_PYTHON && number-- == 0)
			return &stack->frames[i];
	return NULL;
}
