/* SPDX-License-Identifier: Apache-2.0 */
/* Where blocks were allocated, as far as that was recorded. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/format.h"
#include "model/place.h"
#include "report/state_words.h"
#include "report/text/text.h"

#define MAX_SITES 10  /* in the short view */
#define MAX_TRACES 8  /* of a site, in the full view; JSON has all */
#define MAX_CALLERS 6 /* named after a site */
#define MAX_CALLER_LINES 2

enum {
	MAX_LABEL_COLUMNS = 50,
	BYTES_COLUMNS = 10,
	BLOCKS_COLUMNS = 11,
	SHARE_COLUMNS = 7,
	AGE_COLUMNS = 12,
	WIDE = 100, /* from this width on there is room for the newest age, too */
	FRAME_INDENT = 6,
	MAX_FUNCTION_COLUMNS = 60,
};

struct table {
	struct vt_line *line;
	const struct vt_model *model;
	uint64_t allocated; /* bytes; the base of the shares */
	int label_columns;
	bool ages;  /* vramtap recorded some of them */
	bool mixed; /* and PyTorch recorded others */
};

void vt_text_frame_label(const struct vt_line *line, struct vt_str *text,
			 const struct vt_model_frame *f)
{
	vt_place_add_function(text, f, line->ascii);
	vt_str_add(text, " ");
	vt_place_add_where(text, f);
}

static void finish(struct vt_line *line, struct vt_str *text)
{
	if (text->failed)
		line->buf.failed = true;
	vt_str_deinit(text);
}

/* ---- one row ---- */

void vt_text_site(struct vt_line *line, const struct vt_model_frame *f, int columns)
{
	struct vt_str function = { 0 }, place = { 0 };
	int start = line->want, room = columns - 1, of_function, of_place;

	if (!f) {
		vt_line_cell(line, VT_PLAIN, "(a thread that ran no Python)", columns, VT_CUT_END);
		return;
	}
	vt_place_add_function(&function, f, line->ascii);
	vt_place_add_where(&place, f);
	of_function = vt_line_width(line, vt_str_get(&function));
	of_place = vt_line_width(line, vt_str_get(&place));
	/* The line number matters most, and the end of a qualified name more than its start. */
	of_place = of_place > room / 2 ? room / 2 : of_place;
	of_function = of_function > room - of_place - 2 ? room - of_place - 2 : of_function;
	vt_line_cell(line, vt_model_is_program(f) ? VT_BOLD : VT_PLAIN, vt_str_get(&function),
		     of_function, VT_CUT_START);
	vt_line_pad(line, start + of_function + 2);
	vt_line_cell(line, VT_PLAIN, vt_str_get(&place), of_place, VT_CUT_START);
	vt_line_pad(line, start + columns);
	finish(line, &function);
	finish(line, &place);
}

static void print_amounts(const struct table *t, enum vt_style style, uint64_t bytes,
			  uint64_t blocks)
{
	char number[VT_NUM_MAX];

	vt_line_right(t->line, style, vt_format_size(number, bytes), BYTES_COLUMNS);
	vt_line_right(t->line, style, vt_format_count(number, blocks), BLOCKS_COLUMNS);
	vt_line_right(t->line, style, vt_format_share(number, bytes, t->allocated), SHARE_COLUMNS);
}

static void print_age(const struct table *t, uint64_t age_ns)
{
	char age[VT_NUM_MAX] = "";

	if (age_ns != VT_NO_AGE)
		vt_format_age(age, (double)age_ns / (double)VT_NS_PER_S);
	vt_line_right(t->line, VT_DIM, age, AGE_COLUMNS);
}

static void print_ages(const struct table *t, const struct vt_model_ages *ages)
{
	if (!t->ages)
		return;
	print_age(t, ages->oldest_ns);
	if (t->line->columns >= WIDE)
		print_age(t, ages->newest_ns);
}

/*
 * "← Block.forward net.py:20 ← train_step train.py:80": the program's own frames further out, of
 * the largest backtrace.
 */
static void add_callers(const struct table *t, const struct vt_model_site *site,
			struct vt_str *text)
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
		vt_place_add_function(text, f, t->line->ascii);
		vt_str_add(text, " ");
		vt_place_add_where(text, f);
	}
	if (site->n_traces > 1) {
		char number[VT_NUM_MAX];

		vt_str_addf(text, "%s%s more way%s", text->n ? ", and " : "and ",
			    vt_format_count(number, site->n_traces - 1),
			    site->n_traces == 2 ? "" : "s");
	}
}

static void print_site(const struct table *t, const struct vt_model_site *site)
{
	struct vt_str callers = { 0 };

	vt_line_pad(t->line, 2);
	vt_text_site(t->line, site->title, t->label_columns);
	print_amounts(t, VT_PLAIN, site->bytes, site->blocks);
	print_ages(t, &site->ages);
	add_callers(t, site, &callers);
	if (callers.n &&
	    vt_line_width(t->line, vt_str_get(&callers)) + 3 <= vt_line_room(t->line)) {
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
	snprintf(label, sizeof(label), "%s more place%s",
		 vt_format_count(number, t->model->sites.n - first),
		 t->model->sites.n - first == 1 ? "" : "s");
	vt_line_pad(t->line, 2);
	vt_line_cell(t->line, VT_DIM, label, t->label_columns, VT_CUT_END);
	print_amounts(t, VT_DIM, bytes, blocks);
	vt_line_end(t->line);
}

void vt_text_untraced(const struct vt_model *model, enum vt_untraced why, struct vt_str *text)
{
	const struct vt_model_recorder *r = &model->recorder;
	char age[VT_NUM_MAX];

	if (why == VT_UNTRACED_NOT_RECORDED && r->on_ns)
		vt_str_addf(text, "allocated before recording began %s ago",
			    vt_format_age(age, (double)r->on_ns / (double)VT_NS_PER_S));
	else if (why == VT_UNTRACED_NO_STACK && !r->python && !r->native)
		vt_str_add(text, "recorded without one, as requested");
	else
		vt_str_add(text, vt_untraced_words(why));
}

static void print_untraced(const struct table *t)
{
	for (size_t i = 0; i < VT_N_UNTRACED; i++) {
		const struct vt_model_amount *a = &t->model->untraced[i];
		struct vt_str why = { 0 };

		if (!a->blocks)
			continue;
		vt_text_untraced(t->model, (enum vt_untraced)i, &why);
		vt_line_pad(t->line, 2);
		vt_line_cell(t->line, VT_DIM, "no backtrace", t->label_columns, VT_CUT_END);
		print_amounts(t, VT_DIM, a->bytes, a->blocks);
		if (vt_line_width(t->line, vt_str_get(&why)) + 3 <= vt_line_room(t->line)) {
			vt_line_pad(t->line, t->line->want + 3);
			vt_line_add(t->line, VT_DIM, vt_str_get(&why));
			vt_line_end(t->line);
		} else {
			vt_line_end(t->line);
			vt_line_pad(t->line, 4);
			vt_line_wrap(t->line, VT_DIM, vt_str_get(&why), 4, 2);
		}
		finish(t->line, &why);
	}
}

/* With sampling, the table has samples only. */
static void print_sampling(const struct table *t)
{
	const struct vt_model_recorder *r = &t->model->recorder;
	char size[VT_NUM_MAX];

	if (!r->sample_now_bytes)
		return;
	vt_line_pad(t->line, 2);
	vt_line_addf(t->line, VT_WARN, "Allocations below %s are sampled, one per that many bytes:",
		     vt_format_size(size, r->sample_now_bytes));
	vt_line_end(t->line);
	vt_line_pad(t->line, 2);
	vt_line_add(t->line, VT_WARN, "totals of places count recorded blocks only.");
	vt_line_end(t->line);
}

/* ---- every backtrace ---- */

static int function_columns(struct vt_line *line, const struct vt_model *model,
			    const struct vt_model_trace *trace)
{
	int most = (line->columns - FRAME_INDENT) / 2, columns = 0;

	most = most > MAX_FUNCTION_COLUMNS ? MAX_FUNCTION_COLUMNS : most;
	for (size_t i = 0; i < trace->n_frames; i++) {
		struct vt_str name = { 0 };
		int width;

		vt_place_add_function(&name, &model->trace_frames[trace->frames[i]], line->ascii);
		width = vt_line_width(line, vt_str_get(&name));
		columns = width > columns ? width : columns;
		finish(line, &name);
	}
	return columns > most ? most : columns;
}

/* ", 12 s to 3 min old" */
static void add_trace_ages(struct vt_str *text, const struct vt_model_ages *ages)
{
	char oldest[VT_NUM_MAX], newest[VT_NUM_MAX];

	if (ages->oldest_ns == VT_NO_AGE)
		return;
	vt_format_age(oldest, (double)ages->oldest_ns / (double)VT_NS_PER_S);
	vt_format_age(newest, (double)ages->newest_ns / (double)VT_NS_PER_S);
	if (strcmp(oldest, newest) != 0)
		vt_str_addf(text, ", %s to %s old", newest, oldest);
	else
		vt_str_addf(text, ", %s old", oldest);
}

void vt_text_trace(struct vt_line *line, const struct vt_model *model,
		   const struct vt_model_trace *trace)
{
	int columns = function_columns(line, model, trace);

	for (size_t i = 0; i < trace->n_frames; i++)
		vt_text_frame(line, &model->trace_frames[trace->frames[i]], columns);
	if (!trace->python_cut && !trace->native_cut)
		return;
	vt_line_pad(line, FRAME_INDENT);
	vt_line_addf(line, VT_DIM, "%s and more, not recorded", line->ascii ? "..." : "…");
	vt_line_end(line);
}

static void print_trace(const struct table *t, const struct vt_model_trace *trace)
{
	char size[VT_NUM_MAX], blocks[VT_NUM_MAX], largest[VT_NUM_MAX];
	struct vt_str text = { 0 };

	vt_str_addf(&text, "%s in %s block%s, the largest %s", vt_format_size(size, trace->bytes),
		    vt_format_count(blocks, trace->blocks), trace->blocks == 1 ? "" : "s",
		    vt_format_size(largest, trace->largest));
	add_trace_ages(&text, &trace->ages);
	if (t->mixed && trace->source == VT_TRACE_PYTORCH)
		vt_str_add(&text, ", recorded by PyTorch");
	if (trace->merge_uncertain)
		vt_str_add(&text, "; where the outer native frames belong is not known");
	if (trace->native_guess)
		vt_str_add(&text, "; native frames may be missing");
	vt_line_pad(t->line, 4);
	vt_line_wrap(t->line, VT_DIM, vt_str_get(&text), 4, 3);
	finish(t->line, &text);
	vt_text_trace(t->line, t->model, trace);
}

static void print_traces(const struct table *t, const struct vt_model_site *site)
{
	char number[VT_NUM_MAX];
	size_t n = 0;

	for (size_t i = site->first_trace; i != VT_NO_TRACE && n < MAX_TRACES;
	     i = t->model->traces.data[i].next_in_site, n++)
		print_trace(t, &t->model->traces.data[i]);
	if (n == site->n_traces)
		return;
	vt_line_pad(t->line, 4);
	vt_line_addf(t->line, VT_DIM, "%s %s more backtrace%s in the JSON report",
		     t->line->ascii ? "..." : "…", vt_format_count(number, site->n_traces - n),
		     site->n_traces - n == 1 ? "" : "s");
	vt_line_end(t->line);
}

static bool is_used(const struct vt_model *model, enum vt_trace_source source)
{
	for (size_t i = 0; i < model->traces.n; i++)
		if (model->traces.data[i].source == source && model->traces.data[i].blocks)
			return true;
	return false;
}

/* ", recorded by vramtap for 12 min and by PyTorch" */
static void add_sources(const struct table *t, struct vt_str *text)
{
	const struct vt_model_recorder *r = &t->model->recorder;
	char age[VT_NUM_MAX];

	if (is_used(t->model, VT_TRACE_RECORDER) || r->on_ns)
		vt_str_addf(text, ", recorded by vramtap for %s%s",
			    vt_format_age(age, (double)r->on_ns / (double)VT_NS_PER_S),
			    is_used(t->model, VT_TRACE_PYTORCH) ? " and by PyTorch" : "");
	else
		vt_str_add(text, ", recorded by PyTorch");
}

static void print_head(const struct table *t, const char *hint)
{
	struct vt_str sources = { 0 };

	add_sources(t, &sources);
	vt_line_blank(t->line);
	vt_line_add(t->line, VT_BOLD, "Allocated by");
	vt_line_add(t->line, VT_DIM, vt_str_get(&sources));
	if (12 + vt_line_width(t->line, vt_str_get(&sources)) >= t->label_columns) {
		vt_text_end_title(t->line, hint);
		hint = NULL;
	}
	vt_line_pad(t->line, 2 + t->label_columns);
	vt_line_right(t->line, VT_DIM, "size", BYTES_COLUMNS);
	vt_line_right(t->line, VT_DIM, "blocks", BLOCKS_COLUMNS);
	vt_line_right(t->line, VT_DIM, "share", SHARE_COLUMNS);
	if (t->ages)
		vt_line_right(t->line, VT_DIM, "oldest", AGE_COLUMNS);
	if (t->ages && t->line->columns >= WIDE)
		vt_line_right(t->line, VT_DIM, "newest", AGE_COLUMNS);
	vt_text_end_title(t->line, hint);
	finish(t->line, &sources);
}

/* Recording is on, but no live block was allocated since. */
static bool has_none(const struct vt_model *model)
{
	return model->sites.n == 0 && model->block_traces && model->recorder.on_ns &&
	       model->n_blocks;
}

static void print_none(struct vt_line *line, const struct vt_model *model)
{
	char age[VT_NUM_MAX];

	if (!has_none(model))
		return;
	vt_text_title(line, NULL, "Allocated by");
	vt_line_pad(line, 2);
	vt_line_addf(line, VT_DIM,
		     "vramtap has recorded for %s: nothing that it saw allocated is still in use",
		     vt_format_age(age, (double)model->recorder.on_ns / (double)VT_NS_PER_S));
	vt_line_end(line);
}

void vt_text_no_sites(struct vt_line *line, const struct vt_model *model)
{
	const struct vt_model_recorder *r = &model->recorder;
	char age[VT_NUM_MAX];

	if (model->sites.n > 0 || model->allocators.n == 0 || has_none(model))
		return;
	if (r->on_ns)
		vt_line_addf(line, VT_PLAIN, "vramtap has recorded for %s: no block is in use.",
			     vt_format_age(age, (double)r->on_ns / (double)VT_NS_PER_S));
	else
		vt_line_add(line, VT_PLAIN,
			    "It was not recorded where the blocks in use were allocated.");
	vt_line_end(line);
	if (r->on_ns || model->core.path)
		return;
	vt_line_addf(line, VT_DIM, "To record it from now on: %s", line->hints->record);
	vt_line_end(line);
}

static bool have_ages(const struct vt_model *model)
{
	for (size_t i = 0; i < model->sites.n; i++)
		if (model->sites.data[i].ages.oldest_ns != VT_NO_AGE)
			return true;
	return false;
}

void vt_text_sites(struct vt_line *line, const struct vt_model *model, bool all)
{
	struct table t = {
		.line = line,
		.model = model,
		.label_columns = line->columns - 2 - BYTES_COLUMNS - BLOCKS_COLUMNS - SHARE_COLUMNS,
		.ages = have_ages(model),
		.mixed = is_used(model, VT_TRACE_RECORDER) && is_used(model, VT_TRACE_PYTORCH),
	};
	size_t shown = all || model->sites.n < MAX_SITES ? model->sites.n : MAX_SITES;

	if (model->sites.n == 0) {
		print_none(line, model);
		return;
	}
	if (t.ages)
		t.label_columns -= AGE_COLUMNS * (line->columns >= WIDE ? 2 : 1);
	if (t.label_columns > MAX_LABEL_COLUMNS)
		t.label_columns = MAX_LABEL_COLUMNS;
	for (size_t i = 0; i < model->allocators.n; i++)
		t.allocated += model->allocators.data[i].allocated_bytes;
	print_head(&t, all ? NULL : line->hints->all_sites);
	for (size_t i = 0; i < shown; i++) {
		print_site(&t, &model->sites.data[i]);
		if (all)
			print_traces(&t, &model->sites.data[i]);
	}
	if (shown < model->sites.n)
		print_rest(&t, shown);
	print_untraced(&t);
	print_sampling(&t);
}
