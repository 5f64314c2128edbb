/* SPDX-License-Identifier: Apache-2.0 */
/* What the target and its files hold stays text in a page. */
#ifndef VT_REPORT_HTML_ESCAPE_H
#define VT_REPORT_HTML_ESCAPE_H

#include <stdio.h>

/*
 * Writes text as HTML's text, or as the value of an attribute in quotes; what the terminal or a
 * reader could be fooled by is escaped as vt_str_add_escaped() does.
 */
void vt_html_escape(const char *text, FILE *out);

/*
 * A stream for JSON inside a script element: "<" becomes \u003c, which JSON reads as the same, so
 * that no text can end the element or begin a comment. Valid JSON has "<" only in strings. Closing
 * it flushes it, and leaves out open. NULL: out of memory.
 */
FILE *vt_html_open_script(FILE *out);

#endif
