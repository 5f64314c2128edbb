/* SPDX-License-Identifier: Apache-2.0 */
/* Faults of the GPUs of a job: a line for each, and what the driver said of it. */
#include "base/format.h"
#include "job/text/text.h"
#include "report/text/text.h"

enum { MAX_SHOWN = 10, INDENT = 4, MAX_LINES = 3 };

static void print_fault(struct vt_line *line, const struct vt_job *job,
			const struct vt_job_fault *fault)
{
	struct vt_str text = { 0 };
	char number[VT_NUM_MAX];

	vt_str_add(&text, fault->text);
	if (fault->xid && fault->xid->last.tv_sec && job->when.tv_sec >= fault->xid->last.tv_sec)
		vt_str_addf(&text, ", %s%s ago", fault->times > 1 ? "the last " : "",
			    vt_format_age(number,
					  (double)(job->when.tv_sec - fault->xid->last.tv_sec)));
	vt_line_add(line, fault->alarm ? VT_ALARM : VT_PLAIN, fault->alarm ? "!" : "·");
	vt_line_pad(line, 2);
	vt_line_wrap(line, fault->alarm ? VT_ALARM : VT_PLAIN, vt_str_get(&text), 2, MAX_LINES);
	if (fault->xid && *fault->xid->text) {
		vt_line_pad(line, INDENT);
		vt_line_wrap(line, VT_DIM, fault->xid->text, INDENT, MAX_LINES);
	}
	line->buf.failed |= text.failed;
	vt_str_deinit(&text);
}

/* Why a lost context has no fault here. */
static const char *why_not(const struct vt_job *job)
{
	bool lost = false;

	for (size_t i = 0; i < job->members.n; i++)
		lost |= job->members.data[i].lost != VT_CONTEXT_NOT_LOST;
	for (size_t i = 0; i < job->usages.n && lost; i++)
		if (job->usages.data[i].faults.state == VT_FAULTS_REFUSED)
			return job->usages.data[i].faults.why;
	return NULL;
}

void vt_text_job_faults(struct vt_line *line, const struct vt_job *job)
{
	const char *why = why_not(job);
	char number[VT_NUM_MAX];

	if (!job->faults.n && !why)
		return;
	vt_text_title(line, NULL, "Faults and health of the GPUs");
	for (size_t i = 0; i < job->faults.n && i < MAX_SHOWN; i++)
		print_fault(line, job, &job->faults.data[i]);
	if (job->faults.n > MAX_SHOWN) {
		vt_line_pad(line, 2);
		vt_line_addf(line, VT_DIM, "… %s more in the JSON report",
			     vt_format_count(number, job->faults.n - MAX_SHOWN));
		vt_line_end(line);
	}
	if (why) {
		vt_line_pad(line, 2);
		vt_line_wrap(line, VT_DIM, why, 2, MAX_LINES);
	}
}
