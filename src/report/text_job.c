/* SPDX-License-Identifier: Apache-2.0 */
/* The summary of a job: the answer first, the evidence below. */
#include "report/job_parts.h"
#include "report/text.h"

static void print_member(struct vt_line *line, const struct vt_job *job, uint32_t index)
{
	const struct vt_member *m = &job->members.data[index];
	const struct vt_job_doing *doing = vt_job_main_doing(job, m);
	struct vt_str who = { 0 };

	vt_job_add_set(job, &(struct vt_member_set){ .members = &index, .n = 1 }, 24, &who);
	vt_line_cell(line, VT_PLAIN, vt_str_get(&who), 24, VT_CUT_END);
	vt_line_pad(line, 26);
	vt_line_add(line, m->error ? VT_WARN : VT_PLAIN, m->error ? m->error : doing ? vt_job_does(doing) : "");
	vt_line_end(line);
	line->buf.failed |= who.failed;
	vt_str_deinit(&who);
}

struct vt_error *vt_write_job_text(const struct vt_job *job, const struct vt_writer_options *options, FILE *out)
{
	struct vt_line line;

	vt_line_init(&line, out, options);
	vt_line_addf(&line, VT_BOLD, "%zu processes", job->members.n);
	vt_line_end(&line);
	for (size_t i = 0; i < job->verdicts.n; i++) {
		vt_line_add(&line, VT_ALARM, job->verdicts.data[i].alarm ? "!" : "");
		vt_line_pad(&line, 2);
		vt_line_wrap(&line, job->verdicts.data[i].alarm ? VT_ALARM : VT_PLAIN, job->verdicts.data[i].text, 4, 4);
	}
	for (size_t i = 0; i < job->members.n; i++)
		print_member(&line, job, (uint32_t)i);
	return vt_line_finish(&line);
}
