/* SPDX-License-Identifier: Apache-2.0 */
/* What holds the memory of ranks, by library. */
#include <stdio.h>

#include "job/lines.h"
#include "job/text/figures.h"
#include "job/text/text.h"
#include "report/state_words.h"

_Static_assert(VT_N_JOB_LINES <= VT_FIGURES_MAX, "a row for each");

/* Of the device by their figures; then the sum, then what is not the device's. */
enum {
	ROW_TOTAL = VT_N_JOB_LINES - 3,
	ROW_MANAGED,
	ROW_HOST,
};

static size_t line_of(size_t row)
{
	static const size_t last[] = { VT_JOB_TOTAL, VT_JOB_KINDS + VT_RANGE_MANAGED,
				       VT_JOB_KINDS + VT_RANGE_HOST };
	size_t line = 0;

	if (row >= ROW_TOTAL)
		return last[row - ROW_TOTAL];
	for (; line < VT_N_JOB_LINES; line++)
		if (line != last[0] && line != last[1] && line != last[2] && row-- == 0)
			break;
	return line;
}

static const char *label(size_t row)
{
	size_t line = line_of(row);

	switch (line) {
	case VT_JOB_IN_USE:
		return "in use by PyTorch";
	case VT_JOB_CACHED:
		return "cached by PyTorch";
	case VT_JOB_REST:
		return "contexts, code";
	case VT_JOB_OTHER:
		return "other than PyTorch's";
	case VT_JOB_TOTAL:
		return "in all, by the driver's count";
	default:
		return line < VT_JOB_KINDS ? vt_claimer_label(vt_job_line_claimer(line)) :
					     vt_range_kind_label((unsigned int)line - VT_JOB_KINDS);
	}
}

static bool add(struct vt_figures *f, const struct vt_member *member, uint32_t index, bool *any)
{
	struct vt_job_lines lines;
	uint64_t rows[VT_N_JOB_LINES];

	if (!vt_job_lines(member, &lines))
		return vt_figures_add(f, NULL, index);
	*any = true;
	for (size_t row = 0; row < VT_N_JOB_LINES; row++)
		rows[row] = lines.listed && !lines.rest_known &&
					    (line_of(row) == VT_JOB_REST ||
					     line_of(row) == VT_JOB_TOTAL) ?
				    VT_FIGURE_UNKNOWN :
				    lines.bytes[line_of(row)];
	return vt_figures_add(f, rows, index);
}

void vt_text_job_ledger(struct vt_line *line, const struct vt_job *job)
{
	struct vt_figures f = {
		.title = "What holds the memory",
		.narrow_title = "Held by",
		.label = label,
		.why_unlike = "not asked, or it changed meanwhile; see their reports",
		.n_rows = VT_N_JOB_LINES,
		.n_sorted = ROW_TOTAL,
	};
	bool any = false;

	for (size_t i = 0; i < job->members.n; i++) {
		const struct vt_member *m = &job->members.data[i];

		if (m->label.role == VT_ROLE_RANK && m->label.in_job && !m->core)
			line->buf.failed |= !add(&f, m, (uint32_t)i, &any);
	}
	if (any)
		vt_figures_print(line, job, &f);
	vt_figures_deinit(&f);
}
