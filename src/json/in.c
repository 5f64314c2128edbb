/* SPDX-License-Identifier: Apache-2.0 */
#include "json/in.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/regular.h"

#define READ_SIZE 65536

static struct vt_error *read_all(int fd, struct vt_str *text)
{
	char buf[READ_SIZE];

	for (;;) {
		ssize_t n = read(fd, buf, sizeof(buf));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return vt_error_create_os(errno, "it cannot be read");
		if (n == 0)
			break;
		vt_str_addn(text, buf, (size_t)n);
		if (text->failed)
			return vt_error_create(VT_ERR_NOMEM, "not enough memory here");
		if (text->n > VT_JSON_IN_MAX)
			break; /* the parser reports it */
	}
	return NULL;
}

struct vt_error *vt_json_in_read(const char *path, struct vt_str *text)
{
	bool standard_input = !strcmp(path, "-");
	VT_CLOSE int opened = standard_input ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	struct vt_error *err;

	if (!standard_input && opened < 0)
		return vt_error_create_os(errno, "cannot read %s", path);
	err = read_all(standard_input ? STDIN_FILENO : opened, text);
	return err ? vt_error_prefix(err, "%s", standard_input ? "standard input" : path) : NULL;
}

struct vt_error *vt_json_in_read_regular(const char *path, struct vt_str *text)
{
	VT_CLOSE int opened = vt_open_regular(path);
	struct vt_error *err;

	if (opened < 0 && !access(path, R_OK))
		return vt_error_create(VT_ERR_FORMAT, "%s is not a regular file", path);
	if (opened < 0)
		return vt_error_create_os(errno, "cannot read %s", path);
	err = read_all(opened, text);
	return err ? vt_error_prefix(err, "%s", path) : NULL;
}

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

/* A block of a report is 160 bytes of text and 1400 of memory (jansson 2.14). */
#define MEMORY_OF_A_BYTE 16
#define MEMORY_AT_LEAST (1u << 20)

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

struct vt_error *vt_json_in_parse(struct vt_json_in *in, const char *text, size_t n, json_t **root)
{
	json_error_t error;
	json_t *parsed;

	if (n > VT_JSON_IN_MAX)
		return vt_error_create(VT_ERR_FORMAT, "it is larger than 512 MiB");
	parsing.arena = in->values;
	parsing.left = n * MEMORY_OF_A_BYTE + MEMORY_AT_LEAST;
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

void vt_json_in_wrong(struct vt_json_in *in, const char *key, const char *what)
{
	if (!in->wrong[0])
		snprintf(in->wrong, sizeof(in->wrong), "%s %s", key, what);
}

/* NULL when it is null. */
static json_t *find_value(json_t *from, const char *key)
{
	json_t *value = json_object_get(from, key);

	return json_is_null(value) ? NULL : value;
}

json_t *vt_json_in_object(struct vt_json_in *in, json_t *from, const char *key)
{
	json_t *value = find_value(from, key);

	if (value && !json_is_object(value)) {
		vt_json_in_wrong(in, key, "is not an object");
		return NULL;
	}
	return value;
}

json_t *vt_json_in_array(struct vt_json_in *in, json_t *from, const char *key)
{
	json_t *value = find_value(from, key);

	if (value && !json_is_array(value)) {
		vt_json_in_wrong(in, key, "is not an array");
		return NULL;
	}
	return value;
}

json_t *vt_json_in_element(struct vt_json_in *in, json_t *array, size_t i, const char *key)
{
	json_t *value = json_array_get(array, i);

	if (!json_is_object(value)) {
		vt_json_in_wrong(in, key, "has an element that is not an object");
		return NULL; /* jansson treats it as an object without keys */
	}
	return value;
}

static bool to_uint(struct vt_json_in *in, const json_t *value, const char *key, uint64_t *number)
{
	if (!json_is_integer(value) || json_integer_value(value) < 0) {
		vt_json_in_wrong(in, key, "is not a number, or is negative");
		return false;
	}
	*number = (uint64_t)json_integer_value(value);
	return true;
}

bool vt_json_in_uint(struct vt_json_in *in, json_t *from, const char *key, uint64_t *value)
{
	json_t *found = find_value(from, key);

	return found && to_uint(in, found, key, value);
}

bool vt_json_in_int(struct vt_json_in *in, json_t *from, const char *key, int64_t min, int64_t max,
		    int *value)
{
	json_t *found = find_value(from, key);

	if (!found)
		return false;
	if (!json_is_integer(found) || json_integer_value(found) < min ||
	    json_integer_value(found) > max) {
		vt_json_in_wrong(in, key, "is not a number, or is out of range");
		return false;
	}
	*value = (int)json_integer_value(found);
	return true;
}

bool vt_json_in_hex(struct vt_json_in *in, json_t *from, const char *key, uint64_t *value)
{
	json_t *found = find_value(from, key);
	const char *text = json_string_value(found);
	size_t n = json_string_length(found);

	if (!found)
		return false;
	if (!text || n < 3 || n > 18 || strncmp(text, "0x", 2) != 0 ||
	    text[2 + strspn(text + 2, "0123456789abcdef")]) {
		vt_json_in_wrong(in, key, "is not a hexadecimal number");
		return false;
	}
	*value = strtoull(text + 2, NULL, 16);
	return true;
}

bool vt_json_in_real(struct vt_json_in *in, json_t *from, const char *key, double *value)
{
	json_t *found = find_value(from, key);

	if (!found)
		return false;
	if (!json_is_number(found)) {
		vt_json_in_wrong(in, key, "is not a number");
		return false;
	}
	*value = json_number_value(found);
	return true;
}

bool vt_json_in_bool(struct vt_json_in *in, json_t *from, const char *key, bool *value)
{
	json_t *found = find_value(from, key);

	if (!found)
		return false;
	if (!json_is_boolean(found)) {
		vt_json_in_wrong(in, key, "is neither true nor false");
		return false;
	}
	*value = json_is_true(found);
	return true;
}

uint64_t vt_json_in_need_uint(struct vt_json_in *in, json_t *from, const char *key)
{
	uint64_t value = 0;

	if (!vt_json_in_uint(in, from, key, &value))
		vt_json_in_wrong(in, key, "is missing");
	return value;
}

uint64_t vt_json_in_need_hex(struct vt_json_in *in, json_t *from, const char *key)
{
	uint64_t value = 0;

	if (!vt_json_in_hex(in, from, key, &value))
		vt_json_in_wrong(in, key, "is missing");
	return value;
}

bool vt_json_in_need_bool(struct vt_json_in *in, json_t *from, const char *key)
{
	bool value = false;

	if (!vt_json_in_bool(in, from, key, &value))
		vt_json_in_wrong(in, key, "is missing");
	return value;
}

const char *vt_json_in_text(struct vt_json_in *in, json_t *from, const char *key)
{
	json_t *found = find_value(from, key);
	const char *copy;

	if (!found)
		return NULL;
	if (!json_is_string(found)) {
		vt_json_in_wrong(in, key, "is not a text");
		return NULL;
	}
	/* jansson refuses \u0000. */
	copy = vt_arena_strndup(in->strings, json_string_value(found), json_string_length(found));
	in->nomem |= !copy;
	return copy;
}

const char *vt_json_in_need_text(struct vt_json_in *in, json_t *from, const char *key)
{
	const char *text = vt_json_in_text(in, from, key);

	if (!text)
		vt_json_in_wrong(in, key, "is missing");
	return text ? text : "";
}

unsigned int vt_json_in_word(struct vt_json_in *in, json_t *from, const char *key,
			     const char *(*name)(unsigned int), unsigned int n)
{
	const char *text = json_string_value(json_object_get(from, key));

	for (unsigned int i = 0; text && i < n; i++)
		if (!strcmp(text, name(i)))
			return i;
	vt_json_in_wrong(in, key, "is an unknown word");
	return 0;
}

void vt_json_in_time(struct vt_json_in *in, json_t *from, const char *key, struct timespec *when)
{
	const char *text = json_string_value(json_object_get(from, key));
	struct tm tm = { 0 };
	const char *rest = text ? strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) : NULL;
	long ns = 0;

	if (rest && *rest == '.' && strspn(rest + 1, "0123456789") == 9 && !strcmp(rest + 10, "Z"))
		ns = strtol(rest + 1, NULL, 10);
	else
		rest = NULL;
	if (!rest || tm.tm_year < 70) {
		vt_json_in_wrong(in, key, "is not a time");
		return;
	}
	when->tv_sec = timegm(&tm);
	when->tv_nsec = ns;
}

uint32_t vt_json_in_index(struct vt_json_in *in, json_t *array, size_t i, size_t limit,
			  const char *key)
{
	uint64_t number = 0;

	if (!to_uint(in, json_array_get(array, i), key, &number) || number >= limit ||
	    number > UINT32_MAX) {
		vt_json_in_wrong(in, key, "names what does not exist");
		return 0;
	}
	return (uint32_t)number;
}
