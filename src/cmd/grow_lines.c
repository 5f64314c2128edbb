/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/grow_lines.h"

#include <stdio.h>

#include "base/format.h"
#include "report/diff/lines.h"

enum {
	CHANGE_COLUMNS = 12,
	BLOCKS_COLUMNS = 22,
	MAX_SHOWN = 20,
};

void vt_grow_add_line(struct vt_str *text, const struct vt_growth_source *line, int64_t bytes)
{
	char number[VT_NUM_MAX];

	vt_line_add_label(text, line->line, line->device);
	vt_str_addf(text, " %s", vt_format_change(number, bytes));
}

/* What is in use, or kept, says more than both together. */
static bool has_part_that_rose(const struct vt_growth *lines, const struct vt_growth_source *whole)
{
	if (whole->line < VT_LINE_HELD || whole->line >= VT_LINE_KINDS)
		return false;
	for (size_t i = 0; i < lines->sources.n; i++) {
		const struct vt_growth_source *s = &lines->sources.data[i];

		if (s->device == whole->device && s->line < VT_LINE_HELD && s->change > 0 &&
		    s->line % VT_N_LIBPOOL_KINDS == whole->line % VT_N_LIBPOOL_KINDS)
			return true;
	}
	return false;
}

const struct vt_growth_source *vt_grow_latest_line(const struct vt_growth *lines)
{
	const struct vt_growth_source *best = NULL;

	for (size_t i = 0; i < lines->sources.n; i++) {
		const struct vt_growth_source *s = &lines->sources.data[i];

		if (s->change > (best ? best->change : 0) && !has_part_that_rose(lines, s))
			best = s;
	}
	return best;
}

static const char *rate(char buf[VT_NUM_MAX + 4], int64_t bytes, double seconds)
{
	char number[VT_NUM_MAX];

	snprintf(buf, VT_NUM_MAX + 4, "%s/s",
		 vt_format_change(number, (int64_t)((double)bytes / seconds)));
	return buf;
}

static void print_line(struct vt_line *line, const struct vt_growth_source *s, int label_columns,
		       double seconds)
{
	char number[VT_NUM_MAX], before[VT_NUM_MAX], after[VT_NUM_MAX], blocks[2 * VT_NUM_MAX + 16];
	int64_t grown = vt_growth_grown(s);
	struct vt_str label = { 0 };

	vt_line_add_label(&label, s->line, s->device);
	vt_line_pad(line, 2);
	vt_line_cell(line, VT_BOLD, vt_str_get(&label), label_columns, VT_CUT_END);
	vt_line_right(line, VT_PLAIN, vt_format_change(number, grown), CHANGE_COLUMNS);
	vt_line_right(line, VT_PLAIN,
		      seconds > 0 ? vt_format_change(number,
						     (int64_t)((double)grown / (seconds / 3600))) :
				    "",
		      CHANGE_COLUMNS);
	snprintf(blocks, sizeof(blocks), "%s %s %s", vt_format_count(before, s->first.blocks),
		 line->ascii ? "->" : "→", vt_format_count(after, s->last.blocks));
	vt_line_right(line, VT_PLAIN, s->first.blocks || s->last.blocks ? blocks : "",
		      BLOCKS_COLUMNS);
	vt_line_end(line);
	line->buf.failed |= label.failed;
	vt_str_deinit(&label);
}

void vt_grow_print_lines(struct vt_line *line, const struct vt_growth *lines, const size_t *order,
			 size_t n, int label_columns, double seconds)
{
	if (!n)
		return;
	vt_line_blank(line);
	vt_line_cell(line, VT_BOLD, "Grows, outside PyTorch", label_columns + 2, VT_CUT_END);
	vt_line_right(line, VT_DIM, "change", CHANGE_COLUMNS);
	vt_line_right(line, VT_DIM, "an hour", CHANGE_COLUMNS);
	vt_line_right(line, VT_DIM, "allocations", BLOCKS_COLUMNS);
	vt_line_end(line);
	for (size_t i = 0; i < n && i < MAX_SHOWN; i++)
		print_line(line, &lines->sources.data[order[i]], label_columns, seconds);
}

/* Memory that has no library's name gets one, or a backtrace, by the recorder only. */
static bool is_raw(const struct vt_growth_source *s)
{
	return s->line == VT_LINE_KINDS + VT_RANGE_DEVICE ||
	       s->line == VT_LINE_KINDS + VT_RANGE_MAPPED ||
	       s->line == VT_LINE_KINDS + VT_RANGE_POOL ||
	       s->line == VT_LINE_KINDS + VT_RANGE_HOST ||
	       s->line == VT_LINE_KINDS + VT_RANGE_MANAGED;
}

void vt_grow_add_lines_verdict(struct vt_str *text, const struct vt_growth *lines, size_t n,
			       double seconds, pid_t pid)
{
	const struct vt_growth_source *most = vt_growth_most(lines);
	char age[VT_NUM_MAX], per[VT_NUM_MAX + 4];

	if (!n || !most)
		return;
	vt_grow_add_line(text, most, vt_growth_grown(most));
	vt_str_addf(text, " in %s", vt_format_age(age, seconds + 0.5));
	if (seconds > 0)
		vt_str_addf(text, " (%s)", rate(per, vt_growth_grown(most), seconds));
	vt_str_add(text, ", outside PyTorch");
	if (n > 1)
		vt_str_addf(text, "; %zu more line%s", n - 1, n == 2 ? " grows" : "s grow");
	vt_str_add(text, ". ");
	if (is_raw(most) && pid)
		vt_str_addf(
			text,
			"To see which code allocates it from now on: vramtap record %d on, and vramtap report %d later. ",
			(int)pid, (int)pid);
}
