/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every allocation of accounting and of the writers fails once, alone and with all later ones:
 * nothing crashes, and what is printed then is either whole or said not to be. Linked with --wrap
 * for malloc, calloc and realloc.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/writer.h"
#include "report_models.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);

static bool counting, failed, for_good;
static long countdown;

/* Whether this allocation is the one that fails, or comes after it. */
static bool fails(void)
{
	if (!counting)
		return false;
	if (countdown-- == 0) {
		failed = true;
		return true;
	}
	return failed && for_good;
}

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
	return fails() ? NULL : __real_realloc(p, size);
}

static char *read_all(FILE *file)
{
	long n = ftell(file);
	char *text = __real_calloc((size_t)n + 1, 1);

	rewind(file);
	assert_int_equal(fread(text, 1, (size_t)n, file), n);
	return text;
}

/* Prints the model with the allocation number nth failing; *text is what came out. */
static bool print(const char *name, const struct vt_report_writer *writer, long nth, char **text,
		  bool *partial)
{
	struct vt_writer_options options = { .colour = true };
	struct vt_model model;
	struct vt_error *err;
	FILE *file = tmpfile();
	bool ok;

	assert_non_null(file);
	assert_true(report_model_fill(&model, name));
	counting = true;
	failed = false;
	countdown = nth;
	ok = vt_model_account(&model);
	err = writer->write(&model, &options, file);
	counting = false;
	assert_true(ok || model.completeness != VT_COMPLETE || !failed);
	*partial = model.completeness != VT_COMPLETE || err;
	assert_true(!err || err->code == VT_ERR_NOMEM);
	vt_error_destroy(err);
	*text = read_all(file);
	fclose(file);
	vt_model_deinit(&model);
	return failed;
}

static void torture(const char *name, const struct vt_report_writer *writer)
{
	char *whole, *text;
	bool partial;
	long nth = 0;

	assert_false(print(name, writer, -1, &whole, &partial));
	assert_false(partial);
	while (print(name, writer, nth, &text, &partial)) {
		if (!partial)
			assert_string_equal(text, whole);
		free(text);
		nth++;
	}
	assert_string_equal(text, whole);
	assert_true(nth > 10);
	free(text);
	free(whole);
}

static void test_one_failure(void **state)
{
	(void)state;
	for_good = false;
	torture("training", &vt_writer_text);
	torture("training", &vt_writer_json);
	torture("held", &vt_writer_text);
	torture("recorded", &vt_writer_text);
	torture("no-cuda", &vt_writer_text);
	torture("deadlock", &vt_writer_text);
}

static void test_no_memory_from_then_on(void **state)
{
	(void)state;
	for_good = true;
	torture("training", &vt_writer_text);
	torture("training", &vt_writer_json);
	torture("held", &vt_writer_json);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_failure),
		cmocka_unit_test(test_no_memory_from_then_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
