/* SPDX-License-Identifier: Apache-2.0 */
/* Documents that vramtap saved, as parts of a page. */
#ifndef VT_REPORT_HTML_SAVED_H
#define VT_REPORT_HTML_SAVED_H

#include <jansson.h>

#include "base/arena.h"
#include "base/str.h"
#include "report/html/html.h"

enum vt_html_kind {
	VT_HTML_REPORT, /* of vramtap report, watch, run */
	VT_HTML_STACKS,
	VT_HTML_DIFF,
	VT_HTML_JOB, /* of vramtap triage */
	VT_HTML_N_KINDS
};

struct vt_html_saved {
	const char *path; /* the caller's */
	enum vt_html_kind kind;
	json_t *root; /* in values */
	struct vt_arena values;
};

/*
 * Reads and checks a file ("-": standard input): it is JSON, and of a kind that a page can show.
 * VT_ERR_FORMAT says what is wrong with it, VT_ERR_OS why it cannot be read.
 */
struct vt_error *vt_html_saved_init(const char *path, struct vt_html_saved *saved);
/* The same; anything but a regular file is refused. */
struct vt_error *vt_html_saved_init_regular(const char *path, struct vt_html_saved *saved);
/* The same of a file's text that was read before. */
struct vt_error *vt_html_saved_init_text(const char *path, const struct vt_str *text,
					 struct vt_html_saved *saved);
void vt_html_saved_deinit(struct vt_html_saved *saved);

/* Whether a page shows the two kinds together: reports with reports. */
bool vt_html_can_join(enum vt_html_kind first, enum vt_html_kind other);

/* The document of a page; valid as long as saved is. */
struct vt_html_document vt_html_saved_document(const struct vt_html_saved *saved);

#endif
