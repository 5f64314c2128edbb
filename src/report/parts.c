/* SPDX-License-Identifier: Apache-2.0 */
#include "report/parts.h"

#include <inttypes.h>

#include "report/text.h"

struct vt_error *vt_write_summary_text(const struct vt_model *model, const struct vt_writer_options *options, FILE *out)
{
	struct vt_line line;

	vt_line_init(&line, out, options);
	vt_text_head(&line, model);
	vt_text_devices(&line, model);
	vt_text_headlines(&line, model);
	vt_text_memory(&line, model);
	vt_text_pinned(&line, model);
	vt_text_end(&line, model, "report");
	return vt_line_finish(&line);
}

struct vt_error *vt_write_blocks_text(const struct vt_model *model, size_t count, const struct vt_writer_options *options, FILE *out)
{
	struct vt_line line;

	(void)count;
	vt_line_init(&line, out, options);
	vt_text_block_groups(&line, model);
	if (options->all_blocks)
		vt_text_all_blocks(&line, model);
	return vt_line_finish(&line);
}

struct vt_error *vt_write_sites_text(const struct vt_model *model, const struct vt_writer_options *options, FILE *out)
{
	struct vt_line line;

	vt_line_init(&line, out, options);
	vt_text_sites(&line, model, options->all_sites);
	return vt_line_finish(&line);
}

struct vt_error *vt_write_found_text(const struct vt_model *model, const struct vt_found *found, const struct vt_writer_options *options,
				     FILE *out)
{
	(void)model;
	(void)options;
	fprintf(out, "0x%" PRIx64 "\n", found->addr);
	return NULL;
}

struct vt_error *vt_write_thread_text(const struct vt_model *model, const struct vt_model_thread *thread, size_t selected,
				      const struct vt_writer_options *options, FILE *out)
{
	struct vt_line line;

	(void)model;
	(void)selected;
	vt_line_init(&line, out, options);
	for (size_t i = 0; i < thread->stack.n_frames; i++)
		vt_text_frame(&line, &thread->stack.frames[i], 30);
	return vt_line_finish(&line);
}

struct vt_error *vt_write_python_frame_text(const struct vt_model *model, const struct vt_model_thread *thread, size_t number,
					    const struct vt_writer_options *options, FILE *out)
{
	struct vt_line line;

	(void)model;
	vt_line_init(&line, out, options);
	vt_text_frame(&line, vt_model_python_numbered(&thread->stack, number), 30);
	return vt_line_finish(&line);
}

struct vt_error *vt_write_locals_text(const struct vt_model *model, const struct vt_model_thread *thread, size_t number,
				      const struct vt_writer_options *options, FILE *out)
{
	return vt_write_python_frame_text(model, thread, number, options, out);
}

size_t vt_model_count_python(const struct vt_model_stack *stack)
{
	size_t n = 0;

	for (size_t i = 0; i < stack->n_frames; i++)
		n += stack->frames[i].kind == VT_FRAME_PYTHON;
	return n;
}

const struct vt_model_frame *vt_model_python_numbered(const struct vt_model_stack *stack, size_t number)
{
	for (size_t i = 0; i < stack->n_frames; i++)
		if (stack->frames[i].kind == VT_FRAME_PYTHON && number-- == 0)
			return &stack->frames[i];
	return NULL;
}
