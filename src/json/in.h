/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads JSON that may have been changed or cut: sizes, depth and types are checked here. The values
 * live in an arena and are released with it, all at once.
 *
 * The first mistake is remembered in vt_json_in.wrong, not reported at each step: the caller checks
 * it once, after it has read the whole document. A missing key counts as null.
 */
#ifndef VT_JSON_IN_H
#define VT_JSON_IN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "json/limits.h"
#include "json/parse.h"
#include "json/value.h"

struct vt_json_in {
	struct vt_arena *values;  /* of the document */
	struct vt_arena *strings; /* where copies of texts go */
	char wrong[160];          /* "blocks: bytes is not a number"; "" none */
	bool nomem;
};

/*
 * Reads all of a file, a pipe, or standard input ("-"), up to slightly more than a document may
 * have. The error names the file.
 */
struct vt_error *vt_json_in_read(const char *path, struct vt_str *text);

/* The same for a regular file; anything else (a FIFO that may never get a writer) is refused. */
struct vt_error *vt_json_in_read_regular(const char *path, struct vt_str *text);

/* Opens such a file. */
struct vt_error *vt_json_in_open_regular(const char *path, int *fd);

/* The same from a descriptor, which is at its begin; the error names nothing. */
struct vt_error *vt_json_in_read_fd(int fd, struct vt_str *text);

/* What is wrong with a text, if our parser did not simply accept it. NULL: nothing. */
struct vt_error *vt_json_in_judge(const char *text, size_t n, enum vt_json_parsed parsed);

/*
 * Parses the n bytes of text; root is valid as long as in->values is. VT_ERR_FORMAT, VT_ERR_NOMEM.
 */
struct vt_error *vt_json_in_parse(struct vt_json_in *in, const char *text, size_t n,
				  const struct vt_json_value **root);

void vt_json_in_wrong(struct vt_json_in *in, const char *key, const char *what);

/* A container; NULL when it is null (or wrong). */
const struct vt_json_value *vt_json_in_object(struct vt_json_in *in,
					      const struct vt_json_value *from, const char *key);
const struct vt_json_value *vt_json_in_array(struct vt_json_in *in,
					     const struct vt_json_value *from, const char *key);

/* The element of an array that must be an object; an empty one when it is none. */
const struct vt_json_value *vt_json_in_element(struct vt_json_in *in,
					       const struct vt_json_value *array, size_t i,
					       const char *key);

/* False when it is null; value is unchanged then. */
bool vt_json_in_uint(struct vt_json_in *in, const struct vt_json_value *from, const char *key,
		     uint64_t *value);
bool vt_json_in_int(struct vt_json_in *in, const struct vt_json_value *from, const char *key,
		    int64_t min, int64_t max, int *value);
/* "0x7f00" */
bool vt_json_in_hex(struct vt_json_in *in, const struct vt_json_value *from, const char *key,
		    uint64_t *value);
bool vt_json_in_real(struct vt_json_in *in, const struct vt_json_value *from, const char *key,
		     double *value);
bool vt_json_in_bool(struct vt_json_in *in, const struct vt_json_value *from, const char *key,
		     bool *value);

/* The same, but null is a mistake. */
uint64_t vt_json_in_need_uint(struct vt_json_in *in, const struct vt_json_value *from,
			      const char *key);
uint64_t vt_json_in_need_hex(struct vt_json_in *in, const struct vt_json_value *from,
			     const char *key);
bool vt_json_in_need_bool(struct vt_json_in *in, const struct vt_json_value *from, const char *key);
/* never NULL */
const char *vt_json_in_need_text(struct vt_json_in *in, const struct vt_json_value *from,
				 const char *key);

/* A copy of a text, NULL when it is null. */
const char *vt_json_in_text(struct vt_json_in *in, const struct vt_json_value *from,
			    const char *key);

/* The number of the word among n words of ours, which name() tells; 0 when it is none of them. */
unsigned int vt_json_in_word(struct vt_json_in *in, const struct vt_json_value *from,
			     const char *key, const char *(*name)(unsigned int), unsigned int n);

/* "2026-11-21T23:55:08.123456789Z" */
void vt_json_in_time(struct vt_json_in *in, const struct vt_json_value *from, const char *key,
		     struct timespec *when);

/* An element of an array that must be a number below limit; 0 when it is none. */
uint32_t vt_json_in_index(struct vt_json_in *in, const struct vt_json_value *array, size_t i,
			  size_t limit, const char *key);

#endif
