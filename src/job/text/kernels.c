/* SPDX-License-Identifier: Apache-2.0 */
/* What the GPUs of ranks run: a row for those that run the same. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "job/internal.h"
#include "report/text/text.h"
#include "job/text/text.h"

#define MAX_ROWS 12
#define MAX_LINES 4

static bool is_told(const struct vt_job_kernels *kernels)
{
	return kernels->state != VT_KERNELS_NOT_ASKED;
}

static const char *ellipsis_of(const struct vt_line *line)
{
	return line->ascii ? "..." : "…";
}

/* What runs there, or why that is not known, with all details or names alone. */
static void add_words(struct vt_str *text, const struct vt_line *line,
		      const struct vt_job_kernels *kernels, bool whole)
{
	if (vt_job_kernels_known(kernels))
		vt_job_kernels_say(text, kernels, whole, ellipsis_of(line));
	else
		vt_str_addf(text, "not known: %s", kernels->why ? kernels->why : "out of memory");
}

static bool is_same(struct vt_line *line, const struct vt_member *a, const struct vt_member *b,
		    bool whole)
{
	struct vt_str x = { 0 }, y = { 0 };
	bool same;

	if (a->kernels.state != b->kernels.state)
		return false;
	add_words(&x, line, &a->kernels, whole);
	add_words(&y, line, &b->kernels, whole);
	same = !strcmp(vt_str_get(&x), vt_str_get(&y));
	line->buf.failed |= x.failed || y.failed;
	vt_str_deinit(&x);
	vt_str_deinit(&y);
	return same;
}

/*
 * The members that run the same, of which this one must be the first; else false. whole: even the
 * sizes are the same.
 */
static bool gather_same(struct vt_line *line, const struct vt_job *job, const size_t *row_of,
			size_t first, struct vt_job_indices *same, bool *whole)
{
	same->n = 0;
	*whole = true;
	for (size_t i = first; i < job->members.n; i++) {
		if (row_of[i] != first)
			continue;
		line->buf.failed |= !vt_job_indices_add(same, (uint32_t)i);
		*whole &= is_same(line, &job->members.data[first], &job->members.data[i], true);
	}
	return same->n;
}

/* Each is in the row of the first that is like it. Rows are few, whatever the members are. */
static void find_rows(struct vt_line *line, const struct vt_job *job, size_t *row_of)
{
	size_t firsts[MAX_ROWS], n = 0;

	for (size_t i = 0; i < job->members.n; i++) {
		const struct vt_member *m = &job->members.data[i];
		size_t row = 0;

		row_of[i] = SIZE_MAX;
		if (!is_told(&m->kernels))
			continue;
		while (row < n && !is_same(line, &job->members.data[firsts[row]], m, false))
			row++;
		if (row == n && n < MAX_ROWS)
			firsts[n++] = i;
		if (row < n)
			row_of[i] = firsts[row];
	}
}

static void print_row(struct vt_line *line, const struct vt_job *job,
		      const struct vt_job_indices *who, bool whole)
{
	const struct vt_job_kernels *kernels = &job->members.data[who->data[0]].kernels;
	struct vt_member_set set = { .members = who->data, .n = who->n };
	struct vt_str text = { 0 };
	int column;

	vt_line_pad(line, 2);
	vt_text_job_set(job, &set, line->columns / 3, &text);
	vt_line_add(line, VT_PLAIN, vt_str_get(&text));
	vt_line_pad(line, line->width + 2);
	column = line->want;
	vt_str_clear(&text);
	add_words(&text, line, kernels, whole);
	for (size_t i = 0; i < kernels->raised.n; i++)
		vt_str_addf(&text, "; exception: %s", kernels->raised.data[i]);
	vt_line_wrap(line,
		     kernels->raised.n             ? VT_ALARM :
		     vt_job_kernels_known(kernels) ? VT_PLAIN :
						     VT_DIM,
		     vt_str_get(&text), column + 2, MAX_LINES);
	line->buf.failed |= text.failed;
	vt_str_deinit(&text);
}

/* "cuda-gdb held each process for 0.4 s at most" */
static void print_title(struct vt_line *line, const struct vt_job *job)
{
	char number[VT_NUM_MAX], hint[96] = "";
	double most = 0;

	for (size_t i = 0; i < job->members.n; i++)
		if (job->members.data[i].kernels.took_ms > most)
			most = job->members.data[i].kernels.took_ms;
	if (most > 0)
		snprintf(hint, sizeof(hint), "cuda-gdb held each process for %s at most",
			 vt_format_ms(number, most));
	vt_text_title(line, most > 0 ? hint : NULL, "What the GPUs run");
}

static size_t count_left(const struct vt_job *job, const size_t *row_of)
{
	size_t n = 0;

	for (size_t i = 0; i < job->members.n; i++)
		n += is_told(&job->members.data[i].kernels) && row_of[i] == SIZE_MAX;
	return n;
}

static void print_rows(struct vt_line *line, const struct vt_job *job, const size_t *row_of)
{
	struct vt_job_indices same = { 0 };
	size_t left = count_left(job, row_of);
	char number[VT_NUM_MAX];
	bool whole;

	for (size_t i = 0; i < job->members.n; i++)
		if (row_of[i] == i && gather_same(line, job, row_of, i, &same, &whole))
			print_row(line, job, &same, whole);
	free(same.data);
	if (!left)
		return;
	vt_line_pad(line, 2);
	vt_line_addf(line, VT_DIM, "%s %s more in the JSON report", ellipsis_of(line),
		     vt_format_count(number, left));
	vt_line_end(line);
}

void vt_text_job_kernels(struct vt_line *line, const struct vt_job *job)
{
	size_t *row_of = calloc(job->members.n + 1, sizeof(*row_of));
	bool any = false;

	for (size_t i = 0; i < job->members.n; i++)
		any |= is_told(&job->members.data[i].kernels);
	if (any && row_of) {
		print_title(line, job);
		find_rows(line, job, row_of);
		print_rows(line, job, row_of);
	}
	line->buf.failed |= !row_of;
	free(row_of);
}
