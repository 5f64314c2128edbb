/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which reports of its processes the page of a job brings along. A page of a large job cannot have
 * all of them: the urgent ones come first, as long as there is room.
 */
#ifndef VT_REPORT_HTML_ATTACH_H
#define VT_REPORT_HTML_ATTACH_H

#include "base/vec.h"
#include "report/html/html.h"

/* Bytes of all attachments of a page: with a job of 1,024 ranks, it stays below 20 MiB. */
#define VT_HTML_ATTACHED ((size_t)11 << 20)

enum vt_html_urgency {
	VT_HTML_ODD,   /* differs, or is the cause */
	VT_HTML_NAMED, /* an alarm names it */
	VT_HTML_RANK,
	VT_HTML_OTHER,
};

struct vt_html_candidate {
	struct vt_html_attachment what; /* text NULL: it is in path */
	enum vt_html_urgency urgency;
	const char *path; /* a saved report; the caller's */
	pid_t pid;        /* of its process: another one's report is not taken */
	const char *host; /* of the process; NULL unknown */
	char *loaded;     /* private: from path */
};

struct vt_html_attached {
	VT_VEC(struct vt_html_candidate) candidates;
	VT_VEC(struct vt_html_attachment) chosen; /* by vt_html_choose_attached() */
};

/* False: out of memory. */
bool vt_html_add_attached(struct vt_html_attached *all, const struct vt_html_candidate *one);

/* Reads files; those that cannot be read, or are no reports, are left out. */
struct vt_error *vt_html_choose_attached(struct vt_html_attached *all);
void vt_html_attached_deinit(struct vt_html_attached *all);

#endif
