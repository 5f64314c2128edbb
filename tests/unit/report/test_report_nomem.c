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

#include "report/diff/diff.h"
#include "report/profile/memory.h"
#include "report/diff/growth.h"
#include "job/job.h"
#include "report/json/load.h"
#include "report/snapshot/snapshot.h"
#include "report/writer.h"
#include "unit/job/job_models.h"
#include "unit/job/ras/ras_words.h"
#include "unit/report/report_models.h"
#include "unit/report/report_parts.h"
#include "job/json/json.h"
#include "job/rules/rules.h"
#include "job/ras/ras.h"
#include "job/text/text.h"

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

/* What a writer wrote; not all of them write text. */
struct output {
	char *data;
	size_t n;
};

static struct output read_all(FILE *file)
{
	struct output output = { .n = (size_t)ftell(file) };

	output.data = __real_calloc(output.n + 1, 1);
	rewind(file);
	assert_int_equal(fread(output.data, 1, output.n, file), output.n);
	return output;
}

static void assert_same(const struct output *a, const struct output *b)
{
	assert_int_equal(a->n, b->n);
	assert_memory_equal(a->data, b->data, a->n);
}

/* Prints the model with the allocation number nth failing; *output is what came out. */
static bool print(const char *name, vt_write_fn *writer, long nth, struct output *output,
		  bool *partial)
{
	struct vt_writer_options options = { .colour = true, .map = true };
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
	err = writer(&model, &options, file);
	counting = false;
	assert_true(ok || model.completeness != VT_COMPLETE || !failed);
	*partial = model.completeness != VT_COMPLETE || err;
	assert_true(!err || err->code == VT_ERR_NOMEM);
	vt_error_destroy(err);
	*output = read_all(file);
	fclose(file);
	vt_model_deinit(&model);
	return failed;
}

static void torture(const char *name, vt_write_fn *writer)
{
	struct output whole, output;
	bool partial;
	long nth = 0;

	assert_false(print(name, writer, -1, &whole, &partial));
	assert_false(partial);
	while (print(name, writer, nth, &output, &partial)) {
		if (!partial)
			assert_same(&output, &whole);
		free(output.data);
		nth++;
	}
	assert_same(&output, &whole);
	assert_true(nth > 10);
	free(output.data);
	free(whole.data);
}

static void test_one_failure(void **state)
{
	(void)state;
	for_good = false;
	torture("training", vt_write_report_text);
	torture("training", vt_write_report_json);
	torture("held", vt_write_report_text);
	torture("recorded", vt_write_report_text);
	torture("no-cuda", vt_write_report_text);
	torture("deadlock", vt_write_report_text);
	torture("recorded", vt_write_report_snapshot);
	torture("debugged", report_write_parts);
}

static void test_no_memory_from_then_on(void **state)
{
	(void)state;
	for_good = true;
	torture("training", vt_write_report_text);
	torture("training", vt_write_report_json);
	torture("held", vt_write_report_json);
}

/*
 * Two saved reports are read, compared, followed and made into profiles, with the allocation number
 * nth failing.
 */
static bool compare(const char *json, size_t n, long nth)
{
	struct vt_writer_options options = { 0 };
	struct vt_diff_options what = { .traces = true };
	struct vt_model models[2];
	struct vt_growth growth;
	struct vt_error *err = NULL;
	struct vt_diff diff;
	FILE *file = tmpfile();

	assert_non_null(file);
	counting = true;
	failed = false;
	countdown = nth;
	for (int i = 0; i < 2; i++) {
		vt_model_init(&models[i]);
		err = err ? err : vt_report_load_text(json, n, &models[i]);
	}
	if (!err)
		err = vt_diff_create(&diff, &models[0], &models[1]);
	if (!err) {
		err = vt_diff_write_text(&diff, &what, &options, file);
		if (!err)
			err = vt_diff_write_json(&diff, file);
		vt_diff_deinit(&diff);
	}
	if (!err)
		err = vt_write_report_folded(&models[0], &options, file);
	if (!err)
		err = vt_write_report_speedscope(&models[0], &options, file);
	if (!err)
		err = vt_write_report_pprof(&models[0], &options, file);
	vt_growth_init(&growth, VT_GROWTH_BY_SITE);
	if (!err && (!vt_growth_add(&growth, &models[0]) || !vt_growth_add(&growth, &models[1])))
		err = &vt_enomem;
	counting = false;
	/* What failed was said. */
	assert_true(!failed == !err);
	assert_true(!err || err->code == VT_ERR_NOMEM);
	vt_error_destroy(err);
	vt_growth_deinit(&growth);
	fclose(file);
	for (int i = 0; i < 2; i++)
		vt_model_deinit(&models[i]);
	return failed;
}

/* Short: it is read some hundred times. */
static void build_short(struct vt_model *model)
{
	static const struct vt_model_frame frames[] = {
		{ .kind = VT_FRAME_PYTHON, .function = "leak", .file = "train.py", .line = 7 },
		{ .kind = VT_FRAME_NATIVE,
		  .module = "libmine.so",
		  .build_id = "",
		  .pc = 0x1000,
		  .module_offset = 0x10 },
	};
	static const uint32_t one[] = { 0, UINT32_MAX }, other[] = { 1, 0, UINT32_MAX };
	static const uint32_t *const traces[] = { one, other };

	vt_model_init(model);
	report_add_device(model, 0, 90, 100);
	report_add_allocator(model, 0);
	report_add_segment(model, 0, 0, 0);
	for (int i = 0; i < 20; i++)
		report_add_block(model, VT_BLOCK_ALLOCATED, 512, 500);
	report_add_traces(model, frames, 2, traces, 2);
	assert_true(vt_model_account(model));
}

static void test_saved_reports(void **state)
{
	struct vt_writer_options options = { 0 };
	struct vt_model model;
	char *json = NULL;
	size_t n = 0;
	FILE *file = open_memstream(&json, &n);
	long nth = 0;

	(void)state;
	assert_non_null(file);
	build_short(&model);
	assert_null(vt_write_report_json(&model, &options, file));
	fclose(file);
	vt_model_deinit(&model);
	assert_false(compare(json, n, -1));
	for (int i = 0; i < 2; i++) {
		for_good = i;
		for (nth = 0; compare(json, n, nth); nth++)
			;
		assert_true(nth > 20);
	}
	free(json);
}

/* A saved job is read, accounted and printed, with the allocation number nth failing. */
static bool merge(const char *json, size_t n, long nth, struct output *output, bool *partial)
{
	struct vt_writer_options options = { 0 };
	FILE *file = tmpfile();
	struct vt_error *err;
	struct vt_job job;

	assert_non_null(file);
	vt_job_init(&job);
	counting = true;
	failed = false;
	countdown = nth;
	err = vt_job_load_text(&job, json, n, "dir");
	if (!err) {
		vt_job_account(&job);
		assert_true(!job.failed || job.completeness != VT_COMPLETE);
		err = vt_write_job_text(&job, &options, file);
	}
	counting = false;
	assert_true(!err || err->code == VT_ERR_NOMEM);
	*partial = err || job.failed;
	vt_error_destroy(err);
	*output = read_all(file);
	fclose(file);
	vt_job_deinit(&job);
	return failed;
}

static const struct vt_ras ras_asked = {
	.host = "h", .pid = 1, .address = "a", .understood = true
};

/*
 * An answer of NCCL's RAS is read, with the allocation number nth failing; what is there of it is
 * sound.
 */
static bool read_ras(const char *words, long nth)
{
	static const struct vt_writer_options options = { 0 };
	FILE *file = tmpfile();
	struct vt_job job;
	bool whole;

	assert_non_null(file);
	vt_job_init(&job);
	counting = true;
	failed = false;
	countdown = nth;
	whole = vt_job_add_ras(&job, &ras_asked, words, strlen(words));
	counting = false;
	/* What jansson could not have it says, too. */
	assert_true(whole == !failed || (whole && !job.ras.data[0].understood));
	vt_job_account(&job);
	assert_null(vt_write_job_text(&job, &options, file));
	assert_null(vt_write_job_json(&job, &options, file));
	fclose(file);
	vt_job_deinit(&job);
	return failed;
}

static void test_ras_without_memory(void **state)
{
	static const char *const all[] = { ras_2_24, ras_2_27,   ras_2_28,
					   ras_2_29, ras_status, ras_well };

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		long nth = 0;

		for (for_good = i % 2; read_ras(all[i], nth); nth++)
			;
		assert_true(nth > 2);
	}
}

static void test_job_without_memory(void **state)
{
	static const char *const hangs[] = { "loop", "loader-gone", "unreadable", "sequences",
					     "outsider" };
	struct vt_writer_options options = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(hangs) / sizeof(hangs[0]); i++) {
		struct job_model what = {
			.hang = hangs[i], .ranks = 4, .workers = 2, .culprit = 1
		};
		struct output whole, output;
		char *json = NULL;
		struct vt_job job;
		bool partial;
		size_t n = 0;
		long nth = 0;
		FILE *file = open_memstream(&json, &n);

		assert_non_null(file);
		vt_job_init(&job);
		assert_true(job_model_fill(&job, &what));
		assert_true(vt_job_add_ras(&job, &ras_asked, ras_2_29, strlen(ras_2_29)));
		assert_null(vt_write_job_json(&job, &options, file));
		fclose(file);
		vt_job_deinit(&job);
		for_good = i % 2;
		assert_false(merge(json, n, -1, &whole, &partial));
		assert_false(partial);
		for (; merge(json, n, nth, &output, &partial); nth++) {
			if (!partial)
				assert_same(&output, &whole);
			free(output.data);
		}
		assert_true(nth > 30);
		free(output.data);
		free(whole.data);
		free(json);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_failure),
		cmocka_unit_test(test_job_without_memory),
		cmocka_unit_test(test_ras_without_memory),
		cmocka_unit_test(test_no_memory_from_then_on),
		cmocka_unit_test(test_saved_reports),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
