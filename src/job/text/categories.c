/* SPDX-License-Identifier: Apache-2.0 */
/* What the memory of ranks is: a row for each category, a column for ranks with like figures. */
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "job/internal.h"
#include "job/text/text.h"
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

struct group {
	uint64_t least[VT_N_CATEGORIES], most[VT_N_CATEGORIES];
	struct vt_job_indices members;
};

struct table {
	VT_VEC(struct group) groups;
	struct vt_job_indices unlike; /* not all is known of them, or they ran */
};

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

static bool is_like(const struct group *group, const struct vt_job_owners *owners)
{
	for (size_t i = 0; i < VT_N_CATEGORIES; i++) {
		uint64_t by = distance(owners->bytes[i], group->least[i]);

		if (distance(owners->bytes[i], group->most[i]) > by)
			by = distance(owners->bytes[i], group->most[i]);
		if (by > LIKE_BYTES && by > owners->bytes[i] / LIKE_PART)
			return false;
	}
	return true;
}

static bool add_to(struct group *group, const struct vt_job_owners *owners, uint32_t member)
{
	for (size_t i = 0; i < VT_N_CATEGORIES; i++) {
		if (!group->members.n || owners->bytes[i] < group->least[i])
			group->least[i] = owners->bytes[i];
		if (owners->bytes[i] > group->most[i])
			group->most[i] = owners->bytes[i];
	}
	return vt_job_indices_add(&group->members, member);
}

static bool add(struct table *table, const struct vt_job_owners *owners, uint32_t member)
{
	struct group *group;

	if (!vt_job_owners_known(owners))
		return vt_job_indices_add(&table->unlike, member);
	for (size_t i = 0; i < table->groups.n; i++)
		if (is_like(&table->groups.data[i], owners))
			return add_to(&table->groups.data[i], owners, member);
	group = vt_vec_append(&table->groups);
	if (!group)
		return false;
	*group = (struct group){ 0 };
	return add_to(group, owners, member);
}

static bool gather(const struct vt_job *job, struct table *table)
{
	bool ok = true;

	for (size_t i = 0; i < job->members.n && ok; i++) {
		const struct vt_member *m = &job->members.data[i];

		if (m->label.role == VT_ROLE_RANK && m->label.in_job &&
		    m->owners.state != VT_OWNERS_OFF)
			ok = add(table, &m->owners, (uint32_t)i);
	}
	return ok;
}

/* Most ranks first; equal ones in the order of their ranks. */
static int most_first(const void *pa, const void *pb)
{
	const struct group *a = pa, *b = pb;

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

static void print_head(struct vt_line *line, const struct vt_job *job, const struct table *table,
		       size_t n)
{
	vt_line_blank(line);
	vt_line_add(line, VT_BOLD, line->columns < NARROW ? "In use" : "What the memory in use is");
	vt_line_pad(line, 2 + words_columns(line));
	for (size_t i = 0; i < n; i++) {
		struct vt_str text = { 0 };

		add_who(job, &table->groups.data[i].members, GROUP_COLUMNS - 1, &text);
		vt_line_right(line, VT_DIM, vt_str_get(&text), GROUP_COLUMNS);
		line->buf.failed |= text.failed;
		vt_str_deinit(&text);
	}
	vt_line_end(line);
}

/* Whether this figure is one that the group is a group of its own for. */
static bool is_odd(const struct table *table, size_t group, size_t category)
{
	const struct group *g = &table->groups.data[group], *usual = &table->groups.data[0];
	uint64_t by = distance(g->most[category], usual->most[category]);

	return group && by > LIKE_BYTES && by > usual->most[category] / LIKE_PART;
}

static void print_row(struct vt_line *line, const struct table *table, size_t category, size_t n)
{
	char size[VT_NUM_MAX];

	vt_line_pad(line, 2);
	vt_line_cell(line, VT_PLAIN, vt_category_words((enum vt_category)category),
		     words_columns(line), VT_CUT_END);
	for (size_t i = 0; i < n; i++) {
		uint64_t bytes = table->groups.data[i].most[category];

		vt_line_right(line, is_odd(table, i, category) ? VT_BOLD : VT_PLAIN,
			      bytes ? vt_format_size(size, bytes) : "-", GROUP_COLUMNS);
	}
	vt_line_end(line);
}

struct row {
	uint64_t bytes;
	size_t category;
};

static int larger_first(const void *pa, const void *pb)
{
	const struct row *a = pa, *b = pb;

	if (a->bytes != b->bytes)
		return a->bytes > b->bytes ? -1 : 1;
	return a->category < b->category ? -1 : a->category > b->category;
}

static void print_rows(struct vt_line *line, const struct table *table, size_t n)
{
	struct row rows[VT_N_CATEGORIES];

	for (size_t i = 0; i < VT_N_CATEGORIES; i++) {
		rows[i] = (struct row){ 0, i };
		for (size_t g = 0; g < n; g++)
			if (table->groups.data[g].most[i] > rows[i].bytes)
				rows[i].bytes = table->groups.data[g].most[i];
	}
	qsort(rows, VT_N_CATEGORIES, sizeof(*rows), larger_first);
	for (size_t i = 0; i < VT_N_CATEGORIES && rows[i].bytes; i++)
		print_row(line, table, rows[i].category, n);
}

/* Whether ranks share a column whose figures are not all what is printed. */
static bool are_alike_only(const struct table *table, size_t n)
{
	char least[VT_NUM_MAX], most[VT_NUM_MAX];

	for (size_t g = 0; g < n; g++) {
		const struct group *group = &table->groups.data[g];

		for (size_t i = 0; i < VT_N_CATEGORIES; i++)
			if (strcmp(vt_format_size(least, group->least[i]),
				   vt_format_size(most, group->most[i])) != 0)
				return true;
	}
	return false;
}

static void print_rest(struct vt_line *line, const struct vt_job *job, const struct table *table,
		       size_t shown)
{
	struct vt_str text = { 0 };
	size_t left = 0;
	char count[VT_NUM_MAX];

	for (size_t i = shown; i < table->groups.n; i++)
		left += table->groups.data[i].members.n;
	if (are_alike_only(table, shown))
		vt_str_add(
			&text,
			"Ranks in one column are within 2 %, or 16 MiB; the figure is the largest. ");
	if (left)
		vt_str_addf(&text, "%s more rank%s, with other figures: in the JSON report. ",
			    vt_format_count(count, left), left == 1 ? "" : "s");
	if (table->unlike.n) {
		vt_str_add(&text, "Not known of ");
		add_who(job, &table->unlike, (int)text.n + line->columns / 2, &text);
		vt_str_add(&text, ": still running, or not readable; see their reports.");
	}
	if (text.n) {
		vt_line_pad(line, 2);
		vt_line_wrap(line, VT_DIM, vt_str_get(&text), 4, 3);
	}
	line->buf.failed |= text.failed;
	vt_str_deinit(&text);
}

static size_t columns_of(const struct vt_line *line, const struct table *table)
{
	int room = (line->columns - 2 - words_columns(line)) / GROUP_COLUMNS;
	size_t n = room < 1 ? 1 : room > MAX_COLUMNS ? MAX_COLUMNS : (size_t)room;

	return table->groups.n < n ? table->groups.n : n;
}

void vt_text_job_categories(struct vt_line *line, const struct vt_job *job)
{
	struct table table = { 0 };
	size_t n;

	line->buf.failed |= !gather(job, &table);
	n = columns_of(line, &table);
	if (n) {
		qsort(table.groups.data, table.groups.n, sizeof(*table.groups.data), most_first);
		print_head(line, job, &table, n);
		print_rows(line, &table, n);
	} else if (table.unlike.n) {
		vt_text_title(line, NULL, "What the memory in use is");
	}
	print_rest(line, job, &table, n);
	for (size_t i = 0; i < table.groups.n; i++)
		free(table.groups.data[i].members.data);
	vt_vec_deinit(&table.groups);
	free(table.unlike.data);
}
