/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about one piece of memory, a line each, and how it was allocated. */
#include <stdarg.h>
#include <string.h>

#include "base/clock.h"
#include "base/format.h"
#include "report/text/text.h"

enum { LABEL_COLUMNS = 12 };

void vt_text_fact(struct vt_line *line, const char *label, const char *format, ...)
{
	struct vt_str text = { 0 };
	va_list args;

	va_start(args, format);
	vt_str_vaddf(&text, format, args);
	va_end(args);
	vt_line_pad(line, 2);
	vt_line_cell(line, VT_DIM, label, LABEL_COLUMNS, VT_CUT_END);
	vt_line_wrap(line, VT_PLAIN, vt_str_get(&text), 2 + LABEL_COLUMNS, 4);
	if (text.failed)
		line->buf.failed = true;
	vt_str_deinit(&text);
}

void vt_text_record(struct vt_line *line, const struct vt_model_record *record)
{
	bool named = record && record->thread && *record->thread;
	char age[VT_NUM_MAX];

	if (!record || record->age_ns == VT_NO_AGE)
		return;
	vt_format_age(age, (double)record->age_ns / (double)VT_NS_PER_S);
	vt_text_fact(line, "allocated", "%s ago by thread %d%s%.64s%s", age, (int)record->tid,
		     named ? " (" : "", named ? record->thread : "", named ? ")" : "");
}

static void print_trace(struct vt_line *line, const struct vt_model *model,
			const struct vt_model_trace *trace)
{
	const char *by = trace->source == VT_TRACE_PYTORCH ? "PyTorch" : "vramtap";

	vt_line_blank(line);
	vt_line_add(line, VT_BOLD, "Allocated by");
	vt_line_addf(
		line, VT_DIM, ", recorded by %s%s%s", by,
		trace->merge_uncertain ? "; where the outer native frames belong is not known" : "",
		trace->native_guess ? "; native frames may be missing" : "");
	vt_line_end(line);
	vt_text_trace(line, model, trace);
}

/* index: in model.traces, or why there is none. */
void vt_text_backtrace(struct vt_line *line, const struct vt_model *model, uint32_t index)
{
	struct vt_str why = { 0 };

	if (index < model->traces.n) {
		print_trace(line, model, &model->traces.data[index]);
		return;
	}
	if (!VT_IS_UNTRACED(index))
		return;
	vt_text_untraced(model, (enum vt_untraced)(UINT32_MAX - index), &why);
	vt_text_fact(line, "backtrace", "none: it was %s", vt_str_get(&why));
	if (why.failed)
		line->buf.failed = true;
	vt_str_deinit(&why);
}

void vt_text_origin(struct vt_line *line, const struct vt_model *model, size_t block)
{
	bool in_use = model->blocks[block].state == VT_BLOCK_ALLOCATED ||
		      model->blocks[block].state == VT_BLOCK_AWAITING_FREE;

	vt_text_record(line, vt_model_block_record(model, block));
	if (vt_model_block_trace(model, block))
		print_trace(line, model, vt_model_block_trace(model, block));
	else if (!in_use)
		return; /* free: nothing holds it */
	else if (model->block_traces)
		vt_text_backtrace(line, model, model->block_traces[block]);
	else if (model->core.path)
		vt_text_fact(line, "backtrace", "none: nothing was recorded");
	else
		vt_text_fact(line, "backtrace", "none: nothing is recorded (%s: from now on)",
			     line->hints->record);
}
