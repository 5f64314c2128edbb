/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sound JSON text with some of its values replaced, as the bytes of a fuzzer's input say, 4 each:
 * which value, and by what. So most inputs are JSON still.
 */
#ifndef VT_TESTS_JSON_EDITS_H
#define VT_TESTS_JSON_EDITS_H

#include <stddef.h>
#include <stdint.h>

#define JSON_MAX_VALUES 1000

struct json_edits {
	const char *seed; /* without escapes in strings */
	/* values that replace others; other values of the seed do, too */
	const char *const *replacements;
	size_t n_replacements;
	/*
	 * filled by json_edits_make(): where its values are: numbers, words and texts, not
	 * containers.
	 */
	size_t n_values;
	struct {
		size_t start, end;
	} values[JSON_MAX_VALUES];
};

/*
 * Puts the text that data makes into text, max bytes at most; returns its length, 0 when that is
 * too little.
 */
size_t json_edits_make(struct json_edits *edits, const uint8_t *data, size_t size, char *text,
		       size_t max);

/* For fuzz_seed(): the seed itself, then edits that change nothing. */
size_t json_edits_seed(const struct json_edits *edits, unsigned int number, uint8_t *data,
		       size_t max);

#endif
