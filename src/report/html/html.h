/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One HTML file: a template, a style sheet, scripts and the data, without anything from a network.
 * The data are our own JSON documents; the scripts read them as a user's program would. A content
 * security policy allows only what this file brings.
 */
#ifndef VT_REPORT_HTML_H
#define VT_REPORT_HTML_H

#include "report/writer.h"

/* One document of a page. */
struct vt_html_document {
	const char *name;   /* for people: "before.json", "rank 3"; hostile; NULL none */
	vt_write_fn *write; /* writes JSON */
	const void *what;   /* for write */
};

/*
 * What belongs to a part of the first document, such as the report of one process of a job; read
 * when it is asked for.
 */
struct vt_html_attachment {
	uint32_t of;      /* the part: its index there */
	const char *text; /* JSON; need not be valid */
	size_t n;
};

struct vt_html_page {
	const char *title; /* hostile */
	const struct vt_html_document *documents;
	size_t n;
	const struct vt_html_attachment *attachments;
	size_t n_attachments;
};

/* Of a struct vt_html_page. */
vt_write_fn vt_write_page_html;

/* Of a struct vt_model: a page with one report. */
vt_write_fn vt_write_report_html;

/* Of a struct vt_stacks_document: a page of the threads of processes. */
vt_write_fn vt_write_stacks_html;

/* Of a struct vt_model: its document in a page, JSON with blocks in columns (packed.h). */
vt_write_fn vt_html_write_report;

#endif
