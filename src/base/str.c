/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool reserve(struct vt_str *str, size_t more)
{
	if (str->failed)
		return false;
	if (more >= SIZE_MAX / 2 - str->n) {
		str->failed = true;
		return false;
	}

	size_t want = str->n + more + 1;

	if (want <= str->capacity)
		return true;
	if (want < str->capacity * 2)
		want = str->capacity * 2;
	if (want < 64)
		want = 64;

	char *p = realloc(str->data, want);

	if (!p) {
		str->failed = true;
		return false;
	}
	str->data = p;
	str->capacity = want;
	return true;
}

void vt_str_deinit(struct vt_str *str)
{
	free(str->data);
	*str = (struct vt_str){ 0 };
}

void vt_str_clear(struct vt_str *str)
{
	str->n = 0;
	if (str->data)
		str->data[0] = '\0';
}

void vt_str_cut(struct vt_str *str, size_t n)
{
	if (n >= str->n)
		return;
	str->n = n;
	str->data[n] = '\0';
}

void vt_str_addn(struct vt_str *str, const char *text, size_t n)
{
	if (!reserve(str, n))
		return;
	memcpy(str->data + str->n, text, n);
	str->n += n;
	str->data[str->n] = '\0';
}

void vt_str_add(struct vt_str *str, const char *text)
{
	vt_str_addn(str, text, strlen(text));
}

void vt_str_vaddf(struct vt_str *str, const char *format, va_list args)
{
	va_list again;

	va_copy(again, args);
	int n = vsnprintf(NULL, 0, format, args);

	if (n >= 0 && reserve(str, (size_t)n)) {
		vsnprintf(str->data + str->n, (size_t)n + 1, format, again);
		str->n += (size_t)n;
	} else {
		str->failed = true;
	}
	va_end(again);
}

void vt_str_addf(struct vt_str *str, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vt_str_vaddf(str, format, args);
	va_end(args);
}

size_t vt_utf8_sequence(const char *text, size_t n, unsigned int *code_point)
{
	static const unsigned int smallest[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const unsigned char *s = (const unsigned char *)text;

	if (n == 0)
		return 0;

	size_t len = s[0] < 0x80                 ? 1 :
		     s[0] >= 0xc2 && s[0] < 0xe0 ? 2 :
		     (s[0] & 0xf0) == 0xe0       ? 3 :
		     s[0] >= 0xf0 && s[0] < 0xf5 ? 4 :
						   0;
	if (len == 0 || len > n)
		return 0;

	unsigned int cp = len == 1 ? s[0] : s[0] & (0xffu >> (len + 1));

	for (size_t i = 1; i < len; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		cp = cp << 6 | (s[i] & 0x3fu);
	}
	if (cp < smallest[len] || cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000))
		return 0;
	*code_point = cp;
	return len;
}

/*
 * Characters that can rewrite what a terminal already showed, or that hide text: controls,
 * invisible and bidirectional formatting characters (general category Cf), and the tag characters.
 */
static const struct {
	unsigned int first, last;
} harmful[] = {
	{ 0x00, 0x1f },     { 0x7f, 0x9f },     { 0xad, 0xad },       { 0x61c, 0x61c },
	{ 0x180e, 0x180e }, { 0x200b, 0x200f }, { 0x2028, 0x202e },   { 0x2060, 0x206f },
	{ 0xfeff, 0xfeff }, { 0xfff9, 0xfffb }, { 0xe0000, 0xe007f },
};

static bool is_harmless(unsigned int cp)
{
	for (size_t i = 0; i < sizeof(harmful) / sizeof(harmful[0]); i++)
		if (cp >= harmful[i].first && cp <= harmful[i].last)
			return false;
	return true;
}

void vt_str_add_escaped(struct vt_str *str, const char *text, size_t n)
{
	while (n > 0) {
		unsigned int cp = 0;
		size_t len = vt_utf8_sequence(text, n, &cp);

		if (len > 0 && is_harmless(cp)) {
			vt_str_addn(str, text, len);
		} else {
			len = len ? len : 1;
			for (size_t i = 0; i < len; i++)
				vt_str_addf(str, "\\x%02x", (unsigned char)text[i]);
		}
		text += len;
		n -= len;
	}
}

const char *vt_str_get(const struct vt_str *str)
{
	return str->data ? str->data : "";
}

/* What is behind the last star is most often what does not match. */
static bool ends_right(const char *pattern, const char *text)
{
	const char *last = strrchr(pattern, '*'), *tail = last ? last + 1 : pattern;
	size_t n = strlen(tail), n_text = strlen(text);

	return n_text >= n && !memcmp(text + n_text - n, tail, n);
}

bool vt_glob(const char *pattern, const char *text)
{
	const char *star = NULL, *retry = NULL;

	if (!ends_right(pattern, text))
		return false;
	while (*text) {
		if (*pattern == '*') {
			star = pattern++;
			retry = text;
		} else if (*pattern == *text) {
			pattern++;
			text++;
		} else if (star) {
			pattern = star + 1;
			text = ++retry;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}

const char *vt_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

bool vt_same_text(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}
