/* SPDX-License-Identifier: Apache-2.0 */
#include "json_edits.h"

#include <stdbool.h>
#include <string.h>

#define MAX_EDITS 16
#define EDIT_BYTES 4

static void find_values(struct json_edits *edits)
{
	const char *seed = edits->seed;

	for (size_t i = 0; seed[i] && edits->n_values < JSON_MAX_VALUES; i++) {
		size_t start = i;

		if (seed[i] == '"') {
			i += 1 + strcspn(seed + i + 1, "\"");
			if (seed[i + 1] == ':')
				continue;
		} else if (strchr("-0123456789tfn", seed[i])) {
			i += strcspn(seed + i, ",]}") - 1;
		} else {
			continue;
		}
		edits->values[edits->n_values].start = start;
		edits->values[edits->n_values++].end = i + 1;
	}
}

static size_t value_at(const struct json_edits *edits, size_t value, const char **text)
{
	*text = edits->seed + edits->values[value].start;
	return edits->values[value].end - edits->values[value].start;
}

/* The text that replaces a value: one of the list, or another value of the seed. */
static size_t replacement(const struct json_edits *edits, size_t by, const char **with)
{
	if (by % 2) {
		*with = edits->replacements[by / 2 % edits->n_replacements];
		return strlen(*with);
	}
	return value_at(edits, by / 2 % edits->n_values, with);
}

size_t json_edits_make(struct json_edits *edits, const uint8_t *data, size_t size, char *text,
		       size_t max)
{
	size_t by[JSON_MAX_VALUES] = { 0 }, at = 0, n = 0;
	bool edited[JSON_MAX_VALUES] = { false };

	if (!edits->n_values)
		find_values(edits);
	for (size_t i = 0; i + EDIT_BYTES <= size && i < (size_t)MAX_EDITS * EDIT_BYTES;
	     i += EDIT_BYTES) {
		size_t value = (data[i] | (size_t)data[i + 1] << 8) % (edits->n_values + 1);

		if (!value--)
			continue;
		edited[value] = true;
		by[value] = data[i + 2] | (size_t)data[i + 3] << 8;
	}
	for (size_t i = 0; i <= edits->n_values; i++) {
		size_t end = i < edits->n_values ? edits->values[i].start : strlen(edits->seed),
		       length;
		const char *with;

		if (n + (end - at) > max)
			return 0;
		memcpy(text + n, edits->seed + at, end - at);
		n += end - at;
		if (i == edits->n_values)
			break;
		length = edited[i] ? replacement(edits, by[i], &with) : value_at(edits, i, &with);
		if (n + length > max)
			return 0;
		memcpy(text + n, with, length);
		n += length;
		at = edits->values[i].end;
	}
	return n;
}

size_t json_edits_seed(const struct json_edits *edits, unsigned int number, uint8_t *data,
		       size_t max)
{
	size_t n = strlen(edits->seed);

	if (number > 1 || n > max)
		return 0;
	if (number) {
		memset(data, 0, 32);
		return 32;
	}
	memcpy(data, edits->seed, n);
	return n;
}
