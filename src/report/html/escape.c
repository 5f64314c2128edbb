/* SPDX-License-Identifier: Apache-2.0 */
#include "report/html/escape.h"

#include <string.h>

#include "base/str.h"

void vt_html_escape(const char *text, FILE *out)
{
	struct vt_str safe = { 0 };

	vt_str_add_escaped(&safe, text, strlen(text));
	for (const char *p = vt_str_get(&safe); *p; p++) {
		switch (*p) {
		case '&':
			fputs("&amp;", out);
			break;
		case '<':
			fputs("&lt;", out);
			break;
		case '>':
			fputs("&gt;", out);
			break;
		case '"':
			fputs("&quot;", out);
			break;
		default:
			fputc(*p, out);
		}
	}
	vt_str_deinit(&safe);
}

static ssize_t write_escaped(void *cookie, const char *text, size_t n)
{
	FILE *out = cookie;
	const char *at = text, *end = text + n;

	while (at < end) {
		const char *less = memchr(at, '<', (size_t)(end - at));
		size_t plain = (size_t)((less ? less : end) - at);

		if (fwrite(at, 1, plain, out) != plain || (less && fputs("\\u003c", out) < 0))
			return 0; /* an error, as stdio sees it */
		at += plain + (less ? 1 : 0);
	}
	return (ssize_t)n;
}

FILE *vt_html_open_script(FILE *out)
{
	return fopencookie(out, "w", (cookie_io_functions_t){ .write = write_escaped });
}
