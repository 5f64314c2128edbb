/* SPDX-License-Identifier: Apache-2.0 */
/* Where to start: what is wrong, who waits for it, and what can be done. */
#include <string.h>

#include "job/internal.h"
#include "base/format.h"
#include "report/text/text.h"
#include "job/text/text.h"

#define MAX_CHAINS 3
#define ARROW "← "

/* The title of the first chain, and of others. */
static const char start[] = "START HERE: ", also[] = "Also: ";

static int width_of(struct vt_line *line, const struct vt_job_chain *chain, const char *title)
{
	int width = (int)strlen(title);

	for (size_t i = 0; i < chain->n_links; i++)
		width += vt_line_width(line, chain->links[i].text) +
			 (i ? 1 + vt_line_width(line, ARROW) : 0);
	return width;
}

/* On one line if there is room, else a line for each link. */
static void print_links(struct vt_line *line, const struct vt_job_chain *chain, const char *title)
{
	bool one = width_of(line, chain, title) <= line->columns;

	vt_line_add(line, VT_ALARM, title);
	for (size_t i = 0; i < chain->n_links; i++) {
		enum vt_style style = i ? VT_PLAIN : VT_BOLD;

		if (i) {
			vt_line_pad(line, one ? 0 : 2);
			vt_line_add(line, VT_PLAIN, ARROW);
		}
		if (one)
			vt_line_add(line, style, chain->links[i].text);
		else
			vt_line_wrap(line, style, chain->links[i].text, 4, 4);
	}
	if (one)
		vt_line_end(line);
}

static void print_note(struct vt_line *line, const char *before, const char *text)
{
	struct vt_str note = { 0 };

	vt_str_addf(&note, "%s%s", before, text);
	vt_line_pad(line, 2);
	vt_line_wrap(line, VT_DIM, vt_str_get(&note), 4, 3);
	line->buf.failed |= note.failed;
	vt_str_deinit(&note);
}

/* A command stands on a line of its own if there is no room for its words beside it. */
static void print_step(struct vt_line *line, const char *command, const char *words, int beside)
{
	int width = vt_line_width(line, command);

	vt_line_pad(line, 4);
	if (*command && beside + vt_line_width(line, words) <= line->columns) {
		vt_line_add(line, VT_BOLD, command);
		vt_line_pad(line, width < beside ? beside : 4 + width + 2);
	} else if (*command) {
		vt_line_wrap(line, VT_BOLD, command, 6, 20);
		vt_line_pad(line, 6);
	}
	vt_line_wrap(line, *command ? VT_DIM : VT_PLAIN, words, 6, 3);
}

static void print_steps(struct vt_line *line, const struct vt_job_chain *chain)
{
	int beside = 0;

	for (size_t i = 0; i < chain->n_steps; i++)
		if (4 + vt_line_width(line, chain->steps[i].command) + 2 > beside)
			beside = 4 + vt_line_width(line, chain->steps[i].command) + 2;
	for (size_t i = 0; i < chain->n_steps; i++)
		print_step(line, chain->steps[i].command, chain->steps[i].words, beside);
}

static bool has_several_hosts(const struct vt_job *job)
{
	for (size_t i = 1; i < job->members.n; i++)
		if (strcmp(job->members.data[i].label.host, job->members.data[0].label.host) != 0)
			return true;
	return false;
}

static void print_chain(struct vt_line *line, const struct vt_job *job,
			const struct vt_job_chain *chain, const char *title)
{
	const char *host = has_several_hosts(job) ? vt_chain_host(job, chain) : "";

	print_links(line, chain, title);
	if (chain->circle)
		print_note(line, ARROW, "they wait for each other in a circle: none can go on");
	if (chain->doubt)
		print_note(line, "likely, not certain: ", vt_doubt_words(chain->doubt));
	if (*host)
		print_note(line, "on ", host);
	print_steps(line, chain);
}

void vt_text_job_chains(struct vt_line *line, const struct vt_job *job)
{
	char count[VT_NUM_MAX];

	for (size_t i = 0; i < job->chains.n && i < MAX_CHAINS; i++) {
		vt_line_blank(line);
		print_chain(line, job, &job->chains.data[i], i ? also : start);
	}
	if (job->chains.n > MAX_CHAINS) {
		vt_line_addf(line, VT_DIM, "… %s more in the JSON report",
			     vt_format_count(count, job->chains.n - MAX_CHAINS));
		vt_line_end(line);
	}
}
