/* SPDX-License-Identifier: Apache-2.0 */
/* A piece of text that does not end with 0, and reading it from its begin. */
#ifndef VT_BASE_SPAN_H
#define VT_BASE_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct vt_span {
	const char *p;
	size_t n;
};

/* n <= span->n */
static inline void vt_span_skip(struct vt_span *span, size_t n)
{
	span->p += n;
	span->n -= n;
}

/* Takes text off the begin; false: it begins with something else. */
static inline bool vt_span_take(struct vt_span *span, const char *text)
{
	size_t n = strlen(text);

	if (span->n < n || memcmp(span->p, text, n) != 0)
		return false;
	vt_span_skip(span, n);
	return true;
}

#endif
