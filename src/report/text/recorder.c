/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the recorder saw in addition to PyTorch's blocks: other driver allocations, and failed
 * requests.
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/format.h"
#include "report/text/text.h"

enum {
	LIBRARY_COLUMNS = 28,
	KIND_COLUMNS = 14,
	BYTES_COLUMNS = 10,
	BLOCKS_COLUMNS = 9,
	AGE_COLUMNS = 12,
};
#define MAX_GROUPS 20
#define MAX_OOMS 4

static const char *format_age_ns(char buf[VT_NUM_MAX], uint64_t age_ns)
{
	return vt_format_age(buf, (double)age_ns / (double)VT_NS_PER_S);
}

static void add_text(struct vt_line *line, enum vt_style style, struct vt_str *text)
{
	vt_line_add(line, style, vt_str_get(text));
	if (text->failed)
		line->buf.failed = true;
	vt_str_deinit(text);
}

/* ---- the driver's ---- */

static void print_group(struct vt_line *line, const struct vt_model_driver_group *g,
			bool with_device)
{
	char number[VT_NUM_MAX], kind[VT_NUM_MAX];
	struct vt_str title = { 0 };

	if (with_device && g->device >= 0)
		snprintf(kind, sizeof(kind), "%.8s GPU %d", vt_driver_kind_name(g->kind),
			 g->device);
	else
		snprintf(kind, sizeof(kind), "%s", vt_driver_kind_name(g->kind));
	vt_line_pad(line, 2);
	vt_line_cell(line, VT_PLAIN, g->library ? g->library : "(unknown library)", LIBRARY_COLUMNS,
		     VT_CUT_END);
	vt_line_cell(line, g->on_device ? VT_PLAIN : VT_DIM, kind, KIND_COLUMNS, VT_CUT_END);
	vt_line_right(line, VT_PLAIN, vt_format_size(number, g->bytes), BYTES_COLUMNS);
	vt_line_right(line, VT_PLAIN, vt_format_count(number, g->blocks), BLOCKS_COLUMNS);
	vt_line_right(line, VT_DIM, format_age_ns(number, g->ages.oldest_ns), AGE_COLUMNS);
	if (g->title)
		vt_text_frame_label(line, &title, g->title);
	if (title.n && vt_line_width(line, vt_str_get(&title)) + 3 <= vt_line_room(line)) {
		vt_line_pad(line, line->want + 3);
		add_text(line, VT_DIM, &title);
	}
	vt_str_deinit(&title);
	vt_line_end(line);
}

/* How much of a device's memory outside PyTorch they explain. */
static void print_share(struct vt_line *line, const struct vt_model *model)
{
	for (size_t i = 0; i < model->allocators.n; i++) {
		const struct vt_model_allocator *a = &model->allocators.data[i];
		char part[VT_NUM_MAX], whole[VT_NUM_MAX];
		uint64_t bytes = 0;

		for (size_t k = 0; k < model->driver_groups.n; k++)
			if (model->driver_groups.data[k].on_device &&
			    model->driver_groups.data[k].device == a->device)
				bytes += model->driver_groups.data[k].bytes;
		if (!a->other_known || !bytes || bytes > a->other_bytes)
			continue;
		vt_line_pad(line, 2);
		vt_line_addf(line, VT_DIM,
			     "These are %s of the %s on GPU %d that are not PyTorch's.",
			     vt_format_size(part, bytes), vt_format_size(whole, a->other_bytes),
			     a->device);
		vt_line_end(line);
	}
}

void vt_text_driver(struct vt_line *line, const struct vt_model *model)
{
	char age[VT_NUM_MAX], number[VT_NUM_MAX];
	bool host = false, unplaced = false;

	if (!model->driver_groups.n)
		return;
	vt_line_blank(line);
	vt_line_add(line, VT_BOLD, "Other allocations");
	vt_line_addf(line, VT_DIM, ", recorded for %s", format_age_ns(age, model->recorder.on_ns));
	vt_line_pad(line, 2 + LIBRARY_COLUMNS + KIND_COLUMNS);
	vt_line_right(line, VT_DIM, "size", BYTES_COLUMNS);
	vt_line_right(line, VT_DIM, "blocks", BLOCKS_COLUMNS);
	vt_line_right(line, VT_DIM, "oldest", AGE_COLUMNS);
	vt_line_end(line);
	for (size_t i = 0; i < model->driver_groups.n && i < MAX_GROUPS; i++) {
		print_group(line, &model->driver_groups.data[i], model->devices.n > 1);
		host |= !model->driver_groups.data[i].on_device;
		unplaced |= model->driver_groups.data[i].on_device &&
			    model->driver_groups.data[i].device < 0;
	}
	if (model->driver_groups.n > MAX_GROUPS) {
		vt_line_pad(line, 2);
		vt_line_addf(line, VT_DIM, "%s more in the JSON report",
			     vt_format_count(number, model->driver_groups.n - MAX_GROUPS));
		vt_line_end(line);
	}
	print_share(line, model);
	if (unplaced && model->devices.n > 1) {
		vt_line_pad(line, 2);
		vt_line_add(
			line, VT_DIM,
			"Memory without a GPU is already mapped elsewhere, or was created by another process.");
		vt_line_end(line);
	}
	if (host) {
		vt_line_pad(line, 2);
		vt_line_add(
			line, VT_DIM,
			"Host memory is not on the device; managed memory moves between host and device.");
		vt_line_end(line);
	}
}

/* ---- out of memory ---- */

static void print_oom(struct vt_line *line, const struct vt_model *model,
		      const struct vt_model_oom *oom)
{
	char age[VT_NUM_MAX], requested[VT_NUM_MAX], free_text[VT_NUM_MAX], total[VT_NUM_MAX];
	const struct vt_model_frame *title = vt_model_trace_title(model, oom->trace);
	struct vt_str text = { 0 };

	vt_str_addf(&text, "%s ago: %s asked for", format_age_ns(age, oom->age_ns),
		    vt_format_size(requested, oom->requested));
	if (title) {
		vt_str_add(&text, " in ");
		vt_text_frame_label(line, &text, title);
	}
	vt_str_addf(&text, ", thread %d", (int)oom->tid);
	if (oom->thread && *oom->thread)
		vt_str_addf(&text, " (%s)", oom->thread);
	if (oom->device >= 0)
		vt_str_addf(&text, ", GPU %d", oom->device);
	if (oom->total_bytes)
		vt_str_addf(&text, ", %s of %s free", vt_format_size(free_text, oom->free_bytes),
			    vt_format_size(total, oom->total_bytes));
	if (oom->error)
		vt_str_addf(&text, ", CUDA error %d", oom->error);
	vt_line_pad(line, 2);
	vt_line_wrap(line, VT_PLAIN, vt_str_get(&text), 4, 3);
	if (text.failed)
		line->buf.failed = true;
	vt_str_deinit(&text);
}

void vt_text_ooms(struct vt_line *line, const struct vt_model *model)
{
	size_t n = model->ooms.n, last = n ? model->ooms.data[n - 1].number : 0;

	if (!n)
		return;
	vt_text_title(line, n > MAX_OOMS ? "(all are in the JSON report)" : NULL,
		      "Out of memory %zu time%s since recording began", last, last == 1 ? "" : "s");
	for (size_t i = n; i-- > 0 && n - i <= MAX_OOMS;)
		print_oom(line, model, &model->ooms.data[i]);
}
