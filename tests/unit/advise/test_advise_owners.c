/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Advice that follows from the owners of blocks, and from what PyTorch cannot have: for each rule
 * a model that it fires for, and the nearest ones that it does not. Real programs:
 * tests/functional/folklore.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "advise/advise.h"
#include "report/advice_words.h"
#include "unit/report/report_models.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

static struct vt_model model;

/* A device of 4 GiB on which a request has failed, or not. */
static void begin(uint64_t free_bytes, bool failed)
{
	vt_model_init(&model);
	model.process.pid = 4711;
	model.process.name = "python3";
	model.process.state = 'S';
	report_add_device(&model, 0, 4 * GIB - free_bytes, 4 * GIB);
	report_add_allocator(&model, 0);
	model.allocators.data[0].result.have_stats = true;
	model.allocators.data[0].result.stats.num_ooms = failed;
	if (failed) { /* of a request that is not PyTorch's */
		model.caught.first = model.caught.last = 1;
		model.caught.event.number = 1;
	}
	model.owners.state = VT_OWNERS_READ;
}

/* PyTorch has counted the error, and that is all that is known of it. */
static void begin_counted(uint64_t free_bytes)
{
	begin(free_bytes, true);
	model.caught.first = model.caught.last = 0;
}

/* In doc/advice.md, in the row of its rule. */
static void check_documented(const struct vt_model_advice *advice)
{
	const char *source = getenv("VRAMTAP_SOURCE_DIR");
	char path[4096], text[128];
	char *table = NULL, *row;
	size_t n = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%s/doc/advice.md", source ? source : ".");
	file = fopen(path, "r");
	assert_non_null(file);
	assert_true(getdelim(&table, &n, '\0', file) > 0);
	fclose(file);
	snprintf(text, sizeof(text), "\n| `%s` |", vt_advice_rule_name(advice->rule));
	row = strstr(table, text);
	assert_non_null(row);
	row[1 + strcspn(row + 1, "\n")] = '\0';
	for (size_t i = 0; i < advice->n_values; i++) {
		snprintf(text, sizeof(text), "`%s`", advice->values[i].name);
		if (!strstr(row, text))
			fail_msg("doc/advice.md: %s has no %s", row, text);
	}
	snprintf(text, sizeof(text), "`%s`", vt_advice_remedy_name(advice->remedy));
	assert_non_null(strstr(row, text));
	free(table);
}

static const struct vt_model_advice *find(enum vt_advice_rule rule)
{
	assert_true(vt_model_account(&model));
	assert_true(vt_advise(&model));
	for (size_t i = 0; i < model.advice.items.n; i++)
		if (model.advice.items.data[i].rule == rule) {
			check_documented(&model.advice.items.data[i]);
			return &model.advice.items.data[i];
		}
	return NULL;
}

static uint64_t number(const struct vt_model_advice *advice, const char *name)
{
	const struct vt_advice_value *value = vt_model_advice_value(advice, name, strlen(name));

	if (!value)
		fail_msg("%s has no %s", vt_advice_rule_name(advice->rule), name);
	return value->number;
}

static bool has(const struct vt_model_advice *advice, const char *name)
{
	return vt_model_advice_value(advice, name, strlen(name)) != NULL;
}

typedef void words_fn(struct vt_str *text, const struct vt_model_advice *advice);

static void check_words(words_fn *words, const struct vt_model_advice *advice, const char *expected)
{
	struct vt_str text = { 0 };

	words(&text, advice);
	assert_string_equal(vt_str_get(&text), expected);
	vt_str_deinit(&text);
}

/* A block in use with its owner. */
static void add_owned(uint64_t size, enum vt_category category, const char *name, const char *shape)
{
	struct vt_model_owner *owner = vt_vec_append(&model.owners.items);

	report_add_segment(&model, 0, 0, 0);
	report_add_block(&model, VT_BLOCK_ALLOCATED, size, size);
	assert_non_null(owner);
	*owner = (struct vt_model_owner){ .block = (uint32_t)(model.n_blocks - 1),
					  .category = (uint8_t)category,
					  .certain = true,
					  .name = name,
					  .variable = "",
					  .module = "",
					  .type = "",
					  .dtype = "float32",
					  .shape = shape,
					  .has_grad_fn = -1,
					  .requires_grad = -1 };
}

static struct vt_model_notice *add_notice(enum vt_notice code, enum vt_why why)
{
	struct vt_model_notice *notice = vt_vec_append(&model.owners.notices);

	assert_non_null(notice);
	*notice = (struct vt_model_notice){ .code = (uint8_t)code,
					    .why = (uint8_t)why,
					    .certain = true,
					    .bytes = 300 * MIB,
					    .part_bytes = 200 * MIB,
					    .count = 6,
					    .name = "x",
					    .other = "y",
					    .type = "" };
	return notice;
}

/* What is wrong in itself is told without any want of memory, what may be on purpose is not. */
static void check_notice(enum vt_advice_rule rule, enum vt_notice code, enum vt_why why, bool alarm,
			 enum vt_advice_remedy remedy)
{
	const struct vt_model_advice *advice;

	for (int failed = 0; failed < 2; failed++) {
		begin(2 * GIB, failed);
		add_notice(code, why)->versions = why == VT_WHY_GROWS ? 6 : 0;
		advice = find(rule);
		assert_int_equal(advice != NULL, alarm || failed);
		if (advice) {
			assert_int_equal(advice->alarm, alarm);
			assert_int_equal(advice->remedy, remedy);
			assert_int_equal(number(advice, "held_bytes"), 300 * MIB);
		}
		vt_model_deinit(&model);
	}
	/* What was read of several moments proves nothing. */
	begin(2 * GIB, true);
	add_notice(code, why)->certain = false;
	advice = find(rule);
	assert_non_null(advice);
	assert_int_equal(advice->certainty, VT_SURE_POSSIBLE);
	assert_int_equal(advice->alarm, why == VT_WHY_GROWS);
	vt_model_deinit(&model);
}

static void test_notices(void **state)
{
	(void)state;
	check_notice(VT_ADVICE_HELD_BY_EXCEPTION, VT_NOTICE_EXCEPTION, VT_WHY_NONE, true,
		     VT_REMEDY_DROP_EXCEPTION);
	check_notice(VT_ADVICE_GARBAGE, VT_NOTICE_GARBAGE, VT_WHY_OFF, true,
		     VT_REMEDY_COLLECT_GARBAGE);
	check_notice(VT_ADVICE_KEPT_GRAPHS, VT_NOTICE_KEPT_GRAPHS, VT_WHY_GROWS, true,
		     VT_REMEDY_DETACH);
	check_notice(VT_ADVICE_KEPT_GRAPHS, VT_NOTICE_KEPT_GRAPHS, VT_WHY_NONE, false,
		     VT_REMEDY_DETACH);
	check_notice(VT_ADVICE_LEFT_PARAMETERS, VT_NOTICE_LEFT_PARAMETERS, VT_WHY_NONE, true,
		     VT_REMEDY_REBUILD_OPTIMIZER);
	check_notice(VT_ADVICE_FROZEN_STATE, VT_NOTICE_FROZEN_STATE, VT_WHY_NONE, false,
		     VT_REMEDY_REBUILD_OPTIMIZER);
	check_notice(VT_ADVICE_LOST_GRADIENTS, VT_NOTICE_LOST_GRADIENTS, VT_WHY_NONE, false,
		     VT_REMEDY_FREEZE);
	check_notice(VT_ADVICE_KEPT_GRADIENTS, VT_NOTICE_KEPT_GRADIENTS, VT_WHY_NONE, false,
		     VT_REMEDY_ZERO_GRAD);
	check_notice(VT_ADVICE_DATA_SET, VT_NOTICE_DATASET, VT_WHY_NONE, false,
		     VT_REMEDY_HOST_DATA_SET);
	check_notice(VT_ADVICE_STATE_COPY, VT_NOTICE_STATE_COPY, VT_WHY_NONE, false,
		     VT_REMEDY_HOST_COPY);
	check_notice(VT_ADVICE_EQUAL_MODELS, VT_NOTICE_EQUAL_MODELS, VT_WHY_NONE, false,
		     VT_REMEDY_ONE_MODEL);
}

/* What goes by itself soon needs no advice. */
static void test_passing(void **state)
{
	(void)state;
	begin(10 * MIB, true);
	add_notice(VT_NOTICE_EXCEPTION, VT_WHY_HANDLED);
	add_notice(VT_NOTICE_GARBAGE, VT_WHY_YOUNG);
	assert_null(find(VT_ADVICE_HELD_BY_EXCEPTION));
	assert_null(find(VT_ADVICE_GARBAGE));
	vt_model_deinit(&model);
}

static void test_words(void **state)
{
	const struct vt_model_advice *advice;
	struct vt_model_notice *notice;

	(void)state;
	begin(2 * GIB, false);
	notice = add_notice(VT_NOTICE_KEPT_GRAPHS, VT_WHY_GROWS);
	notice->name = "losses";
	notice->versions = 6;
	advice = find(VT_ADVICE_KEPT_GRAPHS);
	assert_non_null(advice);
	check_words(vt_advice_verdict, advice,
		    "losses keeps the graphs that made its 6 items: 300 MiB");
	check_words(vt_advice_evidence, advice,
		    "200 MiB of it are activations, saved for backward(), of 6 steps: only the "
		    "latest can still be used");
	vt_model_deinit(&model);

	begin(2 * GIB, false);
	notice = add_notice(VT_NOTICE_EXCEPTION, VT_WHY_NONE);
	notice->name = "errors[0]";
	notice->type = "ValueError";
	notice->count = 1;
	advice = find(VT_ADVICE_HELD_BY_EXCEPTION);
	assert_non_null(advice);
	check_words(vt_advice_verdict, advice,
		    "1 kept exception holds 300 MiB by way of the traceback");
	check_words(vt_advice_evidence, advice, "errors[0] (ValueError) keeps 200 MiB: y");
	vt_model_deinit(&model);

	begin(2 * GIB, false);
	add_notice(VT_NOTICE_GARBAGE, VT_WHY_FROZEN);
	advice = find(VT_ADVICE_GARBAGE);
	assert_non_null(advice);
	check_words(vt_advice_remedy, advice, "gc.unfreeze(); gc.collect() frees them");
	vt_model_deinit(&model);
}

static void add_freed(const char *name, uint32_t items, uint64_t bytes, enum vt_category category)
{
	struct vt_model_freed *freed = vt_vec_append(&model.owners.freed);

	assert_non_null(freed);
	*freed = (struct vt_model_freed){ .name = name,
					  .bytes = bytes,
					  .blocks = items,
					  .certain = true,
					  .category = (uint8_t)category,
					  .items = items };
}

static void add_items(enum vt_category category)
{
	for (int i = 0; i < 8; i++)
		add_owned(64 * MIB, category, "outputs[3] in main (train.py:4)", "(4, 4)");
	add_freed("outputs in main (train.py:4)", 8, 512 * MIB, VT_CATEGORY_UNKNOWN);
}

static void test_kept_items(void **state)
{
	const struct vt_model_advice *advice;

	(void)state;
	begin(2 * GIB, true);
	add_items(VT_CATEGORY_PYTHON);
	advice = find(VT_ADVICE_KEPT_ITEMS);
	assert_non_null(advice);
	assert_false(advice->alarm);
	assert_int_equal(advice->certainty, VT_SURE_POSSIBLE);
	assert_int_equal(number(advice, "held_bytes"), 512 * MIB);
	assert_int_equal(number(advice, "items"), 8);
	assert_int_equal(number(advice, "share_percent"), 100);
	assert_string_equal(advice->command, "vramtap watch 4711 --grow");
	vt_model_deinit(&model);

	/* of what it is a share is not known: PyTorch's memory was read in part */
	begin(2 * GIB, true);
	add_items(VT_CATEGORY_PYTHON);
	assert_true(vt_model_account(&model));
	model.allocators.data[0].exact = false;
	assert_true(vt_advise(&model));
	for (size_t i = 0; i < model.advice.items.n; i++)
		assert_int_not_equal(model.advice.items.data[i].rule, VT_ADVICE_KEPT_ITEMS);
	vt_model_deinit(&model);
	/* memory suffices */
	begin(2 * GIB, false);
	add_items(VT_CATEGORY_PYTHON);
	assert_null(find(VT_ADVICE_KEPT_ITEMS));
	vt_model_deinit(&model);
	/* the state of an optimizer, a cache: they are to be kept */
	begin(2 * GIB, true);
	add_items(VT_CATEGORY_OPTIMIZER);
	assert_null(find(VT_ADVICE_KEPT_ITEMS));
	vt_model_deinit(&model);
	/* a notice says more of it */
	begin(2 * GIB, true);
	add_items(VT_CATEGORY_PYTHON);
	add_notice(VT_NOTICE_STATE_COPY, VT_WHY_NONE)->name = "outputs in main (train.py:4)";
	assert_null(find(VT_ADVICE_KEPT_ITEMS));
	vt_model_deinit(&model);
	/* it is not much */
	begin(2 * GIB, true);
	add_items(VT_CATEGORY_PYTHON);
	add_owned(2 * GIB, VT_CATEGORY_PARAMETER, "model.weight", "(4, 4)");
	assert_null(find(VT_ADVICE_KEPT_ITEMS));
	vt_model_deinit(&model);
}

/* Eight activations of 100 MiB, 200 MiB of parameters. */
static void add_step(enum vt_category category)
{
	for (int i = 0; i < 8; i++)
		add_owned(100 * MIB, category, "saved by AddmmBackward0 ← x", "(512, 1024)");
	add_owned(200 * MIB, VT_CATEGORY_PARAMETER, "model.weight", "(1024, 1024)");
}

static void catch_request(uint64_t requested, uint64_t free_bytes)
{
	struct vt_model_oom *oom = vt_vec_append(&model.ooms);

	assert_non_null(oom);
	*oom = (struct vt_model_oom){ .number = 1,
				      .of_pytorch = true,
				      .requested = requested,
				      .free_bytes = free_bytes,
				      .total_bytes = 4 * GIB,
				      .tid = 4711,
				      .thread = "python3",
				      .trace = VT_UNTRACED(VT_UNTRACED_NOT_RECORDED) };
	model.caught.first = model.caught.last = 1;
}

static void test_batch(void **state)
{
	const struct vt_model_advice *advice;

	(void)state;
	begin(200 * MIB, true);
	add_step(VT_CATEGORY_ACTIVATION);
	catch_request(800 * MIB, 200 * MIB);
	advice = find(VT_ADVICE_BATCH_TOO_LARGE);
	assert_non_null(advice);
	assert_true(advice->alarm);
	assert_int_equal(advice->certainty, VT_SURE_LIKELY);
	assert_int_equal(number(advice, "activation_bytes"), 800 * MIB);
	assert_int_equal(number(advice, "used_bytes"), 1000 * MIB);
	assert_int_equal(number(advice, "rows"), 512);
	assert_int_equal(number(advice, "needed_bytes"), 800 * MIB);
	/* 800 MiB and the 200 that are free, of 1,600 that it wanted */
	assert_int_equal(number(advice, "fitting_rows"), 512 * 1000 / 1600);
	vt_model_deinit(&model);

	/* the program still handles the error */
	begin_counted(200 * MIB);
	add_step(VT_CATEGORY_EXCEPTION);
	add_notice(VT_NOTICE_EXCEPTION, VT_WHY_HANDLED)->type = "OutOfMemoryError";
	advice = find(VT_ADVICE_BATCH_TOO_LARGE);
	assert_non_null(advice);
	assert_int_equal(number(advice, "rows"), 512);
	assert_false(has(advice, "needed_bytes"));
	assert_false(has(advice, "fitting_rows"));
	vt_model_deinit(&model);
}

static void test_no_batch(void **state)
{
	(void)state;
	/* an error of long ago, and a step that is under way */
	begin_counted(200 * MIB);
	add_step(VT_CATEGORY_ACTIVATION);
	assert_null(find(VT_ADVICE_BATCH_TOO_LARGE));
	vt_model_deinit(&model);
	/* another exception */
	begin_counted(200 * MIB);
	add_step(VT_CATEGORY_EXCEPTION);
	add_notice(VT_NOTICE_EXCEPTION, VT_WHY_HANDLED)->type = "ValueError";
	assert_null(find(VT_ADVICE_BATCH_TOO_LARGE));
	vt_model_deinit(&model);
	/* most is something else */
	begin_counted(200 * MIB);
	add_step(VT_CATEGORY_ACTIVATION);
	add_owned(GIB, VT_CATEGORY_PARAMETER, "model.head", "(4, 4)");
	catch_request(800 * MIB, 200 * MIB);
	assert_null(find(VT_ADVICE_BATCH_TOO_LARGE));
	vt_model_deinit(&model);
}

static void add_raw(uint64_t size)
{
	struct vt_model_ledger_device *l = report_add_ledger(&model, 0);

	report_add_range(&model, VT_RANGE_DEVICE, UINT64_C(0x700000000000), size / 2);
	report_add_range(&model, VT_RANGE_DEVICE, 0, size / 2);
	l->claims_known = true;
}

static void test_raw(void **state)
{
	const struct vt_model_advice *advice;

	(void)state;
	begin(200 * MIB, true);
	add_raw(GIB);
	advice = find(VT_ADVICE_RAW_ALLOCATIONS);
	assert_non_null(advice);
	assert_false(advice->alarm);
	assert_int_equal(number(advice, "raw_bytes"), GIB);
	assert_int_equal(number(advice, "raw_allocations"), 2);
	assert_int_equal(number(advice, "largest_bytes"), GIB / 2);
	assert_string_equal(advice->command, "vramtap record 4711 on");
	vt_model_deinit(&model);

	begin(2 * GIB, false);
	add_raw(GIB);
	assert_null(find(VT_ADVICE_RAW_ALLOCATIONS));
	vt_model_deinit(&model);
	begin(200 * MIB, true);
	add_raw(100 * MIB);
	assert_null(find(VT_ADVICE_RAW_ALLOCATIONS));
	vt_model_deinit(&model);
}

static void add_stream(uint64_t stream, uint64_t used)
{
	report_add_segment(&model, 0, stream, 0);
	report_add_block(&model, VT_BLOCK_CACHED, 500 * MIB, 0);
	if (used)
		report_add_block(&model, VT_BLOCK_ALLOCATED, used, used);
}

static void test_stream_cache(void **state)
{
	const struct vt_model_advice *advice;

	(void)state;
	begin_counted(200 * MIB);
	add_notice(VT_NOTICE_EXCEPTION, VT_WHY_HANDLED)->type = "OutOfMemoryError";
	add_stream(0x5610, 2 * MIB);
	advice = find(VT_ADVICE_STREAM_CACHE);
	assert_non_null(advice);
	assert_int_equal(number(advice, "stream_cached_bytes"), 500 * MIB);
	check_words(vt_advice_evidence, advice,
		    "stream 0x5610; the largest hole has 500 MiB; 200 MiB free on the device");
	vt_model_deinit(&model);

	/* the default stream's; a segment that is given back before a request fails; no want */
	begin_counted(200 * MIB);
	add_notice(VT_NOTICE_EXCEPTION, VT_WHY_HANDLED)->type = "OutOfMemoryError";
	add_stream(0, 2 * MIB);
	add_stream(0x5610, 0);
	assert_null(find(VT_ADVICE_STREAM_CACHE));
	vt_model_deinit(&model);
	begin(2 * GIB, false);
	add_stream(0x5610, 2 * MIB);
	assert_null(find(VT_ADVICE_STREAM_CACHE));
	vt_model_deinit(&model);
}

static void test_pinned_cache(void **state)
{
	const struct vt_model_advice *advice;

	(void)state;
	begin(2 * GIB, false);
	report_add_pinned(&model);
	advice = find(VT_ADVICE_PINNED_CACHE);
	assert_non_null(advice);
	assert_false(advice->alarm);
	assert_int_equal(number(advice, "cached_bytes"), 4 * GIB);
	vt_model_deinit(&model);
	/* a core: there is no command */
	begin(2 * GIB, false);
	model.core.path = "core.4711";
	report_add_pinned(&model);
	advice = find(VT_ADVICE_PINNED_CACHE);
	assert_non_null(advice);
	check_words(vt_advice_remedy, advice, "use one buffer of the largest size again and again");
	vt_model_deinit(&model);
	/* most of it is in use */
	begin(2 * GIB, false);
	report_add_pinned(&model);
	for (size_t i = 0; i < model.pinned.n_blocks; i++)
		model.pinned.blocks[i].state = VT_BLOCK_ALLOCATED;
	assert_null(find(VT_ADVICE_PINNED_CACHE));
	vt_model_deinit(&model);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_notices),      cmocka_unit_test(test_passing),
		cmocka_unit_test(test_words),        cmocka_unit_test(test_kept_items),
		cmocka_unit_test(test_batch),        cmocka_unit_test(test_no_batch),
		cmocka_unit_test(test_raw),          cmocka_unit_test(test_stream_cache),
		cmocka_unit_test(test_pinned_cache),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
