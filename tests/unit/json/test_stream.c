/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Documents read part by part, from windows of any size: their parts are those of the whole
 * document, and what is wrong is said in the same words.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "json/in.h"
#include "json/stream.h"

#define MOST_WINDOW 70

static const char *const documents[] = {
	("{\"schema\":\"s\",\"found\":{\"tree\":[{\"a\":[1,2,{\"b\":[]}]},3],\"x\":{}},\"members\":[{\"pid\":12345,\"name\":\"py\\n\"}"
	 ", {\"pid\":-7,\"r\":1.25e3} ,[ ] ],\"stacks\":[[0,1,22,333],[],[4]],\"n\":12,\"t\":true,\"f\":false,\"z\":null}"),
	" { \"\" : [ \"\", \"\\u0041\\ud83d\\ude00\", \"\xc3\xa4\xe2\x82\xac\" ] ,\n\t\"a \\\"key\\\"\" : 1234567890123 , \"k\" : { } } \r\n",
	"[1,22,[333,[4444,[55555,{\"a\":{\"b\":{\"c\":[[[]]]}}}]]],-1]",
	"[]",
	"{}",
	"{\"a long text\":\"................................................................................................\"}",
	"[12 , 34,5\n]",
};
#define N_DOCUMENTS (sizeof(documents) / sizeof(documents[0]))

static int file_of(const char *text, size_t n)
{
	int fd = memfd_create("document", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, n), (ssize_t)n);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	return fd;
}

static void check_same(const struct vt_json_value *a, const struct vt_json_value *b)
{
	size_t parts;

	assert_non_null(a);
	assert_int_equal(a->type, b->type);
	assert_int_equal(a->n, b->n);
	assert_int_equal(vt_json_integer(a), vt_json_integer(b));
	assert_true(vt_json_number(a) == vt_json_number(b));
	if (a->type == VT_JSON_STRING)
		assert_string_equal(a->text, b->text);
	parts = a->type == VT_JSON_OBJECT ? (size_t)2 * a->n : vt_json_count(a);
	for (size_t i = 0; i < parts; i++)
		check_same(&a->parts[i], &b->parts[i]);
}

static void read_part(struct vt_json_stream *s, const struct vt_json_value *truth, int depth);

static void read_parts(struct vt_json_stream *s, const struct vt_json_value *truth, int depth)
{
	size_t n = 0;

	for (; vt_json_stream_next(s); n++) {
		bool is_object = truth && truth->type == VT_JSON_OBJECT;

		if (is_object)
			assert_string_equal(s->key, vt_json_key(truth, n));
		read_part(s,
			  !truth    ? NULL :
			  is_object ? vt_json_of_key(truth, n) :
				      vt_json_at(truth, n),
			  depth);
	}
	if (truth)
		assert_int_equal(n, truth->n);
}

/* Enters as deep as it goes, or takes all at once. truth NULL: the document is wrong. */
static void read_part(struct vt_json_stream *s, const struct vt_json_value *truth, int depth)
{
	struct vt_arena kept = { 0 };
	const struct vt_json_value *part;

	if (depth > 0 &&
	    (vt_json_stream_enter(s, VT_JSON_OBJECT) || vt_json_stream_enter(s, VT_JSON_ARRAY))) {
		read_parts(s, truth, depth - 1);
		return;
	}
	part = vt_json_stream_part(s, depth % 2 ? &kept : NULL);
	if (truth)
		check_same(part, truth);
	vt_arena_deinit(&kept);
}

/* How deep it enters; -1: all is skipped. */
static void check(const char *text, size_t n, int depth, size_t window)
{
	struct vt_arena values = { 0 };
	struct vt_json_in in = { .values = &values };
	const struct vt_json_value *root = NULL;
	VT_ERROR struct vt_error *truth = vt_json_in_parse(&in, text, n, &root);
	VT_CLOSE int fd = window ? file_of(text, n) : -1;
	struct vt_json_stream s;

	if (window)
		assert_true(vt_json_stream_init_file(&s, fd));
	else
		assert_true(vt_json_stream_init_text(&s, text, n));
	s.first = window;
	if (depth < 0)
		vt_json_stream_skip(&s);
	else
		read_part(&s, root, depth);

	VT_ERROR struct vt_error *err = vt_json_stream_end(&s);

	assert_int_equal(!err, !truth);
	if (err)
		assert_string_equal(err->message, truth->message);
	vt_json_stream_deinit(&s);
	vt_arena_deinit(&values);
}

static void parts_are_those_of_the_document(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_DOCUMENTS; i++)
		for (size_t window = 0; window < MOST_WINDOW; window++)
			for (int depth = -1; depth <= VT_JSON_STREAM_DEPTH; depth++)
				check(documents[i], strlen(documents[i]), depth, window);
}

/* Cut, with another byte at each place, with something behind it. */
static void mistakes_are_said_in_the_same_words(void **state)
{
	static const char others[] = { 'x', '"', '{', ']', ',', ':', '0', '\\', '\0', '\x80' };
	char text[256];

	(void)state;
	for (size_t i = 0; i < N_DOCUMENTS; i++) {
		size_t n = strlen(documents[i]);

		for (size_t at = 0; at <= n; at++) {
			check(documents[i], at, 2, at % MOST_WINDOW);
			for (size_t k = 0; k < sizeof(others); k++) {
				memcpy(text, documents[i], n + 1);
				text[at] = others[k];
				check(text, at == n ? n + 1 : n, (int)(k % 5) - 1,
				      (at + k) % MOST_WINDOW);
			}
		}
	}
}

static void check_text(const char *text)
{
	check(text, strlen(text), 2, 0);
	check(text, strlen(text), -1, 9);
	check(text, strlen(text), 0, 9);
}

static void a_document_is_a_container(void **state)
{
	(void)state;
	check_text("");
	check_text("  ");
	check_text("1");
	check_text("\"x\"");
	check_text("null");
	check_text("{} {}");
}

/* In what was entered, too. */
static void keys_are_there_once(void **state)
{
	struct vt_str text = { 0 };

	(void)state;
	check_text("{\"a\":1,\"b\":2,\"a\":3}");
	check_text("{\"a\":1,\"b\":2,\"\\u0061\":3}");
	check_text("[{\"a\":{\"b\":1,\"b\":1}}]");
	for (int twice = 0; twice < 2; twice++) {
		vt_str_clear(&text);
		vt_str_add(&text, "{\"0\":0");
		for (int i = 1; i < 1000; i++)
			vt_str_addf(&text, ",\"%d\":%d", i, i);
		vt_str_add(&text, twice ? ",\"7\":1}" : "}");
		check_text(vt_str_get(&text));
	}
	vt_str_deinit(&text);
}

/* jansson's limit of memory, and that of its depth. */
static void limits_are_those_of_a_document(void **state)
{
	struct vt_str text = { 0 };

	(void)state;
	vt_str_add(&text, "[{}");
	for (int i = 0; i < 200000; i++)
		vt_str_add(&text, ",{}");
	vt_str_add(&text, "]");
	check(vt_str_get(&text), text.n, 1, 100);
	for (int depth = 2046; depth < 2051; depth++) {
		vt_str_clear(&text);
		for (int i = 0; i < depth; i++)
			vt_str_add(&text, "[");
		for (int i = 0; i < depth; i++)
			vt_str_add(&text, "]");
		check_text(vt_str_get(&text));
	}
	vt_str_deinit(&text);
}

static void flat_parts_can_be_passed(void **state)
{
	static const char text[] =
		"[{\"a\":\"}{[\\\"\",\"b\":1},{\"a\":[]}, {\"c\":{}} ,{},[1,\"]\"],[[]],[2}]";
	struct vt_json_stream s;
	size_t n = 0;

	(void)state;
	assert_true(vt_json_stream_init_text(&s, text, strlen(text)));
	assert_true(vt_json_stream_enter(&s, VT_JSON_ARRAY));
	assert_true(vt_json_stream_next(&s));
	assert_ptr_equal(vt_json_stream_flat(&s, &n), text + 1);
	assert_int_equal(n, 19);
	vt_json_stream_pass(&s, n, 0);
	assert_true(vt_json_stream_next(&s));
	assert_null(vt_json_stream_flat(&s, &n));
	vt_json_stream_skip(&s);
	assert_true(vt_json_stream_next(&s));
	assert_null(vt_json_stream_flat(&s, &n));
	vt_json_stream_skip(&s);
	assert_true(vt_json_stream_next(&s));
	assert_non_null(vt_json_stream_flat(&s, &n));
	assert_int_equal(n, 2);
	vt_json_stream_pass(&s, n, 0);
	assert_true(vt_json_stream_next(&s));
	assert_memory_equal(vt_json_stream_ahead(&s, &n), "[1,\"]\"],", 8);
	assert_int_equal(n, 17);
	assert_non_null(vt_json_stream_flat(&s, &n));
	assert_int_equal(n, 7);
	vt_json_stream_pass(&s, n, 0);
	assert_true(vt_json_stream_next(&s));
	assert_null(vt_json_stream_flat(&s, &n));
	vt_json_stream_skip(&s);
	assert_true(vt_json_stream_next(&s));
	assert_null(vt_json_stream_flat(&s, &n));
	assert_null(vt_json_stream_part(&s, NULL));
	assert_false(vt_json_stream_next(&s));
	assert_null(vt_json_stream_ahead(&s, &n));
	vt_json_stream_deinit(&s);
}

/* An array of n of these. Returns how many parts come out; *err is the verdict. */
static size_t parts_of(const char *element, size_t n, bool from_file, struct vt_error **err,
		       bool *weighed)
{
	size_t length = strlen(element), size = 1 + n * (length + 1), parts = 0;
	VT_FREE char *text = malloc(size + 1);
	VT_CLOSE int fd = -1;
	struct vt_json_stream s;

	assert_non_null(text);
	for (size_t i = 0; i < n; i++) {
		text[i * (length + 1)] = i ? ',' : '[';
		memcpy(&text[i * (length + 1) + 1], element, length);
	}
	text[size - 1] = ']';
	if (from_file) {
		fd = file_of(text, size);
		assert_true(vt_json_stream_init_file(&s, fd));
	} else {
		assert_true(vt_json_stream_init_text(&s, text, size));
	}
	assert_true(vt_json_stream_enter(&s, VT_JSON_ARRAY));
	while (vt_json_stream_next(&s))
		parts += !!vt_json_stream_part(&s, NULL);
	*err = vt_json_stream_end(&s);
	*weighed = s.weighed;
	vt_json_stream_deinit(&s);
	return parts;
}

/*
 * A document of so many small parts that jansson needs too much memory is refused before all of
 * them came out; one that only may need too much comes out whole.
 */
static void small_parts_do_not_all_come_out(void **state)
{
	static const char *const elements[] = { "{}", "[]", "[0]", "{\"a\":0}" };
	size_t n_accepted = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(elements) / sizeof(elements[0]); i++) {
		bool refused = false;

		for (size_t n = 1000; !refused; n += n / 200) {
			struct vt_error *err;
			bool weighed;
			size_t parts = parts_of(elements[i], n, n % 2, &err, &weighed);

			if (err)
				assert_non_null(strstr(err->message, "too many small parts"));
			else
				assert_int_equal(parts, n);
			/* The table of the array itself counts only at its end. */
			refused = err && weighed;
			assert_true(!refused || parts < n);
			n_accepted += weighed && !err;
			vt_error_destroy(err);
		}
	}
	print_message("%zu put to jansson and accepted\n", n_accepted);
	assert_true(n_accepted);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_are_those_of_the_document),
		cmocka_unit_test(mistakes_are_said_in_the_same_words),
		cmocka_unit_test(a_document_is_a_container),
		cmocka_unit_test(keys_are_there_once),
		cmocka_unit_test(limits_are_those_of_a_document),
		cmocka_unit_test(flat_parts_can_be_passed),
		cmocka_unit_test(small_parts_do_not_all_come_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
