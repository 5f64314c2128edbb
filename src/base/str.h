/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growing string, and the escaping of bytes that came from a target. Zero-initialised is empty.
 */
#ifndef VT_BASE_STR_H
#define VT_BASE_STR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * Errors are sticky: after a failed allocation every call does nothing and failed is true, so only
 * the end of a long chain of calls has to check it.
 */
struct vt_str {
	char *data; /* NUL-terminated once anything was added; else NULL */
	size_t n;
	size_t capacity;
	bool failed;
};

void vt_str_deinit(struct vt_str *str);
void vt_str_clear(struct vt_str *str);
/* Keeps the first n bytes, if there are more. */
void vt_str_cut(struct vt_str *str, size_t n);
void vt_str_add(struct vt_str *str, const char *text);
void vt_str_addn(struct vt_str *str, const char *text, size_t n);
void vt_str_addf(struct vt_str *str, const char *format, ...) __attribute__((format(printf, 2, 3)));
void vt_str_vaddf(struct vt_str *str, const char *format, va_list args)
	__attribute__((format(printf, 2, 0)));

/*
 * Adds hostile bytes so that a terminal shows them harmlessly: control characters, DEL, C1
 * controls, invalid UTF-8 and bidirectional overrides become \xNN; printable UTF-8 stays.
 */
void vt_str_add_escaped(struct vt_str *str, const char *text, size_t n);

/* The contents, "" when empty. */
const char *vt_str_get(const struct vt_str *str);

/*
 * The length in bytes of the valid UTF-8 sequence at text (at most n bytes long), or 0 when there
 * is none (overlong forms and surrogates are invalid). *code_point is set when the result is not 0.
 */
size_t vt_utf8_sequence(const char *text, size_t n, unsigned int *code_point);

/* The last component of a path. */
const char *vt_base_name(const char *path);

/* Either may be NULL, which equals only NULL. */
bool vt_same_text(const char *a, const char *b);

/* Each '*' in pattern stands for any text; everything else for itself. */
bool vt_glob(const char *pattern, const char *text);

#endif
