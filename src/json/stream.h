/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a JSON document part by part, so that a large one is never in memory as a whole. What is
 * accepted, and what is said of a document that is not, is as of vt_json_in_parse(); but that is
 * known only at the end, from vt_json_stream_end(). Until then each function may be called: after
 * a mistake there is no next part, and each is NULL.
 *
 *	vt_json_stream_enter(s);
 *	while (vt_json_stream_next(s))
 *		use(s->key, vt_json_stream_part(s, NULL));
 */
#ifndef VT_JSON_STREAM_H
#define VT_JSON_STREAM_H

#include "base/arena.h"
#include "base/error.h"
#include "json/parser.h"
#include "json/value.h"

#define VT_JSON_STREAM_DEPTH 3 /* containers that can be entered, one in the other */

struct vt_json_level {
	bool is_object;
	size_t n; /* parts begun */
	VT_VEC(struct vt_json_value) keys;
	struct vt_arena texts; /* of the keys */
};

struct vt_json_stream {
	const char *key; /* of the part in an object; until the next one */
	/* private: */
	struct vt_json_parser parser; /* p and end: of the text that is in memory */
	int fd;                       /* of a regular file; -1: all of the text is in memory */
	const char *text;             /* that, if fd is -1 */
	char *window;
	size_t capacity;
	size_t first; /* bytes of the first window, unless the file is smaller */
	size_t size;  /* bytes of the document when it was begun */
	size_t n;     /* that were read */
	bool ended;   /* these are all */
	bool weighed; /* jansson was asked already, because it may need too much memory */
	struct vt_arena part, keys;
	char *room; /* for the texts of a part */
	struct vt_json_value value;
	struct vt_json_level levels[VT_JSON_STREAM_DEPTH];
	size_t n_levels;
	bool refused;
	struct vt_error *err; /* the file cannot be read */
};

/* False: out of memory. The text stays the caller's. */
bool vt_json_stream_init_text(struct vt_json_stream *s, const char *text, size_t n);
/* From a regular file, which stays the caller's, from its begin. */
bool vt_json_stream_init_file(struct vt_json_stream *s, int fd);
void vt_json_stream_deinit(struct vt_json_stream *s);

/*
 * The part, or before the first one the document, is this container: it is entered. False: it is
 * none, or is too deep; vt_json_stream_part() or vt_json_stream_skip() may take it.
 */
bool vt_json_stream_enter(struct vt_json_stream *s, enum vt_json_type type);

/* Goes to the next part of what was entered last; false: there is none, and that is left. */
bool vt_json_stream_next(struct vt_json_stream *s);

/*
 * The part (before the first one the document) as a value. It lives in keep, but for its keys,
 * which live as long as the stream; keep NULL: until the next part is read. NULL: it is wrong,
 * memory is short, or the document has so many small parts that jansson refuses it. The value
 * itself is valid until the next part is read in any case.
 */
const struct vt_json_value *vt_json_stream_part(struct vt_json_stream *s, struct vt_arena *keep);

/*
 * The next part begins here, and n bytes of it and of what follows are in memory, until the part is
 * read. NULL: there is none.
 */
const char *vt_json_stream_ahead(struct vt_json_stream *s, size_t *n);

/*
 * The bytes of a part that is a container without other ones, if it is right; they stay until the
 * part is read. NULL: it is none, or not all of it is in memory.
 */
const char *vt_json_stream_flat(struct vt_json_stream *s, size_t *n);
/*
 * Goes past these n bytes: they were a right part before. cost: by how much vt_json_stream_cost()
 * rose then.
 */
void vt_json_stream_pass(struct vt_json_stream *s, size_t n, size_t cost);
size_t vt_json_stream_cost(const struct vt_json_stream *s);

/* Goes past the part, which has to be right, too. */
void vt_json_stream_skip(struct vt_json_stream *s);

/* VT_ERR_FORMAT, VT_ERR_NOMEM, VT_ERR_OS; NULL when the document was right. */
struct vt_error *vt_json_stream_end(struct vt_json_stream *s);

#endif
