/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of one report and of stacks, from the model. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "report/html/html.h"
#include "report/html/packed.h"

struct vt_error *vt_html_write_report(const void *what, const struct vt_writer_options *options,
				      FILE *out)
{
	VT_FREE struct vt_json *json = malloc(sizeof(*json));

	if (!json)
		return &vt_enomem;
	vt_json_init(json, out);
	json->compact = true;
	vt_json_report(json, what, options, &vt_html_packed_blocks);
	return vt_json_finish(json);
}

/* A page of one document; releases the title. */
static struct vt_error *write_alone(const struct vt_html_document *document, struct vt_str *title,
				    const struct vt_writer_options *options, FILE *out)
{
	const struct vt_html_page page = { .title = vt_str_get(title),
					   .documents = document,
					   .n = 1 };
	struct vt_error *err = vt_write_page_html(&page, options, out);

	vt_str_deinit(title);
	return err;
}

/* "vramtap: train.py, pid 4711 on node3" */
static void add_title(struct vt_str *title, const struct vt_model *model)
{
	const struct vt_model_process *p = &model->process;

	vt_str_addf(title, "vramtap: %s, pid %d", p->name ? p->name : "a process", p->pid);
	if (model->where.host && *model->where.host)
		vt_str_addf(title, " on %s", model->where.host);
}

struct vt_error *vt_write_report_html(const void *what, const struct vt_writer_options *options,
				      FILE *out)
{
	const struct vt_html_document document = { .write = vt_html_write_report, .what = what };
	struct vt_str title = { 0 };

	add_title(&title, what);
	return write_alone(&document, &title, options, out);
}

/* "vramtap: stacks of train.py, pid 4711", "vramtap: stacks of 8 processes" */
static void add_stacks_title(struct vt_str *title, const struct vt_stacks_document *document)
{
	const struct vt_stacks_result *first = document->results;

	if (document->n != 1)
		vt_str_addf(title, "vramtap: stacks of %zu processes", document->n);
	else if (first->err || !first->model->process.name)
		vt_str_addf(title, "vramtap: stacks of pid %d", (int)first->pid);
	else
		vt_str_addf(title, "vramtap: stacks of %s, pid %d", first->model->process.name,
			    (int)first->pid);
}

struct vt_error *vt_write_stacks_html(const void *what, const struct vt_writer_options *options,
				      FILE *out)
{
	const struct vt_html_document document = { .write = vt_write_stacks_json, .what = what };
	struct vt_str title = { 0 };

	add_stacks_title(&title, what);
	return write_alone(&document, &title, options, out);
}
