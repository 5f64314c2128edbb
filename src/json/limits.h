/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory a document may take, by what jansson 2.14 allocates for it: the limit is that of
 * the first versions, which read everything with jansson.
 */
#ifndef VT_JSON_LIMITS_H
#define VT_JSON_LIMITS_H

#include <stddef.h>
#include <stdint.h>

#define VT_JSON_IN_MAX (UINT64_C(1) << 29) /* bytes of a document: two million blocks take 330 MB */

/* A block of a report is 160 bytes of text and 1400 of jansson's memory. */
static inline size_t vt_json_most_memory(size_t n)
{
	return n * 16 + (1u << 20);
}

/* No more than this for each, beside the bytes of a text and the tables of containers. */
#define VT_JANSSON_TEXT 40   /* the text with its quotes, and json_string_t */
#define VT_JANSSON_PAIR 60   /* of an object, beside its key */
#define VT_JANSSON_NUMBER 24 /* json_integer_t, json_real_t */
#define VT_JANSSON_ARRAY 48  /* json_array_t */
#define VT_JANSSON_OBJECT 80 /* json_object_t */

#define VT_JANSSON_DEPTH 2048 /* JSON_PARSER_MAX_DEPTH */

#endif
