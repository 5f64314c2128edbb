/* SPDX-License-Identifier: Apache-2.0 */
/* The prefix tree of all stacks. */
#include <string.h>

#include "base/format.h"
#include "job/internal.h"
#include "report/text/text.h"
#include "job/text/text.h"

#define LAST_FRAMES 2    /* of a node that are always shown */
#define MAX_NODES 24     /* of each tree */
#define MAX_NODE_LINES 8 /* what its threads do is at its end */

static bool is_section_start(const struct vt_job *job, size_t i)
{
	const struct vt_job_node *node = &job->tree.data[i], *before = i ? node - 1 : NULL;

	return !before || node->role != before->role || node->of_main != before->of_main;
}

static void print_section(struct vt_line *line, const struct vt_job_node *node)
{
	static const char *const names[VT_N_ROLES] = {
		[VT_ROLE_RANK] = "Ranks",
		[VT_ROLE_LOADER] = "Loader workers",
		[VT_ROLE_CHECKPOINT] = "Checkpoint writers",
		[VT_ROLE_LAUNCHER] = "Launchers",
		[VT_ROLE_OTHER] = "Other processes",
	};

	vt_text_title(line, node->of_main ? "outermost frames first" : NULL, "%s: %s",
		      names[node->role], node->of_main ? "main threads" : "other threads");
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

static void print_node(struct vt_line *line, const struct vt_job *job,
		       const struct vt_job_node *node)
{
	int indent = 2 + 2 * (int)(node->depth < 8 ? node->depth : 8),
	    sets = line->columns / 5 > 20 ? line->columns / 5 : 20, column = indent + sets;
	struct vt_str text = { 0 };
	char count[VT_NUM_MAX];

	vt_line_pad(line, indent);
	vt_text_job_set(job, &node->members, sets - 6, &text);
	vt_line_add(line, node->outlier ? VT_WARN : VT_BOLD, vt_str_get(&text));
	vt_str_clear(&text);
	add_chain(&text, job, node, line->ascii);
	if (node->does)
		vt_str_addf(&text, "%s%s", node->n_frames ? ": " : "", node->does);
	if (node->does && node->threads > node->members.n)
		vt_str_addf(&text, " (%s threads)", vt_format_count(count, node->threads));
	vt_line_pad(line, vt_line_room(line) < line->columns - column ?
				  line->columns - vt_line_room(line) + 2 :
				  column);
	vt_line_wrap(line, VT_PLAIN, vt_str_get(&text), column, MAX_NODE_LINES);
	line->buf.failed |= text.failed;
	vt_str_deinit(&text);
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
