/* SPDX-License-Identifier: Apache-2.0 */
/* Further looks: what each thread did between them, and what the streams did. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/format.h"
#include "report/text/text.h"

#define MAX_ROWS 12  /* of threads that are not idle */
#define MAX_PLACES 3 /* of a thread */

enum { BULLET = 2, THREAD = 4, MOVED_COLUMNS = 14, CPU_COLUMNS = 10, GAP = 2 };

static int thread_columns(const struct vt_line *line)
{
	return line->columns < 100 ? 20 : 26;
}

/* Rows: threads, each with the number of those that did the same at the same place. */
struct row {
	const struct vt_model_again_thread *thread;
	size_t n;
	uint64_t cpu_ns;
	bool cpu_known;
};

struct rows {
	struct row *list;
	size_t n;
};

static bool is_idle(const struct vt_model_again_thread *t)
{
	return t->idle && !t->is_main && t->moved != VT_AGAIN_NEW;
}

static bool is_alike(const struct vt_model_again_thread *a, const struct vt_model_again_thread *b)
{
	return a->moved == b->moved && !a->is_main && !b->is_main && a->n_places == 1 &&
	       b->n_places == 1 && a->places[0].looks == b->places[0].looks &&
	       vt_again_same_place(&a->places[0], &b->places[0]);
}

static void add_row(struct rows *rows, const struct vt_model_again_thread *t)
{
	for (size_t i = 0; i < rows->n; i++) {
		struct row *row = &rows->list[i];

		if (!is_alike(row->thread, t))
			continue;
		row->n++;
		row->cpu_ns += t->cpu_ns;
		row->cpu_known = row->cpu_known && t->cpu_known;
		return;
	}
	rows->list[rows->n++] =
		(struct row){ .thread = t, .n = 1, .cpu_ns = t->cpu_ns, .cpu_known = t->cpu_known };
}

/* The main thread, then those that used most. */
static int compare_rows(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->thread->is_main != y->thread->is_main)
		return x->thread->is_main ? -1 : 1;
	if (x->cpu_ns != y->cpu_ns)
		return x->cpu_ns > y->cpu_ns ? -1 : 1;
	return (x->thread->tid > y->thread->tid) - (x->thread->tid < y->thread->tid);
}

static const char *moved_word(enum vt_again_moved moved)
{
	static const char *const words[VT_N_AGAIN_MOVED] = {
		[VT_AGAIN_UNKNOWN] = "ran",     [VT_AGAIN_STILL] = "has not moved",
		[VT_AGAIN_SAME] = "same place", [VT_AGAIN_MOVED] = "moved",
		[VT_AGAIN_ENDED] = "ended",     [VT_AGAIN_NEW] = "new",
	};

	return words[moved];
}

static void print_cpu(struct vt_line *line, bool known, uint64_t ns)
{
	char text[VT_NUM_MAX] = "?";

	if (known)
		snprintf(text, sizeof(text), "%.0f ms", (double)ns / (double)VT_NS_PER_MS);
	vt_line_right(line, VT_PLAIN, text, CPU_COLUMNS);
}

static void print_name(struct vt_line *line, const struct row *row)
{
	const struct vt_model_again_thread *t = row->thread;
	const char *name = t->name && *t->name ? t->name : "?";
	char text[96];

	if (row->n > 1)
		snprintf(text, sizeof(text), "%zu × %.64s", row->n, name);
	else
		snprintf(text, sizeof(text), "%d %.64s", (int)t->tid, name);
	vt_line_cell(line, t->is_main ? VT_BOLD : VT_PLAIN, text, thread_columns(line) - 1,
		     VT_CUT_END);
}

static void print_place(struct vt_line *line, const struct vt_model_again *again,
			const struct vt_model_again_thread *t, unsigned int i, int column)
{
	struct vt_str text = { 0 };

	vt_line_pad(line, column);
	if (t->n_places > 1 || again->looks > 2)
		vt_str_addf(&text, "%u of %u: ", t->places[i].looks, t->looks);
	vt_again_say_place(&text, &t->places[i], false);
	vt_line_wrap(line, VT_PLAIN, vt_str_get(&text), column + 2, 3);
	line->buf.failed |= text.failed;
	vt_str_deinit(&text);
}

static void print_row(struct vt_line *line, const struct vt_model_again *again,
		      const struct row *row)
{
	const struct vt_model_again_thread *t = row->thread;
	int column = THREAD + thread_columns(line) + MOVED_COLUMNS + CPU_COLUMNS + GAP;
	unsigned int shown = t->n_places < MAX_PLACES ? t->n_places : MAX_PLACES;
	bool alarm = again->alarm && t->tid == again->subject;

	vt_line_pad(line, BULLET);
	vt_line_add(line, alarm ? VT_ALARM : VT_PLAIN, "●");
	vt_line_pad(line, THREAD);
	print_name(line, row);
	vt_line_pad(line, THREAD + thread_columns(line));
	vt_line_cell(line, alarm ? VT_ALARM : VT_PLAIN, moved_word(t->moved), MOVED_COLUMNS,
		     VT_CUT_END);
	print_cpu(line, row->cpu_known, row->cpu_ns);
	for (unsigned int i = 0; i < shown; i++)
		print_place(line, again, t, i, column);
	if (!shown)
		vt_line_end(line);
	if (t->n_places > shown || t->more_places) {
		vt_line_pad(line, column);
		vt_line_addf(line, VT_DIM, "… %u more places%s", t->n_places - shown,
			     t->more_places ? ", and others" : "");
		vt_line_end(line);
	}
}

static void print_idle(struct vt_line *line, const struct vt_model_again *again)
{
	char count[VT_NUM_MAX];
	uint64_t cpu_ns = 0;
	bool known = true;
	size_t n = 0;

	for (size_t i = 0; i < again->threads.n; i++) {
		const struct vt_model_again_thread *t = &again->threads.data[i];

		if (!is_idle(t))
			continue;
		n++;
		cpu_ns += t->cpu_ns;
		known = known && t->cpu_known;
	}
	if (n == 0)
		return;
	vt_line_pad(line, BULLET);
	vt_line_add(line, VT_PLAIN, "○");
	vt_line_pad(line, THREAD);
	vt_line_addf(line, VT_PLAIN, "%s idle in thread pools", vt_format_count(count, n));
	vt_line_pad(line, THREAD + thread_columns(line) + MOVED_COLUMNS);
	print_cpu(line, known, cpu_ns);
	vt_line_end(line);
}

/* The looks stop nothing; the question to the streams after the last one does. */
static void say_cost(char *cost, size_t size, const struct vt_model *model)
{
	double stopped_ms = model->streams.looks[VT_STREAM_LATER].stopped_ms;
	char number[VT_NUM_MAX];

	if (stopped_ms > 0)
		snprintf(cost, size, "then threads stopped for %s",
			 vt_format_ms(number, stopped_ms));
	else if (model->again.borrowed_us > 0)
		snprintf(cost, size, "then one thread borrowed for %s",
			 vt_format_ms(number, model->again.borrowed_us / 1000));
	else
		snprintf(cost, size, "no thread stopped");
}

static void print_title(struct vt_line *line, const struct vt_model *model)
{
	const struct vt_model_again *again = &model->again;
	double seconds = (double)again->span_ns / (double)VT_NS_PER_S;
	char cost[VT_NUM_MAX + 64];

	say_cost(cost, sizeof(cost), model);
	if (again->looks > 2)
		vt_text_title(line, NULL, "Again   pid %d: %u looks in %.1f s, %s",
			      (int)model->process.pid, again->looks, seconds, cost);
	else
		vt_text_title(line, NULL, "Again   pid %d, %.1f s later, %s",
			      (int)model->process.pid, seconds, cost);
}

static void print_threads(struct vt_line *line, const struct vt_model_again *again)
{
	VT_FREE struct row *list = calloc(again->threads.n + 1, sizeof(*list));
	struct rows rows = { .list = list };
	char count[VT_NUM_MAX];
	size_t hidden = 0;

	if (!list) {
		line->buf.failed = true;
		return;
	}
	for (size_t i = 0; i < again->threads.n; i++)
		if (!is_idle(&again->threads.data[i]))
			add_row(&rows, &again->threads.data[i]);
	qsort(list, rows.n, sizeof(*list), compare_rows);
	for (size_t i = 0; i < rows.n; i++) {
		if (i < MAX_ROWS)
			print_row(line, again, &list[i]);
		else
			hidden += list[i].n;
	}
	if (hidden) {
		vt_line_pad(line, THREAD);
		vt_line_addf(line, VT_DIM, "… %s more threads", vt_format_count(count, hidden));
		vt_line_end(line);
	}
	print_idle(line, again);
}

void vt_text_again(struct vt_line *line, const struct vt_model *model)
{
	if (!model->again.verdict || model->again.looks < 2)
		return;
	print_title(line, model);
	print_threads(line, &model->again);
	vt_text_streams_later(line, model);
}
