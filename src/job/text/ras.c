/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The section about NCCL's RAS: which process was asked, and lines that were not understood.
 * Findings are verdicts.
 */
#include <inttypes.h>
#include <string.h>

#include "base/format.h"
#include "report/text/text.h"
#include "job/text/text.h"

#define MAX_ANSWERS 8
#define MAX_LINES 12

static size_t count_about(const struct vt_ras *ras, bool ill)
{
	size_t n = 0;

	for (size_t i = 0; i < ras->groups.n; i++)
		n += (ras->groups.data[i].about != VT_RAS_COUNT &&
		      ras->groups.data[i].about != VT_RAS_STATUS) == ill;
	return n;
}

/* Every group that differs from others makes progress. */
static bool goes_on(const struct vt_ras *ras)
{
	for (size_t i = 0; i < ras->groups.n; i++)
		if (ras->groups.data[i].about != VT_RAS_COUNT || ras->groups.data[i].moved != 1)
			return false;
	return true;
}

static void add_findings(const struct vt_ras *ras, struct vt_str *text)
{
	size_t ill = count_about(ras, true), differ = count_about(ras, false);

	if (!ras->understood)
		vt_str_add(text, "; vramtap does not know all parts of its answer");
	else if (!ill && !differ)
		vt_str_add(text, "; all ranks answer, without errors, and have launched the same");
	else if (!ill)
		vt_str_addf(text, "; all ranks answer, without errors%s",
			    goes_on(ras) ? ", and launch more" : "");
}

static void print_answer(struct vt_line *line, const struct vt_ras *ras)
{
	struct vt_str text = { 0 };
	char count[VT_NUM_MAX];

	vt_str_addf(&text, "%s%.40s%spid %d on %.64s: %s communicator%s",
		    *ras->version ? "NCCL " : "", ras->version, *ras->version ? ", " : "",
		    (int)ras->pid, ras->host, vt_format_count(count, ras->communicators),
		    ras->communicators == 1 ? "" : "s");
	add_findings(ras, &text);
	if (ras->file)
		vt_str_addf(&text, " (%.200s)", ras->file);
	vt_line_pad(line, 2);
	vt_line_wrap(line, VT_PLAIN, vt_str_get(&text), 4, 3);
	for (size_t i = 0; i < ras->lines.n && i < MAX_LINES; i++) {
		vt_line_pad(line, 4);
		vt_line_cell(line, VT_DIM, ras->lines.data[i], vt_line_room(line), VT_CUT_END);
		vt_line_end(line);
	}
	line->buf.failed |= text.failed;
	vt_str_deinit(&text);
}

void vt_text_job_ras(struct vt_line *line, const struct vt_job *job)
{
	char count[VT_NUM_MAX];

	if (job->ras.n)
		vt_text_title(line, NULL, "NCCL's RAS");
	for (size_t i = 0; i < job->ras.n && i < MAX_ANSWERS; i++)
		print_answer(line, &job->ras.data[i]);
	if (job->ras.n > MAX_ANSWERS) {
		vt_line_pad(line, 2);
		vt_line_addf(line, VT_DIM, "… %s more in the JSON report",
			     vt_format_count(count, job->ras.n - MAX_ANSWERS));
		vt_line_end(line);
	}
}
