/* SPDX-License-Identifier: Apache-2.0 */
/* The progress of collectives, from PyTorch's flight recorder: a table of process groups. */
#include <inttypes.h>

#include "model/flight.h"
#include "base/format.h"
#include "report/text/text.h"

enum { GROUP = 2, RANKS = 24, BEGUN_COLUMNS = 9, COMPLETED_COLUMNS = 11, GAP = 3 };

#define NARROW 100 /* up to this width, group names have less room */

static int ranks_column(const struct vt_line *line)
{
	return line->columns < NARROW ? 18 : RANKS;
}

int vt_text_group_ranks_columns(const struct vt_line *line)
{
	return line->columns < NARROW ? 14 : 20;
}

void vt_text_group_title(struct vt_line *line)
{
	vt_line_blank(line);
	vt_line_add(line, VT_BOLD, "Process groups");
	vt_line_pad(line, ranks_column(line));
	vt_line_cell(line, VT_DIM, "ranks", vt_text_group_ranks_columns(line), VT_CUT_END);
	vt_line_right(line, VT_DIM, "begun", BEGUN_COLUMNS);
	vt_line_right(line, VT_DIM, "completed", COMPLETED_COLUMNS);
	vt_line_pad(line, line->want + GAP);
	vt_line_add(line, VT_DIM, "waits in");
	vt_line_end(line);
}

static void print_number(struct vt_line *line, int64_t number, int columns)
{
	char text[VT_NUM_MAX];

	vt_line_right(line, VT_PLAIN, number < 0 ? "?" : vt_format_count(text, (uint64_t)number),
		      columns);
}

/* "all_reduce number 4 for 12 s: [64, 32] Float, not started; 2 more after it" */
static void add_oldest(const struct vt_model_process_group *g, struct vt_str *text)
{
	const struct vt_model_operation *op = &g->oldest;
	char age[VT_NUM_MAX];

	vt_str_addf(text, "%.100s number %" PRId64 " for %s", op->name, op->number,
		    vt_format_age(age, (double)op->age_ms / 1000.0));
	if (op->input)
		vt_str_addf(text, ": %.200s", op->input);
	if (op->started >= 0)
		vt_str_add(text, op->started ? ", started" : ", not started");
	if (g->n_pending > 1)
		vt_str_addf(text, "; %" PRIu64 " more after it", g->n_pending - 1);
}

void vt_text_group_row(struct vt_line *line, const struct vt_model_process_group *named,
		       const char *ranks, const struct vt_model_process_group *state)
{
	struct vt_str text = { 0 };

	vt_line_pad(line, GROUP);
	vt_line_cell(line, VT_PLAIN, named ? vt_flight_group_name(named) : "",
		     ranks_column(line) - GROUP - 1, VT_CUT_END);
	vt_line_pad(line, ranks_column(line));
	vt_line_cell(line, VT_PLAIN, ranks, vt_text_group_ranks_columns(line), VT_CUT_END);
	print_number(line, state ? state->last_enqueued : 0, BEGUN_COLUMNS);
	print_number(line, state ? state->last_completed : 0, COMPLETED_COLUMNS);
	if (state && state->n_pending) {
		add_oldest(state, &text);
		vt_line_pad(line, line->want + GAP);
		vt_line_wrap(line, VT_PLAIN, vt_str_get(&text), line->want, 3);
	} else {
		vt_line_end(line);
	}
	line->buf.failed |= text.failed;
	vt_str_deinit(&text);
}

void vt_text_collectives(struct vt_line *line, const struct vt_model *model)
{
	const struct vt_model_collectives *c = &model->collectives;

	if (c->groups.n)
		vt_text_group_title(line);
	for (size_t i = 0; i < c->groups.n; i++)
		vt_text_group_row(line, &c->groups.data[i],
				  c->groups.data[i].ranks ? c->groups.data[i].ranks : "?",
				  &c->groups.data[i]);
}
