/* SPDX-License-Identifier: Apache-2.0 */
/* The prefix tree of all stacks. */
#include <string.h>

#include "base/format.h"
#include "job/internal.h"
#include "report/text/text.h"
#include "job/text/text.h"

#define LAST_FRAMES 2    /* of a node that are always shown */
#define MAX_NODES 24     /* of each tree */
#define MAX_FRAMES 16    /* of a node with a line for each */
#define FIRST_FRAMES 5   /* of them */
#define MAX_NODE_LINES 8 /* what its threads do is at its end */

static bool is_section_start(const struct vt_job *job, size_t i)
{
	const struct vt_job_node *node = &job->tree.data[i], *before = i ? node - 1 : NULL;

	return !before || node->role != before->role || node->of_main != before->of_main;
}

static void print_section(struct vt_line *line, const struct vt_job_node *node)
{
	vt_text_title(line, node->of_main ? "outermost frames first" : NULL, "%s: %s",
		      vt_text_job_role(node->role),
		      node->of_main ? "main threads" : "other threads");
}

/*
 * The program's code, and the frames where the path forks or ends; the rest is libraries calling
 * each other.
 */
static bool is_shown(const struct vt_job *job, const struct vt_job_node *node, size_t i)
{
	return i + LAST_FRAMES >= node->n_frames || i == 0 ||
	       job->frames.data[node->frames[i]].program;
}

static void add_chain(struct vt_str *text, const struct vt_job *job, const struct vt_job_node *node,
		      bool ascii)
{
	bool left_out = false;

	for (size_t i = 0; i < node->n_frames; i++) {
		if (!is_shown(job, node, i)) {
			left_out = true;
			continue;
		}
		vt_str_add(text, left_out ? " > … > " : i ? " > " : "");
		vt_text_job_frame(text, &job->frames.data[node->frames[i]], ascii);
		left_out = false;
	}
}

/* "waits for the GIL (3 threads)" */
static void add_does(struct vt_str *text, const struct vt_job_node *node)
{
	char count[VT_NUM_MAX];

	vt_str_add(text, node->does);
	if (node->threads > node->members.n)
		vt_str_addf(text, " (%s threads)", vt_format_count(count, node->threads));
}

static size_t count_shown(const struct vt_job *job, const struct vt_job_node *node)
{
	size_t n = 0;

	for (size_t i = 0; i < node->n_frames; i++)
		n += is_shown(job, node, i);
	return n;
}

static void print_frame(struct vt_line *line, const struct vt_job_frame *f, int column)
{
	struct vt_str text = { 0 };

	vt_line_pad(line, column);
	vt_text_job_frame(&text, f, line->ascii);
	vt_line_add(line, f->program ? VT_BOLD : VT_PLAIN, vt_str_get(&text));
	vt_line_end(line);
	line->buf.failed |= text.failed;
	vt_str_deinit(&text);
}

/* A deep recursion has its middle left out. */
static void print_frames(struct vt_line *line, const struct vt_job *job,
			 const struct vt_job_node *node, int column)
{
	size_t shown = count_shown(job, node), nth = 0;
	bool left_out = false;

	for (size_t i = 0; i < node->n_frames; i++) {
		bool show = is_shown(job, node, i);

		nth += show;
		if (!show || (nth > FIRST_FRAMES && nth + MAX_FRAMES - FIRST_FRAMES <= shown)) {
			left_out = true;
			continue;
		}
		if (left_out) {
			vt_line_pad(line, column);
			vt_line_add(line, VT_DIM, "…");
			vt_line_end(line);
		}
		print_frame(line, &job->frames.data[node->frames[i]], column);
		left_out = false;
	}
}

/* On one line where there is room; else each frame has one. */
static void print_way(struct vt_line *line, const struct vt_job *job,
		      const struct vt_job_node *node, int column)
{
	struct vt_str text = { 0 }, does = { 0 };

	add_chain(&text, job, node, line->ascii);
	if (node->does)
		add_does(&does, node);
	if (does.n)
		vt_str_addf(&text, "%s%s", node->n_frames ? ": " : "", vt_str_get(&does));
	if (vt_line_width(line, vt_str_get(&text)) <= line->columns - column || !node->n_frames) {
		vt_line_pad(line, column);
		vt_line_wrap(line, VT_PLAIN, vt_str_get(&text), column, MAX_NODE_LINES);
	} else {
		print_frames(line, job, node, column);
		if (does.n) {
			vt_line_pad(line, column + 2);
			vt_line_wrap(line, VT_PLAIN, vt_str_get(&does), column + 4, MAX_NODE_LINES);
		}
	}
	line->buf.failed |= text.failed || does.failed;
	vt_str_deinit(&text);
	vt_str_deinit(&does);
}

static void print_node(struct vt_line *line, const struct vt_job *job,
		       const struct vt_job_node *node)
{
	int indent = 2 + 2 * (int)(node->depth < 8 ? node->depth : 8),
	    sets = line->columns / 5 > 20 ? line->columns / 5 : 20, column = indent + sets;
	struct vt_str text = { 0 };

	vt_line_pad(line, indent);
	vt_text_job_set(job, &node->members, sets - 6, &text);
	vt_line_add(line, node->outlier ? VT_WARN : VT_BOLD, vt_str_get(&text));
	if (vt_line_width(line, vt_str_get(&text)) > sets - 2)
		vt_line_end(line);
	line->buf.failed |= text.failed;
	vt_str_deinit(&text);
	print_way(line, job, node, column);
}

void vt_text_job_tree(struct vt_line *line, const struct vt_job *job)
{
	char count[VT_NUM_MAX];

	for (size_t i = 0, end; i < job->tree.n; i = end) {
		print_section(line, &job->tree.data[i]);
		for (end = i; end < job->tree.n && (end == i || !is_section_start(job, end)); end++)
			if (end - i < MAX_NODES)
				print_node(line, job, &job->tree.data[end]);
		if (end - i > MAX_NODES) {
			vt_line_pad(line, 2);
			vt_line_addf(line, VT_DIM, "… %s more in the JSON report",
				     vt_format_count(count, end - i - MAX_NODES));
			vt_line_end(line);
		}
	}
}
