/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON writer's pieces, and its output for every model (report_schema.py holds that against the
 * schema).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json/out.h"
#include "report/writer.h"
#include "unit/report/report_models.h"

struct output {
	struct vt_json *json;
	FILE *file;
	char *text;
	size_t n;
};

static void begin(struct output *o)
{
	*o = (struct output){ .json = malloc(sizeof(*o->json)) };
	o->file = open_memstream(&o->text, &o->n);
	assert_true(o->json && o->file);
	vt_json_init(o->json, o->file);
}

/* Compares without spaces and line breaks outside of strings. */
static void end(struct output *o, const char *want)
{
	size_t n = 0;
	bool quoted = false;

	assert_null(vt_json_finish(o->json));
	fclose(o->file);
	for (size_t i = 0; i < o->n; i++) {
		if (o->text[i] == '"')
			quoted = !quoted;
		if (quoted || (o->text[i] != ' ' && o->text[i] != '\n'))
			o->text[n++] = o->text[i];
		if (o->text[i] == '\\')
			o->text[n++] = o->text[++i];
	}
	o->text[n] = '\0';
	assert_string_equal(o->text, want);
	free(o->text);
	free(o->json);
}

static void test_structure(void **state)
{
	struct output o;

	(void)state;
	begin(&o);
	vt_json_object(o.json, NULL);
	vt_json_array(o.json, "empty");
	vt_json_end_array(o.json);
	vt_json_object_line(o.json, "none");
	vt_json_end_object(o.json);
	vt_json_array(o.json, "a");
	for (int i = 0; i < 2; i++) {
		vt_json_object_line(o.json, NULL);
		vt_json_array_line(o.json, "b");
		vt_json_int(o.json, NULL, i);
		vt_json_null(o.json, NULL);
		vt_json_end_array(o.json);
		vt_json_bool(o.json, "c", i);
		vt_json_end_object(o.json);
	}
	vt_json_end_array(o.json);
	vt_json_end_object(o.json);
	end(&o,
	    "{\"empty\":[],\"none\":{},\"a\":[{\"b\":[0,null],\"c\":false},{\"b\":[1,null],\"c\":true}]}");
}

static void test_numbers(void **state)
{
	struct output o;

	(void)state;
	begin(&o);
	vt_json_array_line(o.json, NULL);
	vt_json_uint(o.json, NULL, 0);
	vt_json_uint(o.json, NULL, UINT64_MAX);
	vt_json_int(o.json, NULL, INT64_MIN);
	vt_json_int(o.json, NULL, INT64_MAX);
	vt_json_int(o.json, NULL, -1);
	vt_json_hex(o.json, NULL, 0);
	vt_json_hex(o.json, NULL, UINT64_MAX);
	vt_json_hex(o.json, NULL, 0x7f00);
	vt_json_milli(o.json, NULL, 84.2);
	vt_json_milli(o.json, NULL, -0.0005);
	vt_json_milli(o.json, NULL, -0.0001);
	vt_json_milli(o.json, NULL, 0.9999);
	vt_json_milli(o.json, NULL, 1.0 / 0.0);
	vt_json_milli(o.json, NULL, 0.0 / 0.0);
	vt_json_milli(o.json, NULL, 1e300);
	vt_json_end_array(o.json);
	end(&o,
	    "[0,18446744073709551615,-9223372036854775808,9223372036854775807,-1,\"0x0\",\"0xffffffffffffffff\",\"0x7f00\","
	    "84.200,-0.001,0.000,1.000,null,null,null]");
}

static void test_strings(void **state)
{
	struct output o;

	(void)state;
	begin(&o);
	vt_json_array_line(o.json, NULL);
	vt_json_text(o.json, NULL, NULL);
	vt_json_text(o.json, NULL, "");
	vt_json_text(o.json, NULL, "plain / text");
	vt_json_text(o.json, NULL, "q\"b\\");
	vt_json_text(o.json, NULL, "\033[2J\n\x7f\xc2\x9b");
	vt_json_text(o.json, NULL, "\u00e9\u4e2d\U0001f525\u202e");
	vt_json_text(o.json, NULL,
		     "\xff"
		     "a\xc3"
		     "b\xed\xa0\x80"
		     "c\xf4\x90\x80\x80"
		     "d\xe4\xb8");
	vt_json_textn(o.json, NULL, "a\0b", 3);
	vt_json_end_array(o.json);
	end(&o,
	    "[null,\"\",\"plain / text\",\"q\\\"b\\\\\",\"\\u001b[2J\\u000a\\u007f\\u009b\","
	    "\"\\u00e9\\u4e2d\\ud83d\\udd25\\u202e\","
	    "\"\\ufffda\\ufffdb\\ufffd\\ufffd\\ufffdc\\ufffd\\ufffd\\ufffd\\ufffdd\\ufffd\\ufffd\",\"a\\u0000b\"]");
}

/* Texts around the size of the buffer arrive whole. */
static void test_long_strings(void **state)
{
	(void)state;
	for (size_t n = VT_JSON_BUFFER - 40; n < 2 * VT_JSON_BUFFER + 40; n += n % 7 ? 1 : 4001) {
		struct output o;
		char *text = malloc(n + 1);

		memset(text, 'x', n);
		text[n] = '\0';
		begin(&o);
		vt_json_text(o.json, NULL, text);
		assert_null(vt_json_finish(o.json));
		fclose(o.file);
		assert_int_equal(o.n, n + 3);
		assert_memory_equal(o.text + 1, text, n);
		free(o.text);
		free(o.json);
		free(text);
	}
}

static char *print(const char *name)
{
	struct vt_writer_options options = { 0 };
	struct vt_model model;
	char *text = NULL;
	size_t n = 0;
	FILE *file = open_memstream(&text, &n);

	assert_true(report_model_build(&model, name));
	assert_null(vt_write_report_json(&model, &options, file));
	fclose(file);
	vt_model_deinit(&model);
	assert_int_equal(strlen(text), n);
	return text;
}

/* Brackets match outside of strings, and every byte is printable ASCII or a line break. */
static void test_every_model(void **state)
{
	(void)state;
	for (size_t m = 0; report_model_names[m]; m++) {
		char *text = print(report_model_names[m]), open[64];
		size_t depth = 0;
		bool quoted = false;

		for (const char *p = text; *p; p++) {
			assert_true(*p == '\n' || (*p >= 0x20 && *p < 0x7f));
			if (quoted && *p == '\\')
				p++;
			else if (*p == '"')
				quoted = !quoted;
			else if (!quoted && strchr("{[", *p))
				open[depth++] = *p;
			else if (!quoted && strchr("}]", *p))
				assert_int_equal(open[--depth], *p == '}' ? '{' : '[');
			assert_true(depth < sizeof(open));
		}
		assert_int_equal(depth, 0);
		assert_false(quoted);
		free(text);
	}
}

static void test_contents(void **state)
{
	char *text = print("refused");

	(void)state;
	assert_non_null(strstr(text, "\"totals\": null"));
	assert_non_null(strstr(text, "\"statistics\": null"));
	assert_non_null(strstr(text, "\"segments\": []"));
	free(text);
	text = print("unstable");
	assert_non_null(strstr(text, "\"totals\": null"));
	assert_non_null(strstr(text, "\"groups\": []"));
	assert_null(strstr(text, "\"segments\": []"));
	free(text);
}

static void test_write_error(void **state)
{
	struct vt_writer_options options = { 0 };
	struct vt_model model;
	FILE *full = fopen("/dev/full", "w");
	struct vt_error *err;

	(void)state;
	if (!full)
		skip();
	assert_true(report_model_build(&model, "training"));
	err = vt_write_report_json(&model, &options, full);
	assert_non_null(err);
	assert_int_equal(err->code, VT_ERR_OS);
	vt_error_destroy(err);
	fclose(full);
	vt_model_deinit(&model);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_structure),   cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_strings),     cmocka_unit_test(test_long_strings),
		cmocka_unit_test(test_every_model), cmocka_unit_test(test_contents),
		cmocka_unit_test(test_write_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
