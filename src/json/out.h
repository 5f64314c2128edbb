/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A streaming JSON writer: nothing is kept but a small buffer. The output is ASCII: every other
 * character, and every control character, is written as \uXXXX, so it is valid UTF-8 and harmless
 * on a terminal whatever the target's strings hold. A byte that is not UTF-8 becomes U+FFFD.
 *
 * key is NULL inside arrays. Keys are ours: plain ASCII without quotes.
 */
#ifndef VT_JSON_OUT_H
#define VT_JSON_OUT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "base/error.h"

#define VT_JSON_BUFFER 65536
#define VT_JSON_MAX_DEPTH 16

struct vt_json {
	FILE *out;
	size_t n;     /* bytes in buf */
	bool compact; /* set after vt_json_init(): without blanks and line breaks */
	int depth;
	int inline_depth;                 /* > 0: everything from this depth on is on one line */
	bool more[VT_JSON_MAX_DEPTH + 1]; /* the container at this depth has an element */
	int errnum;                       /* of the first failed write */
	char buf[VT_JSON_BUFFER];
};

void vt_json_init(struct vt_json *json, FILE *out);

/* The caller has no memory for what comes next: the document is not whole. */
void vt_json_no_memory(struct vt_json *json);

/*
 * Ends with a newline and flushes. VT_ERR_OS if a write failed, VT_ERR_NOMEM after
 * vt_json_no_memory().
 */
struct vt_error *vt_json_finish(struct vt_json *json);

/* _line: the container is written on one line. */
void vt_json_object(struct vt_json *json, const char *key);
void vt_json_object_line(struct vt_json *json, const char *key);
void vt_json_end_object(struct vt_json *json);
void vt_json_array(struct vt_json *json, const char *key);
void vt_json_array_line(struct vt_json *json, const char *key);
void vt_json_end_array(struct vt_json *json);
/* An array of n numbers, in one line. */
void vt_json_uints(struct vt_json *json, const char *key, const uint32_t *values, size_t n);

void vt_json_null(struct vt_json *json, const char *key);
void vt_json_bool(struct vt_json *json, const char *key, bool value);
void vt_json_uint(struct vt_json *json, const char *key, uint64_t value);
void vt_json_int(struct vt_json *json, const char *key, int64_t value);
/* below 0 is unknown: null */
void vt_json_known(struct vt_json *json, const char *key, int64_t value);
void vt_json_hex(struct vt_json *json, const char *key, uint64_t value); /* "0x7f00" */
/* three decimals, or null */
void vt_json_milli(struct vt_json *json, const char *key, double value);
void vt_json_text(struct vt_json *json, const char *key, const char *value); /* NULL: null */
/* unknown or none, "" or NULL: null */
void vt_json_name(struct vt_json *json, const char *key, const char *value);
void vt_json_textn(struct vt_json *json, const char *key, const char *value, size_t n);

/* A time of CLOCK_REALTIME in UTC, with nanoseconds; null: it has no date. */
void vt_json_time(struct vt_json *json, const char *key, const struct timespec *when);

#endif
