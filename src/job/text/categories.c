/* SPDX-License-Identifier: Apache-2.0 */
/* What the memory of ranks is. */
#include "job/text/figures.h"
#include "job/text/text.h"

_Static_assert(VT_N_CATEGORIES <= VT_FIGURES_MAX, "a row for each");

static const char *label(size_t row)
{
	return vt_category_words((enum vt_category)row);
}

void vt_text_job_categories(struct vt_line *line, const struct vt_job *job)
{
	struct vt_figures f = {
		.title = "What the memory in use is",
		.narrow_title = "In use",
		.label = label,
		.why_unlike = "still running, or not readable; see their reports",
		.n_rows = VT_N_CATEGORIES,
		.n_sorted = VT_N_CATEGORIES,
	};

	for (size_t i = 0; i < job->members.n; i++) {
		const struct vt_member *m = &job->members.data[i];

		if (m->label.role == VT_ROLE_RANK && m->label.in_job &&
		    m->owners.state != VT_OWNERS_OFF)
			line->buf.failed |= !vt_figures_add(
				&f, vt_job_owners_known(&m->owners) ? m->owners.bytes : NULL,
				(uint32_t)i);
	}
	vt_figures_print(line, job, &f);
	vt_figures_deinit(&f);
}
