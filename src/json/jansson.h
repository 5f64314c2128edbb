/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads JSON with jansson: it can write a document again, and it says where one is damaged. All
 * else reads with json/parse.h.
 */
#ifndef VT_JSON_JANSSON_H
#define VT_JSON_JANSSON_H

#include <stddef.h>

#include <jansson.h>

#include "base/arena.h"
#include "base/error.h"

/*
 * Parses the n bytes of text; root is valid as long as the arena is, and is released with it:
 * json_decref() is never called. VT_ERR_FORMAT, VT_ERR_NOMEM. Only one thread at a time.
 */
struct vt_error *vt_jansson_parse(const char *text, size_t n, struct vt_arena *values,
				  json_t **root);

#endif
