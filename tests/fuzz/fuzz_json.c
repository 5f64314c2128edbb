/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever a text is, our reader accepts what jansson accepts, and finds the same in it, also where
 * it reads part by part.
 */
#include <string.h>

#include "fuzz.h"
#include "json/jansson.h"
#include "json/parse.h"
#include "json/stream.h"

static const char *const seeds[] = {
	"{\"a\":[1,-2,0,-0,9223372036854775807,-9223372036854775808,1.5,-2.5e-3,1E400,1e308,1e-400],\"b\":{}}",
	"[\"\\u0041\\ud83d\\ude00\\n\\/\\\\\\\"\\b\\f\\r\\t\",\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\xef\xbf\xbf\xef\xb7\x90\", \"\" , \"\x7f\"]",
	"{\"key\":true,\"ke\\u0079\":false,\"\":null,\"k\":[[],[[]],{\"k\":{\"k\":1}}],\"a long key of many bytes\":\"x\"}",
	" [ 00, 01, 1., .5, +1, 1e, nul, truefalse, 18446744073709551616, \"\\u0000\", \"\\ud800\" ] ",
	"{\"frames\":[{\"kind\":\"python\",\"function\":\"f\",\"line\":7}],\"threads\":[1001, 1002],\"threads_do\":[0, 1]}\n",
	"[1.000000000000000000000000000000000000000000000000000000000000000000000000000000000001]",
};

size_t fuzz_seed(unsigned int number, uint8_t *data, size_t max)
{
	return fuzz_seed_of(seeds, sizeof(seeds) / sizeof(seeds[0]), number, data, max);
}

static void check_same(const struct vt_json_value *ours, const json_t *theirs);

static void check_array(const struct vt_json_value *ours, const json_t *theirs)
{
	fuzz_check(vt_json_count(ours) == json_array_size(theirs), "another length");
	for (size_t i = 0; i < vt_json_count(ours); i++)
		check_same(vt_json_at(ours, i), json_array_get(theirs, i));
}

static void check_object(const struct vt_json_value *ours, json_t *theirs)
{
	size_t i = 0;
	const char *key;
	json_t *value;

	fuzz_check(vt_json_keys(ours) == json_object_size(theirs), "other keys");
	json_object_foreach(theirs, key, value)
	{
		fuzz_check(!strcmp(vt_json_key(ours, i), key), "another key");
		fuzz_check(vt_json_get(ours, key) == vt_json_of_key(ours, i), "not found");
		check_same(vt_json_of_key(ours, i++), value);
	}
}

static bool is_same_real(double a, double b)
{
	return !memcmp(&a, &b, sizeof(a));
}

static void check_same(const struct vt_json_value *ours, const json_t *theirs)
{
	static const json_type types[] = {
		[VT_JSON_NULL] = JSON_NULL,   [VT_JSON_FALSE] = JSON_FALSE,
		[VT_JSON_TRUE] = JSON_TRUE,   [VT_JSON_INTEGER] = JSON_INTEGER,
		[VT_JSON_REAL] = JSON_REAL,   [VT_JSON_STRING] = JSON_STRING,
		[VT_JSON_ARRAY] = JSON_ARRAY, [VT_JSON_OBJECT] = JSON_OBJECT,
	};

	fuzz_check(ours && types[ours->type] == json_typeof(theirs), "another type");
	fuzz_check(vt_json_integer(ours) == json_integer_value(theirs), "another number");
	fuzz_check(is_same_real(vt_json_number(ours), json_number_value(theirs)), "another number");
	fuzz_check(vt_json_length(ours) == json_string_length(theirs), "another text");
	if (ours->type == VT_JSON_STRING)
		fuzz_check(!memcmp(ours->text, json_string_value(theirs), ours->n + 1),
			   "another text");
	if (ours->type == VT_JSON_ARRAY)
		check_array(ours, theirs);
	if (ours->type == VT_JSON_OBJECT)
		check_object(ours, (json_t *)(uintptr_t)theirs);
}

static void stream_part(struct vt_json_stream *stream, json_t *theirs);

/* theirs NULL: refused. */
static void stream_parts(struct vt_json_stream *stream, json_t *theirs)
{
	size_t n = 0;

	for (; vt_json_stream_next(stream); n++)
		stream_part(stream, json_is_object(theirs) ? json_object_get(theirs, stream->key) :
							     json_array_get(theirs, n));
	fuzz_check(!theirs || n == json_object_size(theirs) + json_array_size(theirs),
		   "another number of parts");
}

static void stream_part(struct vt_json_stream *stream, json_t *theirs)
{
	const struct vt_json_value *part;

	if (vt_json_stream_enter(stream, VT_JSON_OBJECT) ||
	    vt_json_stream_enter(stream, VT_JSON_ARRAY)) {
		stream_parts(stream, theirs);
		return;
	}
	part = vt_json_stream_part(stream, NULL);
	if (theirs)
		check_same(part, theirs);
}

/* What end() says is from jansson, unless ours is sure that all is right. */
static void check_stream(const char *text, size_t n, enum vt_json_parsed parsed, json_t *theirs)
{
	struct vt_json_stream stream;

	if (!vt_json_stream_init_text(&stream, text, n))
		exit(1);
	stream_part(&stream, parsed == VT_JSON_PARSED ? theirs : NULL);
	fuzz_check(parsed != VT_JSON_PARSED || theirs, "parts are right, the whole is not");
	vt_error_destroy(vt_json_stream_end(&stream));
	fuzz_check(vt_json_parse_result(&stream.parser, !stream.refused, n) == parsed,
		   "part by part it is another result");
	vt_json_stream_deinit(&stream);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct vt_arena values = { 0 }, their_values = { 0 };
	const struct vt_json_value *ours = NULL;
	json_t *theirs = NULL;
	/* A copy of just this length: a sanitizer sees a look behind it. */
	char *text = malloc(size ? size : 1);
	enum vt_json_parsed parsed;
	struct vt_error *err;

	if (!text)
		exit(1);
	if (size)
		memcpy(text, data, size);
	parsed = vt_json_parse(text, size, &values, &ours);
	err = vt_jansson_parse(text, size, &their_values, &theirs);
	fuzz_check(parsed != VT_JSON_PARSED || !err, "jansson refuses it: %s", err->message);
	/* jansson 2.14 overlooks a NUL behind a number. */
	fuzz_check(parsed != VT_JSON_REFUSED || err || memchr(text, 0, size), "jansson accepts it");
	if (!err && parsed != VT_JSON_REFUSED)
		check_same(ours, theirs);
	check_stream(text, size, parsed, err ? NULL : theirs);
	vt_error_destroy(err);
	vt_arena_deinit(&values);
	vt_arena_deinit(&their_values);
	free(text);
	return 0;
}
