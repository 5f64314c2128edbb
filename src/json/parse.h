/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads JSON into values (json/value.h). It accepts nothing that jansson refuses, and says only yes
 * or no: what is wrong with a document, jansson knows (json/jansson.h).
 */
#ifndef VT_JSON_PARSE_H
#define VT_JSON_PARSE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "json/value.h"

enum vt_json_parsed {
	VT_JSON_PARSED,
	VT_JSON_DOUBTFUL, /* parsed, but jansson may refuse it: many small parts, many keys */
	VT_JSON_REFUSED,
	VT_JSON_NOMEM,
};

/* Nothing in root points into text; all of it lives in the arena. Unset unless it was parsed. */
enum vt_json_parsed vt_json_parse(const char *text, size_t n, struct vt_arena *values,
				  const struct vt_json_value **root);

#endif
