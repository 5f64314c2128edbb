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
#include "json/jansson.h"
#include "json/parse.h"

#define READ_SIZE 65536

struct vt_error *vt_json_in_read_fd(int fd, struct vt_str *text)
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
	err = vt_json_in_read_fd(standard_input ? STDIN_FILENO : opened, text);
	return err ? vt_error_prefix(err, "%s", standard_input ? "standard input" : path) : NULL;
}

struct vt_error *vt_json_in_open_regular(const char *path, int *fd)
{
	int opened = vt_open_regular(path);

	if (opened < 0 && !access(path, R_OK))
		return vt_error_create(VT_ERR_FORMAT, "%s is not a regular file", path);
	if (opened < 0)
		return vt_error_create_os(errno, "cannot read %s", path);
	*fd = opened;
	return NULL;
}

struct vt_error *vt_json_in_read_regular(const char *path, struct vt_str *text)
{
	VT_CLOSE int fd = -1;
	struct vt_error *err;

	VT_TRY(vt_json_in_open_regular(path, &fd));
	err = vt_json_in_read_fd(fd, text);
	return err ? vt_error_prefix(err, "%s", path) : NULL;
}

/* Says what is wrong with it; NULL: nothing. */
static struct vt_error *ask_jansson(const char *text, size_t n)
{
	struct vt_arena values = { 0 };
	json_t *root;
	struct vt_error *err = vt_jansson_parse(text, n, &values, &root);

	vt_arena_deinit(&values);
	return err;
}

struct vt_error *vt_json_in_judge(const char *text, size_t n, enum vt_json_parsed parsed)
{
	if (parsed == VT_JSON_PARSED)
		return NULL;
	if (parsed == VT_JSON_NOMEM)
		return vt_error_create(VT_ERR_NOMEM, "not enough memory here");
	VT_TRY(ask_jansson(text, n));
	if (parsed == VT_JSON_REFUSED)
		return vt_error_create(VT_ERR_FORMAT, "it is not JSON as vramtap reads it");
	return NULL;
}

struct vt_error *vt_json_in_parse(struct vt_json_in *in, const char *text, size_t n,
				  const struct vt_json_value **root)
{
	const struct vt_json_value *parsed = NULL;

	VT_TRY(vt_json_in_judge(text, n, vt_json_parse(text, n, in->values, &parsed)));
	*root = parsed;
	return NULL;
}

void vt_json_in_wrong(struct vt_json_in *in, const char *key, const char *what)
{
	if (!in->wrong[0])
		snprintf(in->wrong, sizeof(in->wrong), "%s %s", key, what);
}

/* NULL when it is null. */
static const struct vt_json_value *find_value(const struct vt_json_value *from, const char *key)
{
	const struct vt_json_value *value = vt_json_get(from, key);

	return vt_json_is(value, VT_JSON_NULL) ? NULL : value;
}

const struct vt_json_value *vt_json_in_object(struct vt_json_in *in,
					      const struct vt_json_value *from, const char *key)
{
	const struct vt_json_value *value = find_value(from, key);

	if (value && !vt_json_is(value, VT_JSON_OBJECT)) {
		vt_json_in_wrong(in, key, "is not an object");
		return NULL;
	}
	return value;
}

const struct vt_json_value *vt_json_in_array(struct vt_json_in *in,
					     const struct vt_json_value *from, const char *key)
{
	const struct vt_json_value *value = find_value(from, key);

	if (value && !vt_json_is(value, VT_JSON_ARRAY)) {
		vt_json_in_wrong(in, key, "is not an array");
		return NULL;
	}
	return value;
}

const struct vt_json_value *vt_json_in_element(struct vt_json_in *in,
					       const struct vt_json_value *array, size_t i,
					       const char *key)
{
	const struct vt_json_value *value = vt_json_at(array, i);

	if (!vt_json_is(value, VT_JSON_OBJECT)) {
		vt_json_in_wrong(in, key, "has an element that is not an object");
		return NULL; /* is an object without keys */
	}
	return value;
}

static bool to_uint(struct vt_json_in *in, const struct vt_json_value *value, const char *key,
		    uint64_t *number)
{
	if (!vt_json_is(value, VT_JSON_INTEGER) || vt_json_integer(value) < 0) {
		vt_json_in_wrong(in, key, "is not a number, or is negative");
		return false;
	}
	*number = (uint64_t)vt_json_integer(value);
	return true;
}

bool vt_json_in_uint(struct vt_json_in *in, const struct vt_json_value *from, const char *key,
		     uint64_t *value)
{
	const struct vt_json_value *found = find_value(from, key);

	return found && to_uint(in, found, key, value);
}

bool vt_json_in_int(struct vt_json_in *in, const struct vt_json_value *from, const char *key,
		    int64_t min, int64_t max, int *value)
{
	const struct vt_json_value *found = find_value(from, key);

	if (!found)
		return false;
	if (!vt_json_is(found, VT_JSON_INTEGER) || vt_json_integer(found) < min ||
	    vt_json_integer(found) > max) {
		vt_json_in_wrong(in, key, "is not a number, or is out of range");
		return false;
	}
	*value = (int)vt_json_integer(found);
	return true;
}

bool vt_json_in_hex(struct vt_json_in *in, const struct vt_json_value *from, const char *key,
		    uint64_t *value)
{
	const struct vt_json_value *found = find_value(from, key);
	const char *text = vt_json_string(found);
	size_t n = vt_json_length(found);

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

bool vt_json_in_real(struct vt_json_in *in, const struct vt_json_value *from, const char *key,
		     double *value)
{
	const struct vt_json_value *found = find_value(from, key);

	if (!found)
		return false;
	if (!vt_json_is_number(found)) {
		vt_json_in_wrong(in, key, "is not a number");
		return false;
	}
	*value = vt_json_number(found);
	return true;
}

bool vt_json_in_bool(struct vt_json_in *in, const struct vt_json_value *from, const char *key,
		     bool *value)
{
	const struct vt_json_value *found = find_value(from, key);

	if (!found)
		return false;
	if (!vt_json_is_boolean(found)) {
		vt_json_in_wrong(in, key, "is neither true nor false");
		return false;
	}
	*value = vt_json_is(found, VT_JSON_TRUE);
	return true;
}

uint64_t vt_json_in_need_uint(struct vt_json_in *in, const struct vt_json_value *from,
			      const char *key)
{
	uint64_t value = 0;

	if (!vt_json_in_uint(in, from, key, &value))
		vt_json_in_wrong(in, key, "is missing");
	return value;
}

uint64_t vt_json_in_need_hex(struct vt_json_in *in, const struct vt_json_value *from,
			     const char *key)
{
	uint64_t value = 0;

	if (!vt_json_in_hex(in, from, key, &value))
		vt_json_in_wrong(in, key, "is missing");
	return value;
}

bool vt_json_in_need_bool(struct vt_json_in *in, const struct vt_json_value *from, const char *key)
{
	bool value = false;

	if (!vt_json_in_bool(in, from, key, &value))
		vt_json_in_wrong(in, key, "is missing");
	return value;
}

const char *vt_json_in_text(struct vt_json_in *in, const struct vt_json_value *from,
			    const char *key)
{
	const struct vt_json_value *found = find_value(from, key);
	const char *copy;

	if (!found)
		return NULL;
	if (!vt_json_is(found, VT_JSON_STRING)) {
		vt_json_in_wrong(in, key, "is not a text");
		return NULL;
	}
	/* jansson refuses \u0000. */
	copy = vt_arena_strndup(in->strings, vt_json_string(found), vt_json_length(found));
	in->nomem |= !copy;
	return copy;
}

const char *vt_json_in_need_text(struct vt_json_in *in, const struct vt_json_value *from,
				 const char *key)
{
	const char *text = vt_json_in_text(in, from, key);

	if (!text)
		vt_json_in_wrong(in, key, "is missing");
	return text ? text : "";
}

unsigned int vt_json_in_word(struct vt_json_in *in, const struct vt_json_value *from,
			     const char *key, const char *(*name)(unsigned int), unsigned int n)
{
	const char *text = vt_json_string(vt_json_get(from, key));

	for (unsigned int i = 0; text && i < n; i++)
		if (!strcmp(text, name(i)))
			return i;
	vt_json_in_wrong(in, key, "is an unknown word");
	return 0;
}

void vt_json_in_time(struct vt_json_in *in, const struct vt_json_value *from, const char *key,
		     struct timespec *when)
{
	const char *text = vt_json_string(vt_json_get(from, key));
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

uint32_t vt_json_in_index(struct vt_json_in *in, const struct vt_json_value *array, size_t i,
			  size_t limit, const char *key)
{
	uint64_t number = 0;

	if (!to_uint(in, vt_json_at(array, i), key, &number) || number >= limit ||
	    number > UINT32_MAX) {
		vt_json_in_wrong(in, key, "names what does not exist");
		return 0;
	}
	return (uint32_t)number;
}
