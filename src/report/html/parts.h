/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a page, which are embedded into the tool (embed.S). */
#ifndef VT_REPORT_HTML_PARTS_H
#define VT_REPORT_HTML_PARTS_H

#include <stddef.h>
#include <stdio.h>

struct vt_html_part {
	const char *begin, *end;
};

extern const struct vt_html_part vt_html_template, vt_html_style;

/* In the order in which a browser has to run them. */
extern const struct vt_html_part vt_html_scripts[];
extern const size_t vt_html_n_scripts;

static inline void vt_html_put_part(const struct vt_html_part *part, FILE *out)
{
	fwrite(part->begin, 1, (size_t)(part->end - part->begin), out);
}

#endif
