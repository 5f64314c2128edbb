/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A JSON value in memory: 16 bytes, and those of what it contains, side by side. Each function
 * takes NULL and values of another type, too: these have no elements, no keys and no text.
 */
#ifndef VT_JSON_VALUE_H
#define VT_JSON_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum vt_json_type {
	VT_JSON_NULL,
	VT_JSON_FALSE,
	VT_JSON_TRUE,
	VT_JSON_INTEGER,
	VT_JSON_REAL,
	VT_JSON_STRING,
	VT_JSON_ARRAY,
	VT_JSON_OBJECT,
};

struct vt_json_value {
	union {
		int64_t integer;
		double real;
		const char *text; /* ends with a NUL, has no other one */
		/* elements; of an object a key (a string) and its value in turn */
		const struct vt_json_value *parts;
	};
	uint32_t n; /* bytes of the text, elements, keys */
	uint8_t type;
};

static inline bool vt_json_is(const struct vt_json_value *value, enum vt_json_type type)
{
	return value && value->type == type;
}

static inline bool vt_json_is_boolean(const struct vt_json_value *value)
{
	return vt_json_is(value, VT_JSON_TRUE) || vt_json_is(value, VT_JSON_FALSE);
}

static inline bool vt_json_is_number(const struct vt_json_value *value)
{
	return vt_json_is(value, VT_JSON_INTEGER) || vt_json_is(value, VT_JSON_REAL);
}

/* 0 when it is none. */
static inline int64_t vt_json_integer(const struct vt_json_value *value)
{
	return vt_json_is(value, VT_JSON_INTEGER) ? value->integer : 0;
}

static inline double vt_json_number(const struct vt_json_value *value)
{
	return vt_json_is(value, VT_JSON_REAL) ? value->real : (double)vt_json_integer(value);
}

/* NULL when it is none. */
static inline const char *vt_json_string(const struct vt_json_value *value)
{
	return vt_json_is(value, VT_JSON_STRING) ? value->text : NULL;
}

static inline size_t vt_json_length(const struct vt_json_value *value)
{
	return vt_json_is(value, VT_JSON_STRING) ? value->n : 0;
}

/* ---- arrays ---- */

static inline size_t vt_json_count(const struct vt_json_value *array)
{
	return vt_json_is(array, VT_JSON_ARRAY) ? array->n : 0;
}

static inline const struct vt_json_value *vt_json_at(const struct vt_json_value *array, size_t i)
{
	return i < vt_json_count(array) ? &array->parts[i] : NULL;
}

/* ---- objects; keys are in the document's order, none is there twice ---- */

static inline size_t vt_json_keys(const struct vt_json_value *object)
{
	return vt_json_is(object, VT_JSON_OBJECT) ? object->n : 0;
}

/* i is below vt_json_keys(). */
static inline const char *vt_json_key(const struct vt_json_value *object, size_t i)
{
	return object->parts[2 * i].text;
}

static inline const struct vt_json_value *vt_json_of_key(const struct vt_json_value *object,
							 size_t i)
{
	return &object->parts[2 * i + 1];
}

const struct vt_json_value *vt_json_get(const struct vt_json_value *object, const char *key);

#endif
