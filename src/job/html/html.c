/* SPDX-License-Identifier: Apache-2.0 */
#include "job/html/html.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/format.h"
#include "job/json/json.h"
#include "report/html/attach.h"
#include "report/html/html.h"

static void hurry(unsigned char *urgency, const struct vt_member_set *set, enum vt_html_urgency to)
{
	for (size_t i = 0; i < set->n; i++)
		if (urgency[set->members[i]] > to)
			urgency[set->members[i]] = (unsigned char)to;
}

static void find_urgency(const struct vt_job *job, unsigned char *urgency)
{
	for (size_t i = 0; i < job->members.n; i++) {
		const struct vt_member *m = &job->members.data[i];

		urgency[i] = m->outlier                    ? VT_HTML_ODD :
			     m->label.role == VT_ROLE_RANK ? VT_HTML_RANK :
							     VT_HTML_OTHER;
	}
	for (size_t i = 0; i < job->chains.n; i++)
		hurry(urgency, &job->chains.data[i].links[0].members, VT_HTML_ODD);
	for (size_t i = 0; i < job->verdicts.n; i++)
		if (job->verdicts.data[i].alarm)
			hurry(urgency, &job->verdicts.data[i].members, VT_HTML_NAMED);
}

static char *path_of(const struct vt_job *job, const char *file)
{
	char *path = NULL;

	if (*file == '/' || !job->directory)
		return strdup(file);
	return asprintf(&path, "%s/%s", job->directory, file) < 0 ? NULL : path;
}

static bool add(const struct vt_job *job, size_t i, enum vt_html_urgency urgency,
		struct vt_html_attached *attached, char **path)
{
	const struct vt_member *m = &job->members.data[i];
	struct vt_html_candidate one = { .what = { .of = (uint32_t)i },
					 .urgency = urgency,
					 .pid = m->label.pid };

	if (m->page.n && !m->page.failed) {
		one.what.text = m->page.data;
		one.what.n = m->page.n;
	} else if (m->file) {
		one.path = *path = path_of(job, m->file);
		if (!*path)
			return false;
	} else {
		return true;
	}
	return vt_html_add_attached(attached, &one);
}

/* paths: of each member, for as long as attached is used. */
static struct vt_error *attach(const struct vt_job *job, struct vt_html_attached *attached,
			       char **paths)
{
	VT_FREE unsigned char *urgency = calloc(job->members.n + 1, 1);

	if (!urgency)
		return &vt_enomem;
	find_urgency(job, urgency);
	for (size_t i = 0; i < job->members.n; i++)
		if (!add(job, i, (enum vt_html_urgency)urgency[i], attached, &paths[i]))
			return &vt_enomem;
	return vt_html_choose_attached(attached);
}

static struct vt_error *write_document(const void *what, const struct vt_writer_options *options,
				       FILE *out)
{
	struct vt_writer_options compact = *options;

	compact.compact = true;
	return vt_write_job_json(what, &compact, out);
}

/* "vramtap: slurm 4711, 1,024 processes" */
static void add_title(struct vt_str *title, const struct vt_job *job)
{
	const struct vt_label *first = job->members.n ? &job->members.data[0].label : NULL;
	char count[VT_NUM_MAX];

	vt_str_add(title, "vramtap: ");
	if (first && *first->job)
		vt_str_addf(title, "%.64s, ", first->job);
	else if (first)
		vt_str_addf(title, "%.64s, ", first->name);
	vt_str_addf(title, "%s process%s", vt_format_count(count, job->members.n),
		    job->members.n == 1 ? "" : "es");
}

static struct vt_error *write_page(const struct vt_job *job,
				   const struct vt_html_attached *attached,
				   const struct vt_writer_options *options, FILE *out)
{
	const struct vt_html_document document = { .write = write_document, .what = job };
	struct vt_html_page page = { .documents = &document,
				     .n = 1,
				     .attachments = attached->chosen.data,
				     .n_attachments = attached->chosen.n };
	struct vt_str title = { 0 };
	struct vt_error *err;

	add_title(&title, job);
	page.title = vt_str_get(&title);
	err = vt_write_page_html(&page, options, out);
	vt_str_deinit(&title);
	return err;
}

struct vt_error *vt_write_job_html(const void *what, const struct vt_writer_options *options,
				   FILE *out)
{
	const struct vt_job *job = what;
	struct vt_html_attached attached = { 0 };
	VT_FREE char **paths = calloc(job->members.n + 1, sizeof(*paths));
	struct vt_error *err = paths ? attach(job, &attached, paths) : &vt_enomem;

	if (!err)
		err = write_page(job, &attached, options, out);
	vt_html_attached_deinit(&attached);
	for (size_t i = 0; paths && i < job->members.n; i++)
		free(paths[i]);
	return err;
}
