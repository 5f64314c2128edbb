/* SPDX-License-Identifier: Apache-2.0 */
#include "json/out.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "base/str.h"
#include "base/format.h"

void vt_json_init(struct vt_json *json, FILE *out)
{
	memset(json, 0, offsetof(struct vt_json, buf));
	json->out = out;
}

static void flush(struct vt_json *json)
{
	if (!json->errnum && json->n > 0 && fwrite(json->buf, 1, json->n, json->out) != json->n)
		json->errnum = errno ? errno : EIO;
	json->n = 0;
}

/* Room for n bytes (n is small), which the caller fills. */
static char *room(struct vt_json *json, size_t n)
{
	if (VT_JSON_BUFFER - json->n < n)
		flush(json);
	return json->buf + json->n;
}

static void put(struct vt_json *json, const char *text, size_t n)
{
	while (n > 0) {
		size_t step = n < VT_JSON_BUFFER / 2 ? n : VT_JSON_BUFFER / 2;

		memcpy(room(json, step), text, step);
		json->n += step;
		text += step;
		n -= step;
	}
}

static void put_char(struct vt_json *json, char c)
{
	*room(json, 1) = c;
	json->n++;
}

static void put_newline(struct vt_json *json)
{
	put_char(json, '\n');
	for (int i = 0; i < json->depth; i++)
		put_char(json, ' ');
}

void vt_json_no_memory(struct vt_json *json)
{
	json->errnum = ENOMEM;
}

struct vt_error *vt_json_finish(struct vt_json *json)
{
	put_char(json, '\n');
	flush(json);
	if (!json->errnum && fflush(json->out) != 0)
		json->errnum = errno ? errno : EIO;
	if (json->errnum == ENOMEM)
		return &vt_enomem;
	return json->errnum ? vt_error_create_os(json->errnum, "cannot write the report") : NULL;
}

/* The comma, the line break and the key that come before any value. */
static void begin_value(struct vt_json *json, const char *key)
{
	bool is_inline = json->inline_depth > 0;

	if (json->more[json->depth])
		put_char(json, ',');
	if (json->depth > 0 && !is_inline && !json->compact)
		put_newline(json);
	else if (json->more[json->depth] && !json->compact)
		put_char(json, ' ');
	json->more[json->depth] = true;
	if (key) {
		put_char(json, '"');
		put(json, key, strlen(key));
		put(json, "\": ", json->compact ? 2 : 3);
	}
}

static void open_container(struct vt_json *json, const char *key, char bracket, bool is_inline)
{
	begin_value(json, key);
	put_char(json, bracket);
	if (json->depth < VT_JSON_MAX_DEPTH)
		json->depth++;
	json->more[json->depth] = false;
	if (is_inline && json->inline_depth == 0)
		json->inline_depth = json->depth;
}

static void close_container(struct vt_json *json, char bracket)
{
	bool is_inline = json->inline_depth > 0, empty = !json->more[json->depth];

	if (json->inline_depth == json->depth)
		json->inline_depth = 0;
	if (json->depth > 0)
		json->depth--;
	if (!is_inline && !empty && !json->compact)
		put_newline(json);
	put_char(json, bracket);
}

void vt_json_object(struct vt_json *json, const char *key)
{
	open_container(json, key, '{', false);
}

void vt_json_object_line(struct vt_json *json, const char *key)
{
	open_container(json, key, '{', true);
}

void vt_json_end_object(struct vt_json *json)
{
	close_container(json, '}');
}

void vt_json_array(struct vt_json *json, const char *key)
{
	open_container(json, key, '[', false);
}

void vt_json_array_line(struct vt_json *json, const char *key)
{
	open_container(json, key, '[', true);
}

void vt_json_end_array(struct vt_json *json)
{
	close_container(json, ']');
}

void vt_json_null(struct vt_json *json, const char *key)
{
	begin_value(json, key);
	put(json, "null", 4);
}

void vt_json_bool(struct vt_json *json, const char *key, bool value)
{
	begin_value(json, key);
	put(json, value ? "true" : "false", value ? 4 : 5);
}

void vt_json_uint(struct vt_json *json, const char *key, uint64_t value)
{
	begin_value(json, key);
	json->n += vt_put_uint(room(json, 24), value);
}

void vt_json_int(struct vt_json *json, const char *key, int64_t value)
{
	begin_value(json, key);
	if (value < 0)
		put_char(json, '-');
	json->n += vt_put_uint(room(json, 24), value < 0 ? -(uint64_t)value : (uint64_t)value);
}

void vt_json_known(struct vt_json *json, const char *key, int64_t value)
{
	if (value < 0)
		vt_json_null(json, key);
	else
		vt_json_int(json, key, value);
}

void vt_json_hex(struct vt_json *json, const char *key, uint64_t value)
{
	begin_value(json, key);
	put_char(json, '"');
	json->n += vt_put_hex(room(json, 24), value);
	put_char(json, '"');
}

/* Not by printf: its decimal point depends on the locale. */
void vt_json_milli(struct vt_json *json, const char *key, double value)
{
	if (!isfinite(value) || fabs(value) > 1e15) {
		vt_json_null(json, key);
		return;
	}

	uint64_t thousandths = (uint64_t)(fabs(value) * 1000 + 0.5);
	char decimals[4] = { '.', (char)('0' + thousandths / 100 % 10),
			     (char)('0' + thousandths / 10 % 10), (char)('0' + thousandths % 10) };

	begin_value(json, key);
	if (value < 0 && thousandths > 0)
		put_char(json, '-');
	json->n += vt_put_uint(room(json, 24), thousandths / 1000);
	put(json, decimals, sizeof(decimals));
}

static void put_unicode(struct vt_json *json, unsigned int unit)
{
	char *p = room(json, 6);

	p[0] = '\\';
	p[1] = 'u';
	for (int i = 0; i < 4; i++)
		p[2 + i] = "0123456789abcdef"[unit >> (12 - 4 * i) & 15];
	json->n += 6;
}

static void put_code_point(struct vt_json *json, unsigned int c)
{
	if (c < 0x10000) {
		put_unicode(json, c);
		return;
	}
	put_unicode(json, 0xd800 + ((c - 0x10000) >> 10));
	put_unicode(json, 0xdc00 + ((c - 0x10000) & 0x3ff));
}

static bool is_plain(char c)
{
	return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

void vt_json_textn(struct vt_json *json, const char *key, const char *value, size_t n)
{
	begin_value(json, key);
	put_char(json, '"');
	for (size_t i = 0; i < n;) {
		size_t run = i;
		unsigned int c = 0xfffd;

		while (run < n && is_plain(value[run]))
			run++;
		put(json, value + i, run - i);
		i = run;
		if (i == n)
			break;
		if (value[i] == '"' || value[i] == '\\') {
			put_char(json, '\\');
			put_char(json, value[i++]);
			continue;
		}

		size_t len = vt_utf8_sequence(value + i, n - i, &c);

		put_code_point(json, len ? c : 0xfffd);
		i += len ? len : 1;
	}
	put_char(json, '"');
}

void vt_json_text(struct vt_json *json, const char *key, const char *value)
{
	if (value)
		vt_json_textn(json, key, value, strlen(value));
	else
		vt_json_null(json, key);
}

void vt_json_name(struct vt_json *json, const char *key, const char *value)
{
	vt_json_text(json, key, value && *value ? value : NULL);
}

void vt_json_time(struct vt_json *json, const char *key, const struct timespec *when)
{
	char text[64], with_ns[96];
	struct tm tm;

	if (!gmtime_r(&when->tv_sec, &tm) ||
	    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm) == 0) {
		vt_json_null(json, key);
		return;
	}
	snprintf(with_ns, sizeof(with_ns), "%s.%09ldZ", text, when->tv_nsec);
	vt_json_text(json, key, with_ns);
}

void vt_json_uints(struct vt_json *json, const char *key, const uint32_t *values, size_t n)
{
	vt_json_array_line(json, key);
	for (size_t i = 0; i < n; i++)
		vt_json_uint(json, NULL, values[i]);
	vt_json_end_array(json);
}
