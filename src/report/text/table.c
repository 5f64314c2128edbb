/* SPDX-License-Identifier: Apache-2.0 */
#include "report/text/table.h"

#include "base/format.h"

enum {
	MAX_LABEL_COLUMNS = 34,
	NOTE_GAP = 3,
};

struct vt_table vt_table(struct vt_line *line, const struct vt_model_device *device)
{
	struct vt_table t = {
		.line = line,
		.device = device && device->have_memory ? device : NULL,
		.label_columns = line->columns - 2 - VT_TABLE_BYTES_COLUMNS -
				 VT_TABLE_BLOCKS_COLUMNS - VT_TABLE_SHARE_COLUMNS,
	};

	if (t.label_columns > MAX_LABEL_COLUMNS)
		t.label_columns = MAX_LABEL_COLUMNS;
	return t;
}

/* A truncated sentence is useless: print it beside the numbers, below them, or not at all. */
static void print_note(struct vt_line *line, const struct vt_table_row *row)
{
	bool fits = row->note && vt_line_width(line, row->note) + NOTE_GAP <= vt_line_room(line);

	if (fits) {
		vt_line_pad(line, line->want + NOTE_GAP);
		vt_line_add(line, VT_DIM, row->note);
	}
	vt_line_end(line);
	if (!fits && row->need_note) {
		vt_line_pad(line, 4);
		vt_line_wrap(line, VT_DIM, row->note, 4, 3);
	}
}

void vt_table_row(const struct vt_table *t, const struct vt_table_row *row)
{
	enum vt_style style = row->depth ? VT_DIM : row->is_sum ? VT_BOLD : VT_PLAIN;
	char number[VT_NUM_MAX];

	if (t->shaded && row->depth == 0 && !row->is_sum)
		vt_bar_mark(t->line, row->shade);
	vt_line_pad(t->line, 2 + row->depth * 2);
	vt_line_cell(t->line, style, row->label, t->label_columns - row->depth * 2, VT_CUT_END);
	vt_line_right(t->line, style, vt_format_size(number, row->bytes), VT_TABLE_BYTES_COLUMNS);
	vt_line_right(t->line, style,
		      row->blocks == VT_NO_BLOCKS ? "" : vt_format_count(number, row->blocks),
		      VT_TABLE_BLOCKS_COLUMNS);
	if (t->device && row->depth == 0 && !row->is_sum)
		vt_line_right(t->line, style,
			      vt_format_share(number, row->bytes, t->device->total_bytes),
			      VT_TABLE_SHARE_COLUMNS);
	else
		vt_line_pad(t->line, t->line->want + VT_TABLE_SHARE_COLUMNS);
	print_note(t->line, row);
}
