/* SPDX-License-Identifier: Apache-2.0 */
/* The summary's table of process groups: ranks with equal progress share a row. */
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "job/groups.h"
#include "report/text/text.h"
#include "job/text/text.h"

#define MAX_GROUPS 8
#define MAX_ROWS 6 /* of each */
#define MAX_REASONS 4

static bool are_equal(const struct vt_job_grouped *a, const struct vt_job_grouped *b)
{
	const struct vt_model_process_group *x = a->state, *y = b->state;

	if (!x || !y)
		return x == y;
	if (x->last_enqueued != y->last_enqueued || x->last_completed != y->last_completed ||
	    x->n_pending != y->n_pending)
		return false;
	return !x->n_pending ||
	       (x->oldest.number == y->oldest.number && x->oldest.of_two == y->oldest.of_two &&
		x->oldest.started == y->oldest.started && x->oldest.name == y->oldest.name &&
		x->oldest.input == y->oldest.input);
}

/* The members like this one, which must be the first of them; otherwise false. */
static bool gather_equal(struct vt_line *line, const struct vt_job_process_group *group,
			 size_t first, struct vt_job_indices *equal)
{
	equal->n = 0;
	for (size_t i = 0; i < group->members.n; i++) {
		if (!are_equal(&group->members.data[i], &group->members.data[first]))
			continue;
		if (i < first)
			return false;
		line->buf.failed |= !vt_job_indices_add(equal, group->members.data[i].member);
	}
	return equal->n;
}

static void print_row(struct vt_line *line, const struct vt_job *job,
		      const struct vt_model_process_group *named, const struct vt_job_indices *who,
		      const struct vt_model_process_group *state)
{
	struct vt_member_set set = { .members = who->data, .n = who->n };
	char count[VT_NUM_MAX];
	struct vt_str text = { 0 };

	vt_format_count(count, who->n);
	vt_job_add_set(job, &set, (size_t)vt_text_group_ranks_columns(line) - strlen(count) - 4,
		       &text);
	vt_str_addf(&text, " [%s]", count);
	vt_text_group_row(line, named, vt_str_get(&text), state);
	line->buf.failed |= text.failed;
	vt_str_deinit(&text);
}

static void print_more(struct vt_line *line, size_t n, const char *of_what)
{
	char count[VT_NUM_MAX];

	vt_line_pad(line, 2);
	vt_line_addf(line, VT_DIM, "%s %s more %s in the JSON report", line->ascii ? "..." : "…",
		     vt_format_count(count, n), of_what);
	vt_line_end(line);
}

static void print_reason(struct vt_line *line, const struct vt_job *job,
			 const struct vt_job_indices *who, const char *why)
{
	struct vt_member_set set = { .members = who->data, .n = who->n };
	struct vt_str text = { 0 };

	vt_job_add_set(job, &set, (size_t)line->columns / 3, &text);
	vt_str_addf(&text, ": not known: %s", why);
	vt_line_pad(line, 2);
	vt_line_wrap(line, VT_DIM, vt_str_get(&text), 4, 3);
	line->buf.failed |= text.failed;
	vt_str_deinit(&text);
}

static void print_group(struct vt_line *line, const struct vt_job *job,
			const struct vt_job_process_group *group)
{
	struct vt_job_indices equal = { 0 };
	size_t rows = 0, left = 0;

	for (size_t i = 0; i < group->members.n; i++) {
		if (!gather_equal(line, group, i, &equal))
			continue;
		if (rows < MAX_ROWS)
			print_row(line, job, rows ? NULL : group->any, &equal,
				  group->members.data[i].state);
		else
			left += equal.n;
		rows++;
	}
	if (left)
		print_more(line, left, "ranks of it");
	free(equal.data);
}

/* Members whose groups are unknown although they were wanted, by reason. */
static void print_unknown(struct vt_line *line, const struct vt_job *job, bool titled)
{
	struct vt_job_indices same = { 0 };
	const char *said[MAX_REASONS] = { NULL };
	size_t n = 0;

	for (size_t i = 0; i < job->members.n && n < MAX_REASONS; i++) {
		const char *why = job->members.data[i].collectives.why;
		bool again = !why;

		for (size_t k = 0; k < n; k++)
			again |= said[k] == why;
		if (again)
			continue;
		same.n = 0;
		for (size_t k = i; k < job->members.n; k++)
			if (job->members.data[k].collectives.why == why)
				line->buf.failed |= !vt_job_indices_add(&same, (uint32_t)k);
		if (!titled && !n)
			vt_text_title(line, "how far collectives are", "Process groups");
		said[n++] = why;
		print_reason(line, job, &same, why);
	}
	free(same.data);
}

void vt_text_job_groups(struct vt_line *line, const struct vt_job *job)
{
	struct vt_job_process_groups groups = { 0 };

	line->buf.failed |= !vt_job_find_process_groups(job, &groups);
	if (groups.n)
		vt_text_group_title(line);
	for (size_t i = 0; i < groups.n && i < MAX_GROUPS; i++)
		print_group(line, job, &groups.data[i]);
	if (groups.n > MAX_GROUPS)
		print_more(line, groups.n - MAX_GROUPS, "groups");
	print_unknown(line, job, groups.n);
	vt_job_process_groups_deinit(&groups);
}
