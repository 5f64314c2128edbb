/* SPDX-License-Identifier: Apache-2.0 */
/* A row for each kind of memory, a column for ranks with like figures. */
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "job/text/figures.h"
#include "report/text/text.h"

enum {
	NARROW = 80, /* columns of the terminal; below: */
	NARROW_WORDS_COLUMNS = 18,
	WORDS_COLUMNS = 30,
	GROUP_COLUMNS = 16,
	MAX_COLUMNS = 8, /* groups */
	LIKE_PART = 50,  /* figures are alike when they differ by less than one of so many parts, */
};

#define LIKE_BYTES (UINT64_C(16) << 20) /* or by less than this */

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

static bool is_like(const struct vt_figures *f, const struct vt_figures_group *group,
		    const uint64_t *bytes)
{
	for (size_t i = 0; i < f->n_rows; i++) {
		uint64_t by = distance(bytes[i], group->least[i]);

		if (distance(bytes[i], group->most[i]) > by)
			by = distance(bytes[i], group->most[i]);
		if (by > LIKE_BYTES && by > bytes[i] / LIKE_PART)
			return false;
	}
	return true;
}

static bool add_to(const struct vt_figures *f, struct vt_figures_group *group,
		   const uint64_t *bytes, uint32_t member)
{
	for (size_t i = 0; i < f->n_rows; i++) {
		if (!group->members.n || bytes[i] < group->least[i])
			group->least[i] = bytes[i];
		if (bytes[i] > group->most[i])
			group->most[i] = bytes[i];
	}
	return vt_job_indices_add(&group->members, member);
}

bool vt_figures_add(struct vt_figures *f, const uint64_t *bytes, uint32_t member)
{
	struct vt_figures_group *group;

	if (!bytes)
		return vt_job_indices_add(&f->unlike, member);
	for (size_t i = 0; i < f->groups.n; i++)
		if (is_like(f, &f->groups.data[i], bytes))
			return add_to(f, &f->groups.data[i], bytes, member);
	group = vt_vec_append(&f->groups);
	if (!group)
		return false;
	*group = (struct vt_figures_group){ 0 };
	return add_to(f, group, bytes, member);
}

/* Most ranks first; equal ones in the order of their ranks. */
static int most_first(const void *pa, const void *pb)
{
	const struct vt_figures_group *a = pa, *b = pb;

	if (a->members.n != b->members.n)
		return a->members.n > b->members.n ? -1 : 1;
	return a->members.data[0] < b->members.data[0] ? -1 : 1;
}

/* "ranks 0-2,4-7" */
static void add_who(const struct vt_job *job, const struct vt_job_indices *members, int columns,
		    struct vt_str *text)
{
	struct vt_member_set set = { .members = members->data, .n = members->n };
	bool numbered = job->members.data[members->data[0]].label.rank >= 0;
	struct vt_str numbers = { 0 };

	if (numbered)
		vt_str_add(text, members->n > 1 ? "ranks " : "rank ");
	vt_job_add_set(job, &set, (size_t)columns - text->n, &numbers);
	vt_str_add(text, vt_str_get(&numbers));
	text->failed |= numbers.failed;
	vt_str_deinit(&numbers);
}

static int words_columns(const struct vt_line *line)
{
	return line->columns < NARROW ? NARROW_WORDS_COLUMNS : WORDS_COLUMNS;
}

static void print_head(struct vt_line *line, const struct vt_job *job, const struct vt_figures *f,
		       size_t n)
{
	vt_line_blank(line);
	vt_line_add(line, VT_BOLD, line->columns < NARROW ? f->narrow_title : f->title);
	vt_line_pad(line, 2 + words_columns(line));
	for (size_t i = 0; i < n; i++) {
		struct vt_str text = { 0 };

		add_who(job, &f->groups.data[i].members, GROUP_COLUMNS - 1, &text);
		vt_line_right(line, VT_DIM, vt_str_get(&text), GROUP_COLUMNS);
		line->buf.failed |= text.failed;
		vt_str_deinit(&text);
	}
	vt_line_end(line);
}

/* Whether this figure is one that the group is a group of its own for. */
static bool is_odd(const struct vt_figures *f, size_t group, size_t row)
{
	const struct vt_figures_group *g = &f->groups.data[group], *usual = &f->groups.data[0];
	uint64_t by = distance(g->most[row], usual->most[row]);

	return group && g->most[row] != VT_FIGURE_UNKNOWN &&
	       usual->most[row] != VT_FIGURE_UNKNOWN && by > LIKE_BYTES &&
	       by > usual->most[row] / LIKE_PART;
}

static void print_row(struct vt_line *line, const struct vt_figures *f, size_t row, size_t n)
{
	char size[VT_NUM_MAX];

	vt_line_pad(line, 2);
	vt_line_cell(line, VT_PLAIN, f->label(row), words_columns(line), VT_CUT_END);
	for (size_t i = 0; i < n; i++) {
		uint64_t bytes = f->groups.data[i].most[row];

		vt_line_right(line, is_odd(f, i, row) ? VT_BOLD : VT_PLAIN,
			      bytes == VT_FIGURE_UNKNOWN ? "?" :
			      bytes                      ? vt_format_size(size, bytes) :
							   "-",
			      GROUP_COLUMNS);
	}
	vt_line_end(line);
}

struct row {
	uint64_t bytes; /* the largest that is known */
	bool shown;
	size_t row;
};

static int larger_first(const void *pa, const void *pb)
{
	const struct row *a = pa, *b = pb;

	if (a->bytes != b->bytes)
		return a->bytes > b->bytes ? -1 : 1;
	return a->row < b->row ? -1 : a->row > b->row;
}

static void print_rows(struct vt_line *line, const struct vt_figures *f, size_t n)
{
	struct row rows[VT_FIGURES_MAX];

	for (size_t i = 0; i < f->n_rows; i++) {
		rows[i] = (struct row){ .row = i };
		for (size_t g = 0; g < n; g++) {
			uint64_t bytes = f->groups.data[g].most[i];

			rows[i].shown |= bytes != 0;
			if (bytes != VT_FIGURE_UNKNOWN && bytes > rows[i].bytes)
				rows[i].bytes = bytes;
		}
	}
	if (f->n_sorted)
		qsort(rows, f->n_sorted, sizeof(*rows), larger_first);
	for (size_t i = 0; i < f->n_rows; i++)
		if (rows[i].shown)
			print_row(line, f, rows[i].row, n);
}

/* Whether ranks share a column whose figures are not all what is printed. */
static bool are_alike_only(const struct vt_figures *f, size_t n)
{
	char least[VT_NUM_MAX], most[VT_NUM_MAX];

	for (size_t g = 0; g < n; g++) {
		const struct vt_figures_group *group = &f->groups.data[g];

		for (size_t i = 0; i < f->n_rows; i++)
			if (strcmp(vt_format_size(least, group->least[i]),
				   vt_format_size(most, group->most[i])) != 0)
				return true;
	}
	return false;
}

static bool is_any_unknown(const struct vt_figures *f, size_t n)
{
	for (size_t g = 0; g < n; g++)
		for (size_t i = 0; i < f->n_rows; i++)
			if (f->groups.data[g].most[i] == VT_FIGURE_UNKNOWN)
				return true;
	return false;
}

static void print_rest(struct vt_line *line, const struct vt_job *job, const struct vt_figures *f,
		       size_t shown)
{
	struct vt_str text = { 0 };
	size_t left = 0;
	char count[VT_NUM_MAX];

	for (size_t i = shown; i < f->groups.n; i++)
		left += f->groups.data[i].members.n;
	if (are_alike_only(f, shown))
		vt_str_add(
			&text,
			"Ranks in one column are within 2 %, or 16 MiB; the figure is the largest. ");
	if (is_any_unknown(f, shown))
		vt_str_add(&text, "-: none; ?: not known. ");
	if (left)
		vt_str_addf(&text, "%s more rank%s, with other figures: in the JSON report. ",
			    vt_format_count(count, left), left == 1 ? "" : "s");
	if (f->unlike.n) {
		vt_str_add(&text, "Not known of ");
		add_who(job, &f->unlike, (int)text.n + line->columns / 2, &text);
		vt_str_addf(&text, ": %s.", f->why_unlike);
	}
	if (text.n) {
		vt_line_pad(line, 2);
		vt_line_wrap(line, VT_DIM, vt_str_get(&text), 4, 3);
	}
	line->buf.failed |= text.failed;
	vt_str_deinit(&text);
}

static size_t columns_of(const struct vt_line *line, const struct vt_figures *f)
{
	int room = (line->columns - 2 - words_columns(line)) / GROUP_COLUMNS;
	size_t n = room < 1 ? 1 : room > MAX_COLUMNS ? MAX_COLUMNS : (size_t)room;

	return f->groups.n < n ? f->groups.n : n;
}

void vt_figures_print(struct vt_line *line, const struct vt_job *job, struct vt_figures *f)
{
	size_t n = columns_of(line, f);

	if (n) {
		qsort(f->groups.data, f->groups.n, sizeof(*f->groups.data), most_first);
		print_head(line, job, f, n);
		print_rows(line, f, n);
	} else if (f->unlike.n) {
		vt_text_title(line, NULL, "%s", f->title);
	}
	print_rest(line, job, f, n);
}

void vt_figures_deinit(struct vt_figures *f)
{
	for (size_t i = 0; i < f->groups.n; i++)
		free(f->groups.data[i].members.data);
	vt_vec_deinit(&f->groups);
	free(f->unlike.data);
}
