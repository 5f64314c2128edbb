/* SPDX-License-Identifier: Apache-2.0 */
#include "model/owners_match.h"

#include <ctype.h>
#include <string.h>

enum {
	MAX_PATTERN = 64,   /* characters of a pattern that are compared to find names like it */
	MAX_COMPARED = 160, /* of a name: its end, which tells most */
	MAX_NAMES = 100000, /* that are compared: 0.3 s at most */
};

/* ---- what matches ---- */

/* "[*]" alone is any index, and the pattern may still be anywhere. */
static bool has_wildcard(const char *pattern)
{
	for (const char *at = pattern; (at = strpbrk(at, "*?")); at++) {
		if (*at == '?' || at == pattern || at[-1] != '[' || at[1] != ']')
			return true;
	}
	return false;
}

/* anywhere: else all of the text. */
static bool glob(const char *pattern, const char *text, bool anywhere)
{
	const char *again = anywhere ? pattern : NULL; /* behind the last star */
	const char *retry = text;

	for (;;) {
		if (*pattern == '*') {
			again = ++pattern;
			retry = text;
		} else if (!*pattern && (anywhere || !*text)) {
			return true;
		} else if (*text && (*pattern == '?' || *pattern == *text)) {
			pattern++;
			text++;
		} else if (again && *retry) {
			pattern = again;
			text = ++retry;
		} else {
			return false;
		}
	}
}

static bool matches(const char *pattern, const char *text)
{
	/* A name may have such characters itself. */
	return *text && (strstr(text, pattern) || glob(pattern, text, !has_wildcard(pattern)));
}

bool vt_owner_matches(const struct vt_model_owner *owner, const char *pattern)
{
	return matches(pattern, owner->name) || matches(pattern, owner->variable) ||
	       matches(pattern, owner->module) || matches(pattern, owner->type) ||
	       glob(pattern, vt_category_code((enum vt_category)owner->category), false);
}

/* ---- what is near ---- */

struct near {
	const char *names[VT_OWNERS_NEAREST];
	size_t distances[VT_OWNERS_NEAREST], n;
	const char *pattern;
	size_t length;
};

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/*
 * How many characters have to change until the pattern is in the text somewhere, whatever their
 * case (P. Sellers, "The theory and computation of evolutionary distances", 1980).
 */
static size_t distance_in(const struct near *near, const char *text)
{
	size_t row[MAX_PATTERN + 1], best = near->length, n = strlen(text);

	if (n > MAX_COMPARED)
		text += n - MAX_COMPARED;
	for (size_t i = 0; i <= near->length; i++)
		row[i] = i;
	for (; *text; text++) {
		size_t diagonal = 0;

		for (size_t i = 1; i <= near->length; i++) {
			bool same = tolower((unsigned char)near->pattern[i - 1]) ==
				    tolower((unsigned char)*text);
			size_t change = diagonal + !same;

			diagonal = row[i];
			row[i] = least(change, least(row[i], row[i - 1]) + 1);
		}
		best = least(best, row[near->length]);
	}
	return best;
}

static void consider(struct near *near, const char *name)
{
	size_t changes, distance, at = near->n;

	if (!*name)
		return;
	for (size_t i = 0; i < near->n; i++) {
		if (!strcmp(near->names[i], name))
			return;
	}
	changes = distance_in(near, name);
	if (2 * changes > near->length)
		return;
	/* Of two names that are as near, the shorter one comes first. */
	distance = changes * 1024 + least(strlen(name), 1023);
	if (near->n == VT_OWNERS_NEAREST && distance >= near->distances[--at])
		return;
	if (near->n < VT_OWNERS_NEAREST)
		near->n++;
	for (; at && near->distances[at - 1] > distance; at--) {
		near->names[at] = near->names[at - 1];
		near->distances[at] = near->distances[at - 1];
	}
	near->names[at] = name;
	near->distances[at] = distance;
}

size_t vt_owners_nearest(const struct vt_model *model, const char *pattern,
			 const char *names[VT_OWNERS_NEAREST])
{
	struct near near = { .pattern = pattern, .length = least(strlen(pattern), MAX_PATTERN) };
	const char *last_variable = "", *last_module = "";

	for (size_t i = 0; i < vt_model_n_owners(model) && i < MAX_NAMES; i++) {
		const struct vt_model_owner *owner = vt_model_owner_at(model, i);

		/* Blocks of one variable follow each other mostly. */
		if (strcmp(owner->variable, last_variable))
			consider(&near, last_variable = owner->variable);
		if (strcmp(owner->module, last_module))
			consider(&near, last_module = owner->module);
		consider(&near, owner->name);
		consider(&near, owner->type);
	}
	memcpy(names, near.names, sizeof(near.names));
	return near.n;
}
