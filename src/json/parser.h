/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/json: what reading a whole document and reading it part by part share. */
#ifndef VT_JSON_PARSER_H
#define VT_JSON_PARSER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/vec.h"
#include "json/parse.h"
#include "json/value.h"

/* More keys than this in one object: jansson looks whether one is there twice. */
#define VT_JSON_MAX_KEYS 256
#define VT_JSON_KNOWN 256 /* power of two */
#define VT_JSON_TEXT_ROOM 16384

struct vt_json_parser {
	const char *p, *end;
	struct vt_arena *values;
	struct vt_arena *keys; /* lives as long as the parser */
	VT_VEC(struct vt_json_value) stack;
	/* Keys of a document are few: a copy of each is kept under its hash. */
	struct vt_json_value known[VT_JSON_KNOWN];
	uint64_t seed;
	char *room; /* for texts */
	size_t n_room;
	size_t cost; /* bytes that jansson would allocate */
	unsigned int depth;
	bool doubtful, nomem;
};

/* Goes past the value at p, and leaves it on the stack. */
bool vt_json_parse_value(struct vt_json_parser *p);

/* The opening quote was taken. The copy of a key that is known, if it has nothing special. */
bool vt_json_parse_key(struct vt_json_parser *p, struct vt_json_value *value);

/*
 * Behind a container that begins at at and has no other ones, if it is right; NULL: it has, or does
 * not end here.
 */
const char *vt_json_flat_end(const char *at, const char *end);

/* Counts what jansson needs for a container, beside its parts. */
void vt_json_count_array(struct vt_json_parser *p, size_t elements);
void vt_json_count_object(struct vt_json_parser *p, size_t keys);

/* What is to be said of a document of n bytes. */
enum vt_json_parsed vt_json_parse_result(const struct vt_json_parser *p, bool parsed, size_t n);

#endif
