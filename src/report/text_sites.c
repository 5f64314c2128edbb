/* SPDX-License-Identifier: Apache-2.0 */
/* Where blocks were allocated, as far as somebody recorded it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "report/cxxname.h"
#include "report/format.h"
#include "report/text.h"

#define MAX_SITES 10       /* in the short view */
#define MAX_TRACES 8       /* of a site, in the full view; JSON has all */
#define MAX_CALLERS 6      /* that are named after a site */
#define MAX_CALLER_LINES 2

enum {
	MAX_LABEL_COLUMNS = 50,
	BYTES_COLUMNS = 10,
	BLOCKS_COLUMNS = 11,
	SHARE_COLUMNS = 7,
	FRAME_INDENT = 6,
	MAX_FUNCTION_COLUMNS = 60,
};

struct table {
	struct vt_line *line;
	const struct vt_model *model;
	uint64_t allocated; /* bytes; the shares are of them */
	int label_columns;
};

static void add_function(const struct vt_line *line, struct vt_str *text, const struct vt_model_frame *f)
{
	if (!f->function || !*f->function)
		vt_str_add(text, "??");
	else if (f->kind == VT_FRAME_PYTHON)
		vt_str_add(text, f->function);
	else
		/* @ begins a symbol's version. */
		vt_cxx_short_name(text, f->function, strcspn(f->function, "@"), line->ascii ? "..." : "…");
}

/* "attn.py:57", "libfoo.so", "libfoo.so+0x12f0" where there is no name, "0x7f0000123456" where there is no file. */
static void add_place(struct vt_str *text, const struct vt_model_frame *f)
{
	const char *file = f->file ? f->file : f->module, *slash = file ? strrchr(file, '/') : NULL;

	if (file)
		vt_str_add(text, slash ? slash + 1 : file);
	else if (f->kind == VT_FRAME_NATIVE)
		vt_str_addf(text, "0x%" PRIx64, f->pc);
	if (f->file && f->line > 0)
		vt_str_addf(text, ":%d", f->line);
	else if (!f->file && f->module && !f->function)
		vt_str_addf(text, "+0x%" PRIx64, f->module_offset);
}

static void finish(struct vt_line *line, struct vt_str *text)
{
	if (text->failed)
		line->buf.failed = true;
	vt_str_deinit(text);
}

/* ---- one row ---- */

static void print_label(const struct table *t, const struct vt_model_frame *f)
{
	struct vt_str function = { 0 }, place = { 0 };
	int start = t->line->want, room = t->label_columns - 1, of_function, of_place;

	if (!f) {
		vt_line_cell(t->line, VT_PLAIN, "(a thread that ran no Python)", t->label_columns, VT_CUT_END);
		return;
	}
	add_function(t->line, &function, f);
	add_place(&place, f);
	of_function = vt_line_width(t->line, vt_str_get(&function));
	of_place = vt_line_width(t->line, vt_str_get(&place));
	/* The line is what tells, and the end of a qualified name more than its start. */
	of_place = of_place > room / 2 ? room / 2 : of_place;
	of_function = of_function > room - of_place - 2 ? room - of_place - 2 : of_function;
	vt_line_cell(t->line, f->kind == VT_FRAME_PYTHON ? VT_BOLD : VT_PLAIN, vt_str_get(&function), of_function,
		     VT_CUT_START);
	vt_line_pad(t->line, start + of_function + 2);
	vt_line_cell(t->line, VT_PLAIN, vt_str_get(&place), of_place, VT_CUT_START);
	vt_line_pad(t->line, start + t->label_columns);
	finish(t->line, &function);
	finish(t->line, &place);
}

static void print_amounts(const struct table *t, enum vt_style style, uint64_t bytes, uint64_t blocks)
{
	char number[VT_NUM_MAX];

	vt_line_right(t->line, style, vt_format_size(number, bytes), BYTES_COLUMNS);
	vt_line_right(t->line, style, vt_format_count(number, blocks), BLOCKS_COLUMNS);
	vt_line_right(t->line, style, vt_format_share(number, bytes, t->allocated), SHARE_COLUMNS);
}

/* "← Block.forward net.py:20 ← train_step train.py:80": the program's own frames further out, of the largest backtrace. */
static void add_callers(const struct table *t, const struct vt_model_site *site, struct vt_str *text)
{
	const struct vt_model_trace *trace = &t->model->traces.data[site->first_trace];
	const struct vt_model_frame *last = site->title;
	size_t n = 0;

	for (size_t i = trace->title + 1; i < trace->n_frames; i++) {
		const struct vt_model_frame *f = &t->model->trace_frames[trace->frames[i]];

		if (!vt_model_is_program(f) || f == last)
			continue;
		last = f;
		if (n++ == MAX_CALLERS) {
			vt_str_add(text, t->line->ascii ? " ..." : " …");
			break;
		}
		vt_str_addf(text, "%s%s ", text->n ? " " : "", t->line->ascii ? "<-" : "←");
		add_function(t->line, text, f);
		vt_str_add(text, " ");
		add_place(text, f);
	}
	if (site->n_traces > 1) {
		char number[VT_NUM_MAX];

		vt_str_addf(text, "%s%s more way%s", text->n ? ", and " : "and ", vt_format_count(number, site->n_traces - 1),
			    site->n_traces == 2 ? "" : "s");
	}
}

static void print_site(const struct table *t, const struct vt_model_site *site)
{
	struct vt_str callers = { 0 };

	vt_line_pad(t->line, 2);
	print_label(t, site->title);
	print_amounts(t, VT_PLAIN, site->bytes, site->blocks);
	add_callers(t, site, &callers);
	if (callers.n && vt_line_width(t->line, vt_str_get(&callers)) + 3 <= vt_line_room(t->line)) {
		vt_line_pad(t->line, t->line->want + 3);
		vt_line_add(t->line, VT_DIM, vt_str_get(&callers));
		vt_line_end(t->line);
	} else {
		vt_line_end(t->line);
		if (callers.n) {
			vt_line_pad(t->line, 4);
			vt_line_wrap(t->line, VT_DIM, vt_str_get(&callers), 4, MAX_CALLER_LINES);
		}
	}
	finish(t->line, &callers);
}

static void print_rest(const struct table *t, size_t first)
{
	uint64_t bytes = 0, blocks = 0;
	char label[64], number[VT_NUM_MAX];

	for (size_t i = first; i < t->model->sites.n; i++) {
		bytes += t->model->sites.data[i].bytes;
		blocks += t->model->sites.data[i].blocks;
	}
	snprintf(label, sizeof(label), "%s more places", vt_format_count(number, t->model->sites.n - first));
	vt_line_pad(t->line, 2);
	vt_line_cell(t->line, VT_DIM, label, t->label_columns, VT_CUT_END);
	print_amounts(t, VT_DIM, bytes, blocks);
	vt_line_end(t->line);
}

static void print_untraced(const struct table *t)
{
	static const char *const why[] = {
		[VT_UNTRACED_NOT_RECORDED] = "allocated before recording began, or while it was off",
		[VT_UNTRACED_CHANGED] = "freed, or handed out again, while they were read",
		[VT_UNTRACED_UNREADABLE] = "recorded, but not readable: see the notes",
	};

	for (size_t i = 0; i < VT_N_UNTRACED; i++) {
		const struct vt_model_amount *a = &t->model->untraced[i];

		if (!a->blocks)
			continue;
		vt_line_pad(t->line, 2);
		vt_line_cell(t->line, VT_DIM, "no backtrace", t->label_columns, VT_CUT_END);
		print_amounts(t, VT_DIM, a->bytes, a->blocks);
		if (vt_line_width(t->line, why[i]) + 3 <= vt_line_room(t->line)) {
			vt_line_pad(t->line, t->line->want + 3);
			vt_line_add(t->line, VT_DIM, why[i]);
			vt_line_end(t->line);
		} else {
			vt_line_end(t->line);
			vt_line_pad(t->line, 4);
			vt_line_wrap(t->line, VT_DIM, why[i], 4, 2);
		}
	}
}

/* ---- every backtrace ---- */

static int function_columns(const struct table *t, const struct vt_model_trace *trace)
{
	int most = (t->line->columns - FRAME_INDENT) / 2, columns = 0;

	most = most > MAX_FUNCTION_COLUMNS ? MAX_FUNCTION_COLUMNS : most;
	for (size_t i = 0; i < trace->n_frames; i++) {
		struct vt_str name = { 0 };
		int width;

		add_function(t->line, &name, &t->model->trace_frames[trace->frames[i]]);
		width = vt_line_width(t->line, vt_str_get(&name));
		columns = width > columns ? width : columns;
		finish(t->line, &name);
	}
	return columns > most ? most : columns;
}

static void print_trace(const struct table *t, const struct vt_model_trace *trace)
{
	char size[VT_NUM_MAX], blocks[VT_NUM_MAX], largest[VT_NUM_MAX];
	int columns = function_columns(t, trace);

	vt_line_pad(t->line, 4);
	vt_line_addf(t->line, VT_DIM, "%s in %s block%s, the largest %s", vt_format_size(size, trace->bytes),
		     vt_format_count(blocks, trace->blocks), trace->blocks == 1 ? "" : "s",
		     vt_format_size(largest, trace->largest));
	if (trace->merge_uncertain)
		vt_line_add(t->line, VT_DIM, "; where the outer native frames belong is not known");
	vt_line_end(t->line);
	for (size_t i = 0; i < trace->n_frames; i++)
		vt_text_frame(t->line, &t->model->trace_frames[trace->frames[i]], columns);
}

static void print_traces(const struct table *t, const struct vt_model_site *site)
{
	char number[VT_NUM_MAX];
	size_t n = 0;

	for (size_t i = site->first_trace; i != VT_NO_TRACE && n < MAX_TRACES; i = t->model->traces.data[i].next_in_site, n++)
		print_trace(t, &t->model->traces.data[i]);
	if (n == site->n_traces)
		return;
	vt_line_pad(t->line, 4);
	vt_line_addf(t->line, VT_DIM, "%s %s more backtraces in the JSON report", t->line->ascii ? "..." : "…",
		     vt_format_count(number, site->n_traces - n));
	vt_line_end(t->line);
}

static void print_head(const struct table *t)
{
	vt_line_blank(t->line);
	vt_line_add(t->line, VT_BOLD, "Allocated by");
	vt_line_add(t->line, VT_DIM, ", recorded by PyTorch");
	vt_line_pad(t->line, 2 + t->label_columns);
	vt_line_right(t->line, VT_DIM, "size", BYTES_COLUMNS);
	vt_line_right(t->line, VT_DIM, "blocks", BLOCKS_COLUMNS);
	vt_line_right(t->line, VT_DIM, "share", SHARE_COLUMNS);
}

void vt_text_sites(struct vt_line *line, const struct vt_model *model, bool all)
{
	struct table t = {
		.line = line,
		.model = model,
		.label_columns = line->columns - 2 - BYTES_COLUMNS - BLOCKS_COLUMNS - SHARE_COLUMNS,
	};
	size_t shown = all || model->sites.n < MAX_SITES ? model->sites.n : MAX_SITES;

	if (model->sites.n == 0)
		return;
	if (t.label_columns > MAX_LABEL_COLUMNS)
		t.label_columns = MAX_LABEL_COLUMNS;
	for (size_t i = 0; i < model->allocators.n; i++)
		t.allocated += model->allocators.data[i].allocated_bytes;
	print_head(&t);
	vt_text_end_title(line, all ? NULL : "(--sites shows all, with every frame)");
	for (size_t i = 0; i < shown; i++) {
		print_site(&t, &model->sites.data[i]);
		if (all)
			print_traces(&t, &model->sites.data[i]);
	}
	if (shown < model->sites.n)
		print_rest(&t, shown);
	print_untraced(&t);
}
