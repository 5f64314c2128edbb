/* SPDX-License-Identifier: Apache-2.0 */
#include "json/jansson.h"

#include <stdbool.h>
#include <stdlib.h>

#include "json/limits.h"

/*
 * jansson allocates through two functions that are set for the whole program. During a parse they
 * allocate from the arena, so a document of a million blocks is freed at once and its memory is
 * bounded. The parser nests 2048 deep at most (jansson 2.8 on).
 */
static struct {
	struct vt_arena *arena;
	size_t left; /* bytes that the document may still take */
	bool too_much, nomem;
} parsing;

static void *take_memory(size_t size)
{
	void *p;

	if (size > parsing.left) {
		parsing.too_much = true;
		return NULL;
	}
	parsing.left -= size;
	p = vt_arena_alloc(parsing.arena, size);
	parsing.nomem |= !p;
	return p;
}

static void leave(void *p)
{
	(void)p;
}

struct vt_error *vt_jansson_parse(const char *text, size_t n, struct vt_arena *values,
				  json_t **root)
{
	json_error_t error;
	json_t *parsed;

	if (n > VT_JSON_IN_MAX)
		return vt_error_create(VT_ERR_FORMAT, "it is larger than 512 MiB");
	parsing.arena = values;
	parsing.left = vt_json_most_memory(n);
	parsing.too_much = parsing.nomem = false;
	json_set_alloc_funcs(take_memory, leave);
	parsed = json_loadb(text, n, JSON_REJECT_DUPLICATES, &error);
	json_set_alloc_funcs(malloc, free);
	if (parsing.too_much)
		return vt_error_create(VT_ERR_FORMAT,
				       "it is not a report: it has too many small parts");
	if (parsing.nomem)
		return vt_error_create(VT_ERR_NOMEM, "not enough memory here");
	if (!parsed)
		return vt_error_create(VT_ERR_FORMAT,
				       "it is not JSON, or was cut short: line %d: %s", error.line,
				       error.text);
	*root = parsed;
	return NULL;
}
