/* SPDX-License-Identifier: Apache-2.0 */
/* Titles. */
#include <stdarg.h>
#include <stdio.h>

#include "report/text/text.h"

void vt_text_end_title(struct vt_line *line, const char *hint)
{
	if (hint && vt_line_width(line, hint) + 3 <= vt_line_room(line)) {
		vt_line_pad(line, line->want + 3);
		vt_line_add(line, VT_DIM, hint);
	}
	vt_line_end(line);
}

void vt_text_title(struct vt_line *line, const char *hint, const char *format, ...)
{
	char text[256];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	vt_line_blank(line);
	vt_line_add(line, VT_BOLD, text);
	vt_text_end_title(line, hint);
}
