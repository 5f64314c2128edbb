/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What vt_advise() makes of a model: for each rule one that it fires for, and the nearest ones that
 * it does not. And doc/advice.md has the rules.
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
#include "advise/internal.h"
#include "report/advice_words.h"
#include "report/json/load.h"
#include "report/writer.h"
#include "unit/report/report_models.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

/* ---- the model of a test, and what it is asked ---- */

static struct vt_model model;

static void begin(void)
{
	vt_model_init(&model);
	model.process.pid = 4711;
	model.process.name = "python3";
	model.process.state = 'S';
	model.versions.torch = "2.11.0";
}

static void advise(void)
{
	assert_true(vt_model_account(&model));
	assert_true(vt_advise(&model));
}

static const struct vt_model_advice *find(enum vt_advice_rule rule)
{
	for (size_t i = 0; i < model.advice.items.n; i++)
		if (model.advice.items.data[i].rule == rule)
			return &model.advice.items.data[i];
	return NULL;
}

static const struct vt_model_advice *need(enum vt_advice_rule rule)
{
	const struct vt_model_advice *advice = find(rule);

	if (!advice)
		fail_msg("there is no advice %s", vt_advice_rule_name(rule));
	return advice;
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

static void check_text(const struct vt_model_advice *advice, const char *name, const char *text)
{
	assert_true(has(advice, name));
	assert_string_equal(vt_model_advice_value(advice, name, strlen(name))->text, text);
}

typedef void words_fn(struct vt_str *text, const struct vt_model_advice *advice);

static void check_words(words_fn *words, const struct vt_model_advice *advice, const char *expected)
{
	struct vt_str text = { 0 };

	words(&text, advice);
	assert_string_equal(vt_str_get(&text), expected);
	vt_str_deinit(&text);
}

static void check_next(size_t i, const char *expected)
{
	const struct vt_model_next *next = &model.advice.next.data[i];

	assert_true(i < model.advice.next.n);
	assert_string_equal(next->command ? next->command : next->setting, expected);
}

/* ---- doc/advice.md ---- */

static char *table;

static void read_table(void)
{
	const char *source = getenv("VRAMTAP_SOURCE_DIR");
	char path[4096];
	size_t n = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%s/doc/advice.md", source ? source : ".");
	file = fopen(path, "r");
	assert_non_null(file);
	table = NULL;
	assert_true(getdelim(&table, &n, '\0', file) > 0);
	fclose(file);
}

/* The row of a rule, up to its end. */
static const char *row_of(const char *rule, size_t *n)
{
	char begin_of_row[64];
	const char *row;

	snprintf(begin_of_row, sizeof(begin_of_row), "\n| `%s` |", rule);
	row = strstr(table, begin_of_row);
	if (!row)
		fail_msg("doc/advice.md has no rule %s", rule);
	row++;
	*n = strcspn(row, "\n");
	return row;
}

static bool row_has(const char *row, size_t n, const char *format, const char *text)
{
	char part[128];

	snprintf(part, sizeof(part), format, text);
	return memmem(row, n, part, strlen(part)) != NULL;
}

/* Each figure that a test has seen is in the row of its rule, and in no other way. */
static void check_figures(void)
{
	for (size_t i = 0; i < model.advice.items.n; i++) {
		const struct vt_model_advice *advice = &model.advice.items.data[i];
		const char *rule = vt_advice_rule_name(advice->rule);
		size_t n;
		const char *row = row_of(rule, &n);

		if (!row_has(row, n, "`%s`", vt_advice_remedy_name(advice->remedy)))
			fail_msg("doc/advice.md: %s has no remedy %s", rule,
				 vt_advice_remedy_name(advice->remedy));
		for (size_t k = 0; k < advice->n_values; k++)
			if (!row_has(row, n, "`%s`", advice->values[k].name))
				fail_msg("doc/advice.md: %s has no %s", rule,
					 advice->values[k].name);
	}
}

static void end(void)
{
	read_table();
	check_figures();
	free(table);
	vt_model_deinit(&model);
}

static void test_table(void **state)
{
	const char *last, *next;

	(void)state;
	read_table();
	next = strstr(table, "\n## Next");
	last = table;
	for (size_t i = 0; i < vt_advise_n_rules; i++) {
		const struct vt_advise_rule *rule = &vt_advise_rules[i];
		const char *name = vt_advice_rule_name(rule->rule);
		size_t n;
		const char *row = row_of(name, &n);

		if (row < last)
			fail_msg("doc/advice.md has %s in another order", name);
		last = row;
		if (!row_has(row, n, rule->alarm ? "| ! | %s |" : "| | %s |",
			     vt_certainty_name(rule->certainty)))
			fail_msg("doc/advice.md: %s is not %s", name,
				 vt_certainty_name(rule->certainty));
		if (!row_has(row, n, "`%s`", vt_advice_remedy_name(rule->remedy)))
			fail_msg("doc/advice.md: %s has no remedy %s", name,
				 vt_advice_remedy_name(rule->remedy));
	}
	/* every rule has a row in the source, and every row there is a rule */
	assert_non_null(next);
	for (const char *at = table; (at = strstr(at, "\n| `")) && at < next; at++) {
		bool known = false;

		for (size_t i = 0; i < vt_advise_n_rules; i++) {
			const char *name = vt_advice_rule_name(vt_advise_rules[i].rule);

			known |= !strncmp(at + 4, name, strlen(name)) &&
				 at[4 + strlen(name)] == '`';
		}
		if (!known)
			fail_msg("doc/advice.md has a rule that is none: %.40s", at + 1);
	}
	assert_int_equal(vt_advise_n_rules, VT_N_ADVICE_RULES - 1);
	for (unsigned int i = VT_NEXT_REMEDY + 1; i < VT_N_ADVICE_NEXTS; i++) {
		size_t n;

		if (row_of(vt_advice_next_name(i), &n) < next)
			fail_msg("doc/advice.md: %s does not come next", vt_advice_next_name(i));
	}
	free(table);
}

static void test_words(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < VT_N_ADVICE_RULES; i++) {
		struct vt_model_advice advice = { .rule = (enum vt_advice_rule)i, .device = 0 };
		struct vt_str text = { 0 };

		vt_advice_verdict(&text, &advice);
		assert_true(text.n > 0);
		vt_str_deinit(&text);
	}
	for (unsigned int i = 1; i < VT_N_ADVICE_REMEDIES; i++) {
		struct vt_model_advice advice = { .remedy = (enum vt_advice_remedy)i,
						  .setting = "a=b",
						  .command = "c" };
		struct vt_str text = { 0 };

		vt_advice_remedy(&text, &advice);
		assert_true(text.n > 0);
		vt_str_deinit(&text);
	}
}

/* ---- the process ---- */

static void test_stopped(void **state)
{
	const struct vt_model_advice *advice;

	(void)state;
	begin();
	model.process.state = 'T';
	advise();
	advice = need(VT_ADVICE_STOPPED);
	assert_true(advice->alarm);
	assert_int_equal(advice->certainty, VT_SURE_CERTAIN);
	check_words(vt_advice_verdict, advice, "a signal has stopped the process");
	check_words(vt_advice_remedy, advice, "kill -CONT 4711 lets it go on");
	check_next(0, "kill -CONT 4711");
	end();

	/* a debugger's stop, and a core of a stopped process, are not that */
	begin();
	model.process.state = 'T';
	model.process.tracer = 99;
	advise();
	assert_null(find(VT_ADVICE_STOPPED));
	end();
	begin();
	model.process.state = 'T';
	model.core.path = "core.4711";
	advise();
	assert_null(find(VT_ADVICE_STOPPED));
	assert_int_equal(model.advice.next.n, 0);
	end();
}

static void test_launcher(void **state)
{
	(void)state;
	begin();
	model.around.n_children = 2;
	model.around.children[0] = 31;
	model.around.children[1] = 32;
	advise();
	check_text(need(VT_ADVICE_LAUNCHER), "pids", "31, 32");
	check_words(vt_advice_verdict, need(VT_ADVICE_LAUNCHER),
		    "this process does not use CUDA: 2 processes that it started do");
	check_next(0, "vramtap triage --children-of 4711");
	end();
	begin();
	model.around.n_children = 1;
	model.around.children[0] = 31;
	advise();
	check_next(0, "vramtap report 31");
	end();
}

static void test_deadlock(void **state)
{
	struct vt_model_thread *t;

	(void)state;
	begin();
	vt_vec_reserve(&model.threads, 4);
	report_add_thread(&model, 4711, "python3")->waits_for = 4713;
	t = report_add_thread(&model, 4712, "loader");
	t->waits_for = 4713;
	t->deadlock = true;
	t = report_add_thread(&model, 4713, "loader");
	t->waits_for = 4712;
	t->deadlock = true;
	advise();
	assert_int_equal(model.advice.items.n, 1);
	check_words(vt_advice_evidence, need(VT_ADVICE_DEADLOCK),
		    "thread 4712 waits for what 4713 holds");
	check_next(0, "vramtap stacks --threads=all 4711");
	end();
}

/* What model/again.c has judged, of a thread that was in that function. */
static void look_again(enum vt_again_verdict verdict, enum vt_verdict_code code,
		       const char *function, int world_size)
{
	static struct vt_model_again_place place;
	struct vt_model_again_thread *t;

	begin();
	model.process.world_size = world_size;
	model.around.parent = 4000;
	t = vt_vec_append(&model.again.threads);
	place = (struct vt_model_again_place){ .looks = 2,
					       .state = 'S',
					       .verdict = { .code = code, .function = function } };
	*t = (struct vt_model_again_thread){
		.tid = 4711, .is_main = true, .n_places = 1, .places = &place
	};
	model.again.verdict = verdict;
	model.again.alarm = verdict == VT_AGAIN_IS_STUCK;
	model.again.subject = 4711;
	model.again.looks = 2;
	model.again.span_ns = UINT64_C(1040000000);
	advise();
}

/* The only stream with unfinished work is what it waits for, as far as is known. */
static void test_stuck_in_stream(void **state)
{
	static struct vt_model_again_place place = {
		.looks = 2,
		.state = 'S',
		.verdict = { .code = VT_VERDICT_IN_FUNCTION, .function = "cudaStreamSynchronize" },
	};
	struct vt_model_again_thread *t;
	struct vt_model_stream *stream;

	(void)state;
	begin();
	t = vt_vec_append(&model.again.threads);
	stream = vt_vec_append(&model.streams.list);
	*t = (struct vt_model_again_thread){
		.tid = 4711, .is_main = true, .n_places = 1, .places = &place
	};
	*stream = (struct vt_model_stream){
		.handle = 0x5000,
		.kind = VT_STREAM_IS_POOL,
		.number = 3,
		.doing = { VT_STREAM_DOES_BUSY, VT_STREAM_DOES_BUSY },
	};
	model.streams.wanted = true;
	model.again.verdict = VT_AGAIN_IS_STUCK;
	model.again.alarm = true;
	model.again.subject = 4711;
	model.again.looks = 2;
	model.again.span_ns = UINT64_C(30040000000);
	advise();
	check_words(
		vt_advice_evidence, need(VT_ADVICE_STUCK),
		"thread 4711 has not moved for 30 s: it is in cudaStreamSynchronize; PyTorch stream 3 of GPU 0 has unfinished work");
	end();
}

static void test_stuck(void **state)
{
	(void)state;
	look_again(VT_AGAIN_IS_STUCK, VT_VERDICT_IN_FUNCTION, "cudaDeviceSynchronize", -1);
	check_words(vt_advice_evidence, need(VT_ADVICE_STUCK),
		    "thread 4711 has not moved for 1 s: it is in cudaDeviceSynchronize");
	assert_int_equal(need(VT_ADVICE_STUCK)->remedy, VT_REMEDY_FIND_KERNEL);
	check_next(0, "vramtap report --kernels 4711");
	end();
	look_again(VT_AGAIN_IS_STUCK, VT_VERDICT_IN_FUNCTION, "cudaDeviceSynchronize", 8);
	check_next(0, "vramtap triage --children-of 4000");
	check_words(vt_advice_verdict, need(VT_ADVICE_STUCK), "the process is likely stuck");
	assert_int_equal(need(VT_ADVICE_STUCK)->remedy, VT_REMEDY_FIND_RANK);
	end();
	look_again(VT_AGAIN_IS_STUCK, VT_VERDICT_COLLECTIVE_NCCL, NULL, 8);
	assert_int_equal(need(VT_ADVICE_STUCK)->remedy, VT_REMEDY_FIND_RANK);
	end();
	look_again(VT_AGAIN_IS_STUCK, VT_VERDICT_IMPORT, NULL, -1);
	assert_int_equal(need(VT_ADVICE_STUCK)->remedy, VT_REMEDY_FIND_HOLDER);
	end();
	look_again(VT_AGAIN_IS_STANDS, VT_VERDICT_IN_FUNCTION, "cudaDeviceSynchronize", -1);
	assert_int_equal(model.advice.items.n, 0);
	end();
}

static void test_waits(void **state)
{
	struct vt_model_thread *t;

	(void)state;
	for (int core = 0; core < 2; core++) {
		begin();
		model.process.world_size = 4;
		model.around.parent = 4000;
		model.core.path = core ? "core" : NULL;
		t = report_add_thread(&model, 4711, "python3");
		t->verdict.code = VT_VERDICT_IN_FUNCTION;
		t->verdict.function = "cudaDeviceSynchronize";
		advise();
		assert_int_equal(model.advice.items.n, 0);
		if (core) {
			assert_int_equal(model.advice.next.n, 0);
		} else {
			check_next(0, "vramtap triage --children-of 4000");
			check_next(1, "vramtap stacks --again 4x10s 4711");
		}
		end();
	}
	begin();
	t = report_add_thread(&model, 4711, "python3");
	t->verdict.code = VT_VERDICT_IN_FUNCTION;
	t->verdict.function = "cudaLaunchKernel";
	advise();
	assert_int_equal(model.advice.next.n, 0);
	end();
}

/* ---- the host ---- */

static void test_host(void **state)
{
	const struct vt_model_advice *advice;

	(void)state;
	for (int full = 0; full < 2; full++) {
		begin();
		model.around.memory_known = true;
		model.around.memory_limit_bytes = 10 * GIB;
		model.around.memory_used_bytes = full ? 9900 * MIB : 9 * GIB;
		model.around.machine_bytes = 64 * GIB;
		model.host.shm_known = true;
		model.host.shm_total_bytes = 64 * MIB;
		model.host.shm_used_bytes = full ? 60 * MIB : 32 * MIB;
		model.host.shared_known = true;
		model.host.shared_bytes[VT_SHARED_TORCH] = 55 * MIB;
		model.host.shared_processes = 4;
		model.around.address_limited = true;
		model.around.address_limit_bytes = 100 * GIB;
		model.around.address_used_bytes = full ? 95 * GIB : 50 * GIB;
		model.process.container = "a1b2";
		advise();
		if (!full) {
			assert_int_equal(model.advice.items.n, 0);
			end();
			continue;
		}
		assert_int_equal(number(need(VT_ADVICE_HOST_LIMIT), "limit_bytes"), 10 * GIB);
		advice = need(VT_ADVICE_SHM_FULL);
		check_words(vt_advice_evidence, advice,
			    "60.0 MiB of 64.0 MiB; tensors of 4 workers: 55.0 MiB");
		assert_string_equal(advice->setting, "--shm-size=1g");
		assert_string_equal(need(VT_ADVICE_ADDRESS_LIMIT)->setting, "ulimit -v unlimited");
		end();
	}
}

static void test_pinned(void **state)
{
	(void)state;
	for (int much = 0; much < 2; much++) {
		begin();
		report_add_pinned(&model); /* 6 GiB */
		model.around.machine_bytes = much ? 10 * GIB : 64 * GIB;
		advise();
		if (much)
			assert_int_equal(number(need(VT_ADVICE_PINNED), "limit_bytes"), 10 * GIB);
		else
			assert_null(find(VT_ADVICE_PINNED));
		end();
	}
}

/* ---- growth ---- */

static void add_grown(enum vt_grown_by by, const char *label, int64_t bytes)
{
	struct vt_model_grown *item = vt_vec_append(&model.growth.items);

	*item = (struct vt_model_grown){
		.by = by, .label = label, .device = -1, .grown_bytes = bytes
	};
	model.growth.known = true;
	model.growth.looks = 10;
	model.growth.seconds = 60;
}

static void test_growth(void **state)
{
	const struct vt_model_advice *advice;

	(void)state;
	begin();
	report_add_device(&model, 0, 2 * GIB, 4 * GIB);
	report_add_allocator(&model, 0);
	report_add_segment(&model, 0, 0, 0);
	report_add_block(&model, VT_BLOCK_ALLOCATED, 1 * GIB, 1 * GIB);
	report_add_block(&model, VT_BLOCK_CACHED, 512 * MIB, 0);
	add_grown(VT_GROWN_SITE, "step train.py:9", 60 * (int64_t)MIB);
	add_grown(VT_GROWN_OWNER, "losses", 60 * (int64_t)MIB);
	advise();
	advice = need(VT_ADVICE_GROWTH);
	check_text(advice, "label", "losses");
	/* 2560 MiB of room at 1 MiB a second */
	assert_int_equal(number(advice, "room_bytes"), 2560 * MIB);
	assert_int_equal(number(advice, "full_seconds"), 2560);
	assert_int_equal(number(advice, "per_hour_bytes"), 3600 * MIB);
	check_words(vt_advice_verdict, advice, "GPU 0: memory grows: full in about 42 min");
	end();

	/* what falls, and a rate of no time */
	begin();
	add_grown(VT_GROWN_SITE, "step train.py:9", -60 * (int64_t)MIB);
	advise();
	assert_null(find(VT_ADVICE_GROWTH));
	end();
	begin();
	add_grown(VT_GROWN_SITE, "step train.py:9", 60 * (int64_t)MIB);
	model.growth.seconds = 0;
	advise();
	assert_false(has(need(VT_ADVICE_GROWTH), "full_seconds"));
	check_words(vt_advice_verdict, need(VT_ADVICE_GROWTH), "memory grows");
	end();
}

/* ---- memory ---- */

static void fail_request(uint64_t requested, uint64_t free_bytes, uint64_t total)
{
	struct vt_model_oom *oom = vt_vec_append(&model.ooms);

	assert_non_null(oom);
	*oom = (struct vt_model_oom){ .number = 1,
				      .of_pytorch = true,
				      .requested = requested,
				      .free_bytes = free_bytes,
				      .total_bytes = total,
				      .tid = 4711,
				      .thread = "python3",
				      .trace = VT_UNTRACED(VT_UNTRACED_NOT_RECORDED) };
	model.caught.first = model.caught.last = 1;
}

/* n segments of 20 MiB, each with a block in use between two holes of 9 MiB. */
static void add_pieces(size_t n, uint64_t stream)
{
	for (size_t i = 0; i < n; i++) {
		report_add_segment(&model, 0, stream, 0);
		report_add_block(&model, VT_BLOCK_CACHED, 9 * MIB, 0);
		report_add_block(&model, VT_BLOCK_ALLOCATED, 2 * MIB, 2 * MIB);
		report_add_block(&model, VT_BLOCK_CACHED, 9 * MIB, 0);
	}
}

/* A device of 4 GiB with so much free. */
static void add_full(uint64_t free_bytes)
{
	report_add_device(&model, 0, 4 * GIB - free_bytes, 4 * GIB);
	report_add_allocator(&model, 0);
}

static void add_used(uint64_t size)
{
	report_add_segment(&model, 0, 0, 0);
	report_add_block(&model, VT_BLOCK_ALLOCATED, size, size);
}

/* Pieces of less than a page: nothing joins them, and the report does not say so. */
static void test_fragmented(void **state)
{
	const struct vt_model_advice *advice;

	(void)state;
	begin();
	add_full(10 * MIB);
	add_pieces(10, 0);
	fail_request(64 * MIB, 10 * MIB, 4 * GIB);
	advise();
	advice = need(VT_ADVICE_FRAGMENTED);
	assert_true(advice->alarm);
	assert_int_equal(number(advice, "needed_bytes"), 64 * MIB);
	assert_int_equal(number(advice, "holes"), 20);
	assert_int_equal(number(advice, "holes_bytes"), 180 * MIB);
	assert_int_equal(number(advice, "largest_hole_bytes"), 9 * MIB);
	assert_int_equal(number(advice, "pinning_blocks"), 10);
	assert_int_equal(number(advice, "pinning_bytes"), 20 * MIB);
	assert_false(has(advice, "joined_bytes"));
	assert_false(has(advice, "unsplit_bytes"));
	assert_int_equal(advice->remedy, VT_REMEDY_LIFETIMES);
	assert_null(advice->setting);
	end();

	/* too little in all */
	begin();
	add_full(10 * MIB);
	add_pieces(10, 0);
	fail_request(400 * MIB, 10 * MIB, 4 * GIB);
	advise();
	assert_null(find(VT_ADVICE_FRAGMENTED));
	end();
}

/* Holes with whole pages in them, on two streams. */
static void add_large_pieces(size_t n, unsigned int flags)
{
	for (size_t i = 0; i < n; i++) {
		report_add_segment(&model, flags, i % 2 ? 0x1000 : 0, 0);
		report_add_block(&model, VT_BLOCK_CACHED, 100 * MIB, 0);
		report_add_block(&model, VT_BLOCK_ALLOCATED, 2 * MIB, 2 * MIB);
		report_add_block(&model, VT_BLOCK_CACHED, 100 * MIB, 0);
	}
}

static void test_expandable(void **state)
{
	const struct vt_model_advice *advice;

	(void)state;
	begin();
	add_full(10 * MIB);
	add_large_pieces(4, 0);
	fail_request(600 * MIB, 10 * MIB, 4 * GIB);
	advise();
	advice = need(VT_ADVICE_FRAGMENTED);
	/* of each 100 MiB, four pages of 20 MiB, wherever they begin */
	assert_int_equal(number(advice, "joined_bytes"), 640 * MIB);
	assert_int_equal(advice->remedy, VT_REMEDY_EXPANDABLE_SEGMENTS);
	assert_string_equal(advice->setting, "expandable_segments:True");
	check_words(
		vt_advice_evidence, advice,
		"600 MiB needed; 800 MiB cached in 8 holes, the largest 100 MiB, between 4 blocks in use "
		"(8.00 MiB); 10.0 MiB free on the device; expandable segments would have satisfied this "
		"request: 640 MiB of the holes");
	check_next(0, "expandable_segments:True");
	end();

	/* PyTorch 2.0 does not start with that setting, and an unknown one may not */
	for (int i = 0; i < 2; i++) {
		begin();
		model.versions.torch = i ? "" : "2.0.1+cu118";
		add_full(10 * MIB);
		add_large_pieces(4, 0);
		fail_request(600 * MIB, 10 * MIB, 4 * GIB);
		advise();
		assert_int_equal(need(VT_ADVICE_FRAGMENTED)->remedy, VT_REMEDY_MAX_SPLIT_SIZE);
		end();
	}
	/* one page more than that */
	begin();
	add_full(10 * MIB);
	add_large_pieces(4, 0);
	fail_request(641 * MIB, 10 * MIB, 4 * GIB);
	advise();
	advice = need(VT_ADVICE_FRAGMENTED);
	assert_false(has(advice, "joined_bytes"));
	/* but no segment would have been split: 128 is the largest that all of 202 exceed */
	assert_int_equal(advice->remedy, VT_REMEDY_MAX_SPLIT_SIZE);
	assert_string_equal(advice->setting, "max_split_size_mb:128");
	assert_int_equal(number(advice, "unsplit_segments"), 4);
	/* 4 of 202 MiB; their blocks of 2 MiB would share a segment of 20 */
	assert_int_equal(number(advice, "unsplit_bytes"), 788 * MIB);
	end();

	/* they are there already */
	begin();
	add_full(10 * MIB);
	add_large_pieces(4, VT_BLOCK_EXPANDABLE);
	fail_request(600 * MIB, 10 * MIB, 4 * GIB);
	advise();
	assert_int_equal(need(VT_ADVICE_FRAGMENTED)->remedy, VT_REMEDY_LIFETIMES);
	end();
}

/* A block in use that is as large as the setting is one that the segment would have anyway. */
static void test_max_split_size(void **state)
{
	(void)state;
	begin();
	add_full(10 * MIB);
	for (int i = 0; i < 4; i++) {
		report_add_segment(&model, 0, 0, 0);
		report_add_block(&model, VT_BLOCK_CACHED, 39 * MIB, 0);
		report_add_block(&model, VT_BLOCK_ALLOCATED, 40 * MIB, 40 * MIB);
		report_add_block(&model, VT_BLOCK_CACHED, 39 * MIB, 0);
	}
	fail_request(180 * MIB, 10 * MIB, 4 * GIB);
	advise();
	assert_string_equal(need(VT_ADVICE_FRAGMENTED)->setting, "max_split_size_mb:64");
	end();
	begin();
	add_full(10 * MIB);
	for (int i = 0; i < 4; i++) {
		report_add_segment(&model, 0, 0, 0);
		report_add_block(&model, VT_BLOCK_CACHED, 39 * MIB, 0);
		report_add_block(&model, VT_BLOCK_ALLOCATED, 70 * MIB, 70 * MIB);
		report_add_block(&model, VT_BLOCK_CACHED, 39 * MIB, 0);
	}
	fail_request(240 * MIB, 10 * MIB, 4 * GIB);
	advise();
	assert_string_equal(need(VT_ADVICE_FRAGMENTED)->setting, "max_split_size_mb:128");
	end();
}

static void test_elsewhere(void **state)
{
	const struct vt_model_advice *advice;

	(void)state;
	begin();
	add_full(10 * MIB);
	report_add_segment(&model, 0, 0xabc0, 0);
	report_add_block(&model, VT_BLOCK_CACHED, 300 * MIB, 0);
	report_add_block(&model, VT_BLOCK_ALLOCATED, 2 * MIB, 2 * MIB);
	fail_request(200 * MIB, 10 * MIB, 4 * GIB);
	advise();
	advice = need(VT_ADVICE_ELSEWHERE);
	assert_int_equal(advice->remedy, VT_REMEDY_EXPANDABLE_SEGMENTS);
	assert_int_equal(number(advice, "joined_bytes"), 280 * MIB);
	check_text(advice, "stream", "0xabc0");
	end();

	begin();
	add_full(10 * MIB);
	add_used(512 * MIB);
	report_add_segment(&model, VT_BLOCK_PRIVATE_POOL, 0, UINT64_C(1) << 32);
	report_add_block(&model, VT_BLOCK_CACHED, 300 * MIB, 0);
	fail_request(200 * MIB, 10 * MIB, 4 * GIB);
	advise();
	advice = need(VT_ADVICE_ELSEWHERE);
	assert_int_equal(advice->remedy, VT_REMEDY_SHARE_POOL);
	assert_int_equal(number(advice, "private_cached_bytes"), 300 * MIB);
	/* the same by what the pools keep */
	advice = need(VT_ADVICE_PRIVATE_POOLS);
	assert_int_equal(number(advice, "pools"), 1);
	assert_int_equal(advice->certainty, VT_SURE_POSSIBLE);
	end();
}

static void test_limited(void **state)
{
	const struct vt_model_advice *advice;

	(void)state;
	begin();
	add_full(3 * GIB);
	add_used(400 * MIB);
	fail_request(200 * MIB, 3 * GIB, 4 * GIB);
	advise();
	advice = need(VT_ADVICE_LIMITED);
	assert_int_equal(number(advice, "reserved_bytes"), 400 * MIB);
	assert_int_equal(number(advice, "limit_below_bytes"), 600 * MIB);
	/* 600 of 4096 is 14.6 %: 0.14 forbids it, 0.15 does not. 10 to 14 % lie between. */
	assert_false(has(advice, "limit_percent"));
	check_words(
		vt_advice_evidence, advice,
		"200 MiB needed, and 3.00 GiB were free; PyTorch has reserved 400 MiB, so the limit is "
		"between that and 600 MiB");
	check_next(0, "torch.cuda.set_per_process_memory_fraction(0.15)");
	end();

	/* one percentage lies between 400 and 420 of 4096: 10 */
	begin();
	add_full(3 * GIB);
	add_used(400 * MIB);
	fail_request(20 * MIB, 3 * GIB, 4 * GIB);
	advise();
	check_words(
		vt_advice_evidence, need(VT_ADVICE_LIMITED),
		"20.0 MiB needed, and 3.00 GiB were free; PyTorch has reserved 400 MiB, so the limit is "
		"between that and 420 MiB: about 10 % of the device");
	end();
	/* none does between 420 and 440 */
	begin();
	add_full(3 * GIB);
	add_used(420 * MIB);
	fail_request(20 * MIB, 3 * GIB, 4 * GIB);
	advise();
	assert_false(has(need(VT_ADVICE_LIMITED), "limit_percent"));
	end();
	/* PyTorch's message has it, or shows that there is none */
	begin();
	add_full(3 * GIB);
	add_used(400 * MIB);
	fail_request(200 * MIB, 3 * GIB, 4 * GIB);
	model.caught.message = "Tried to allocate 200.00 MiB. 512.00 MiB allowed; Of the allocated "
			       "memory 400.00 MiB is allocated by PyTorch";
	advise();
	check_words(
		vt_advice_evidence, need(VT_ADVICE_LIMITED),
		"200 MiB needed, and 3.00 GiB were free; PyTorch has reserved 400 MiB, and may have "
		"512 MiB: about 13 % of the device");
	assert_false(has(need(VT_ADVICE_LIMITED), "limit_below_bytes"));
	end();
	begin();
	add_full(3 * GIB);
	add_used(400 * MIB);
	fail_request(200 * MIB, 3 * GIB, 4 * GIB);
	model.caught.message = "Tried to allocate 200.00 MiB. Of the allocated memory 400.00 MiB "
			       "is allocated by PyTorch";
	advise();
	assert_null(find(VT_ADVICE_LIMITED));
	end();

	begin();
	add_full(3 * GIB);
	fail_request(8 * GIB, 3 * GIB, 4 * GIB);
	advise();
	assert_null(find(VT_ADVICE_LIMITED));
	assert_int_equal(number(need(VT_ADVICE_TOO_LARGE), "total_bytes"), 4 * GIB);
	end();
}

/* ---- others ---- */

static void set_stats(int64_t retries, int64_t ooms)
{
	model.allocators.data[0].result.have_stats = 1;
	model.allocators.data[0].result.stats.num_alloc_retries = retries;
	model.allocators.data[0].result.stats.num_ooms = ooms;
}

static struct vt_model_counted *add_process(pid_t pid, uint64_t bytes, enum vt_counted_life life)
{
	struct vt_model_gpu *gpu = model.usage.gpus.n ? &model.usage.gpus.data[0] : NULL;
	struct vt_model_counted *p = vt_vec_append(&model.usage.processes);

	if (!gpu) {
		gpu = vt_vec_append(&model.usage.gpus);
		*gpu = (struct vt_model_gpu){
			.uuid = "", .pci = "", .name = "", .parent = -1, .processes_known = true
		};
		model.usage.state = VT_COUNTED_READ;
		model.usage.whole = true;
	}
	gpu->n++;
	*p = (struct vt_model_counted){ .pid = pid,
					.life = life,
					.ours = pid == 4711,
					.bytes_known = true,
					.bytes = bytes,
					.rank = -1,
					.name = "python3",
					.command = "",
					.user = "",
					.container = "",
					.pod = "" };
	return p;
}

static void test_others(void **state)
{
	const struct vt_model_advice *advice;

	(void)state;
	begin();
	add_full(10 * MIB);
	add_used(2 * GIB);
	add_process(4711, 2 * GIB, VT_LIFE_THERE);
	add_process(99, 1 * GIB, VT_LIFE_THERE);
	add_process(98, 500 * MIB, VT_LIFE_THERE);
	fail_request(512 * MIB, 10 * MIB, 4 * GIB);
	advise();
	advice = need(VT_ADVICE_OTHERS);
	assert_true(advice->alarm);
	assert_int_equal(advice->certainty, VT_SURE_CERTAIN);
	assert_int_equal(number(advice, "others_bytes"), GIB + 500 * MIB);
	assert_int_equal(number(advice, "most_pid"), 99);
	check_words(
		vt_advice_evidence, advice,
		"512 MiB needed; 10.0 MiB free; 2 other processes, most: python3 (pid 99) with 1.00 GiB");
	check_next(0, "vramtap report 99");
	end();

	/* full, and nothing fails, or did so long ago: no alarm */
	for (int errors = 0; errors < 2; errors++) {
		begin();
		add_full(10 * MIB);
		add_used(2 * GIB);
		set_stats(0, errors);
		add_process(99, 1 * GIB, VT_LIFE_THERE);
		advise();
		assert_false(need(VT_ADVICE_OTHERS)->alarm);
		end();
	}
	begin();
	add_full(10 * MIB);
	add_used(2 * GIB);
	add_process(99, 1 * GIB, VT_LIFE_THERE);
	advise();
	assert_false(need(VT_ADVICE_OTHERS)->alarm);
	end();

	/* there is room */
	begin();
	add_full(512 * MIB);
	add_used(2 * GIB);
	add_process(99, 1 * GIB, VT_LIFE_THERE);
	advise();
	assert_int_equal(model.advice.items.n, 0);
	end();

	begin();
	add_full(10 * MIB);
	add_used(2 * GIB);
	add_process(99, 1 * GIB, VT_LIFE_GONE);
	advise();
	assert_null(find(VT_ADVICE_OTHERS));
	assert_int_equal(number(need(VT_ADVICE_ENDED_HOLDERS), "ended_bytes"), GIB);
	end();
}

/* A warm cache is no fault: only if another process needs the device. */
static void test_cache_kept(void **state)
{
	(void)state;
	for (int with_other = 0; with_other < 2; with_other++) {
		begin();
		add_full(10 * MIB);
		add_used(1 * GIB);
		report_add_segment(&model, 0, 0, 0);
		report_add_block(&model, VT_BLOCK_CACHED, 2 * GIB, 0);
		if (with_other)
			add_process(99, 256 * MIB, VT_LIFE_THERE);
		advise();
		if (!with_other)
			assert_int_equal(model.advice.items.n, 0);
		else
			assert_int_equal(number(need(VT_ADVICE_CACHE_KEPT), "whole_bytes"),
					 2 * GIB);
		end();
	}
}

static void test_cache_in_pieces(void **state)
{
	(void)state;
	for (int retries = 0; retries < 4; retries += 3) {
		begin();
		add_full(10 * MIB);
		add_large_pieces(10, 0);
		set_stats(retries, 0);
		advise();
		if (!retries) {
			assert_int_equal(model.advice.items.n, 0);
		} else {
			assert_int_equal(number(need(VT_ADVICE_CACHE_IN_PIECES), "retries"), 3);
			assert_int_equal(number(need(VT_ADVICE_CACHE_IN_PIECES), "joined_bytes"),
					 1600 * MIB);
		}
		end();
	}
}

/* After an error, with room on the device by now. One large hole is not in pieces. */
static void test_cache_after_error(void **state)
{
	(void)state;
	for (int errors = 0; errors < 3; errors++) {
		begin();
		add_full(1 * GIB);
		add_used(256 * MIB);
		if (errors < 2) {
			add_large_pieces(10, 0);
		} else {
			report_add_segment(&model, 0, 0, 0);
			report_add_block(&model, VT_BLOCK_ALLOCATED, 20 * MIB, 20 * MIB);
			report_add_block(&model, VT_BLOCK_CACHED, 2 * GIB, 0);
		}
		set_stats(1, errors);
		advise();
		if (errors == 1) {
			assert_int_equal(number(need(VT_ADVICE_CACHE_IN_PIECES), "joined_bytes"),
					 1600 * MIB);
			assert_int_equal(need(VT_ADVICE_CACHE_IN_PIECES)->remedy,
					 VT_REMEDY_EXPANDABLE_SEGMENTS);
		} else {
			assert_null(find(VT_ADVICE_CACHE_IN_PIECES));
		}
		end();
	}
}

static void test_past_oom(void **state)
{
	(void)state;
	begin();
	add_full(2 * GIB);
	add_used(1 * GIB);
	set_stats(2, 2);
	model.allocators.data[0].result.stats.allocated_bytes.peak = 3 * GIB;
	advise();
	assert_int_equal(number(need(VT_ADVICE_PAST_OOM), "peak_bytes"), 3 * GIB);
	check_next(0, "vramtap watch 4711 --on-oom");
	end();
}

static void test_awaiting(void **state)
{
	const struct vt_model_advice *advice;

	(void)state;
	for (int full = 0; full < 2; full++) {
		begin();
		add_full(full ? 10 * MIB : GIB);
		add_used(1 * GIB);
		report_add_segment(&model, 0, 0xabc0, 0);
		report_add_block(&model, VT_BLOCK_AWAITING_FREE, 300 * MIB, 300 * MIB);
		report_add_block(&model, VT_BLOCK_AWAITING_FREE, 200 * MIB, 200 * MIB);
		report_add_segment(&model, 0, 0, 0);
		report_add_block(&model, VT_BLOCK_AWAITING_FREE, 400 * MIB, 400 * MIB);
		model.allocators.data[0].result.waits = (struct vt_torch_waits){
			.state = VT_TORCH_WAITS_KNOWN,
			.n = 2,
			.list = { { .blocks = 1, .bytes = 300 * MIB },
				  { .kind = VT_TORCH_STREAM_POOL,
				    .number = 5,
				    .blocks = 2,
				    .bytes = 600 * MIB } },
		};
		advise();
		if (!full) {
			assert_int_equal(model.advice.items.n, 0);
			end();
			continue;
		}
		advice = need(VT_ADVICE_AWAITING_FREE);
		assert_false(advice->alarm);
		check_text(advice, "stream", "0xabc0");
		assert_int_equal(number(advice, "stream_bytes"), 500 * MIB);
		assert_int_equal(number(advice, "awaiting_bytes"), 900 * MIB);
		check_text(advice, "waits_for", "PyTorch stream 5");
		assert_int_equal(number(advice, "waits_for_bytes"), 600 * MIB);
		end();
	}
}

static void test_mig(void **state)
{
	(void)state;
	begin();
	add_full(10 * MIB);
	add_used(3 * GIB);
	add_process(4711, 3 * GIB, VT_LIFE_THERE);

	struct vt_model_gpu *whole = vt_vec_append(&model.usage.gpus);

	*whole = (struct vt_model_gpu){ .uuid = "",
					.pci = "",
					.name = "",
					.ordinal = -1,
					.parent = -1,
					.divided = true,
					.memory_known = true,
					.total_bytes = 80 * GIB };
	model.usage.gpus.data[0].parent = 1;
	advise();
	assert_int_equal(number(need(VT_ADVICE_MIG), "whole_device_bytes"), 80 * GIB);
	end();
}

static void test_library(void **state)
{
	(void)state;
	begin();
	add_full(10 * MIB);
	add_used(2 * GIB);
	vt_model_account(&model);

	struct vt_model_ledger_device *l = report_add_ledger(&model, 0);

	l->claimed[VT_CLAIMER_LIBPOOLS + VT_LIBPOOL_CUPY].bytes = GIB;
	assert_true(vt_advise(&model));
	check_text(need(VT_ADVICE_LIBRARY), "library", "CuPy");
	assert_int_equal(number(need(VT_ADVICE_LIBRARY), "library_bytes"), GIB);
	end();
}

/* The models of healthy processes. */
static void test_healthy(void **state)
{
	static const char *const names[] = { "pools", "no-cuda", "many-threads", "empty",
					     "no-pytorch" };

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		assert_true(report_model_build(&model, names[i]));
		assert_true(vt_advise(&model));
		if (model.advice.items.n > 0)
			fail_msg("%s has advice: %s", names[i],
				 vt_advice_rule_name(model.advice.items.data[0].rule));
		vt_model_deinit(&model);
	}
}

/* ---- files ---- */

static char *to_json(const struct vt_model *from, size_t *n)
{
	struct vt_writer_options options = { 0 };
	char *text = NULL;
	FILE *file = open_memstream(&text, n);

	assert_non_null(file);
	assert_null(vt_write_report_json(from, &options, file));
	fclose(file);
	return text;
}

/* The part of a document about advice. */
static char *advice_part(char *text)
{
	char *begin_of_part = strstr(text, "\"advice\":"),
	     *end_of_part = strstr(text, "\"diagnostics\":");

	assert_true(begin_of_part && end_of_part && begin_of_part < end_of_part);
	*end_of_part = '\0';
	return begin_of_part;
}

/* A saved report shows the same: also with a name that nobody may trust. */
static void test_saved(void **state)
{
	struct vt_advise a = { .model = &model };
	struct vt_model again;
	struct vt_error *err;
	char *first, *second, *copy;
	size_t n = 0, m = 0;

	(void)state;
	begin();
	add_full(10 * MIB);
	add_large_pieces(4, 0);
	fail_request(600 * MIB, 10 * MIB, 4 * GIB);
	advise();
	vt_advise_text(&a, &model.advice.items.data[0], "name", "\033[2J\xff\"\n");
	first = to_json(&model, &n);
	copy = strdup(first);
	vt_model_init(&again);
	err = vt_report_load_text(first, n, &again);
	if (err)
		fail_msg("%s", err->message);
	second = to_json(&again, &m);
	assert_string_equal(advice_part(second), advice_part(copy));
	assert_non_null(strstr(copy, "expandable"));
	free(first);
	free(second);
	free(copy);
	vt_model_deinit(&again);
	vt_model_deinit(&model);
}

static struct vt_model_xid *add_xid(uint32_t code, enum vt_fault_owner owner)
{
	struct vt_model_xid *xid = vt_vec_append(&model.faults.xids);

	assert_non_null(xid);
	*xid = (struct vt_model_xid){
		.code = code,
		.owner = owner,
		.pid = owner == VT_FAULT_NOBODYS ? 0 :
		       owner == VT_FAULT_OURS    ? 4711 :
						   672,
		.name = "python3",
		.pci = "0000:1B:00",
		.device = 0,
		.text = "MMU Fault: ENGINE GRAPHICS",
		.n = 1,
		.first = { .tv_sec = 1000 },
		.last = { .tv_sec = 1000 },
	};
	model.faults.state = VT_FAULTS_READ;
	model.when.tv_sec = 1125;
	return xid;
}

static const struct vt_model_headline *headline(const char *code)
{
	for (size_t i = 0; i < model.headlines.n; i++)
		if (!strcmp(model.headlines.data[i].code, code))
			return &model.headlines.data[i];
	return NULL;
}

static void test_context_lost(void **state)
{
	const struct vt_model_advice *advice;

	(void)state;
	begin();
	add_xid(45, VT_FAULT_OURS);
	add_xid(31, VT_FAULT_OURS); /* the cause of the other */
	advise();
	advice = need(VT_ADVICE_CONTEXT_LOST);
	assert_true(advice->alarm && advice->certainty == VT_SURE_CERTAIN);
	assert_int_equal(number(advice, "xid"), 31);
	assert_int_equal(number(advice, "ago_seconds"), 125);
	check_text(advice, "fault", "GPU memory page fault");
	assert_int_equal(advice->remedy, VT_REMEDY_DEBUG_KERNEL);
	check_next(0, "CUDA_LAUNCH_BLOCKING=1");
	assert_true(headline("context-lost")->alarm);
	assert_string_equal(
		headline("context-lost")->text,
		"this process has lost its CUDA context: Xid 31 (GPU memory page fault) on GPU 0, 2 min ago");
	assert_null(find(VT_ADVICE_GPU_FAULT));
	end();

	begin();
	add_xid(94, VT_FAULT_OURS);
	advise();
	assert_int_equal(need(VT_ADVICE_CONTEXT_LOST)->remedy, VT_REMEDY_RESTART);
	end();

	/* Of others, of nobody, of a code that costs no context, of one that is not known. */
	begin();
	add_xid(31, VT_FAULT_OTHERS);
	add_xid(43, VT_FAULT_UNKNOWN);
	add_xid(31, VT_FAULT_NOBODYS);
	add_xid(63, VT_FAULT_OURS);
	add_xid(9999, VT_FAULT_OURS);
	advise();
	assert_null(find(VT_ADVICE_CONTEXT_LOST));
	assert_null(find(VT_ADVICE_GPU_FAULT));
	assert_null(headline("context-lost"));
	assert_null(headline("gpu-fault"));
	end();
}

/* The log cannot be read, or it is not known whose pids it has: then the driver's answers tell. */
static void test_context_likely_lost(void **state)
{
	const struct vt_model_advice *advice;

	(void)state;
	begin();
	model.ledger.known = model.ledger.by_attributes = true;
	advise();
	advice = need(VT_ADVICE_CONTEXT_LOST);
	assert_int_equal(advice->certainty, VT_SURE_LIKELY);
	assert_false(has(advice, "xid"));
	end();

	begin();
	model.ledger.known = model.ledger.by_attributes = true;
	add_xid(43, VT_FAULT_UNKNOWN);
	advise();
	advice = need(VT_ADVICE_CONTEXT_LOST);
	assert_int_equal(advice->certainty, VT_SURE_LIKELY);
	assert_int_equal(number(advice, "xid"), 43);
	end();

	begin();
	model.ledger.known = model.ledger.by_attributes = true;
	model.ledger.fault = 719;
	advise();
	need(VT_ADVICE_CONTEXT_LOST);
	end();

	/* A context that the program has destroyed (cudaDeviceReset). */
	begin();
	model.ledger.known = model.ledger.by_attributes = true;
	model.ledger.fault = 709;
	advise();
	assert_null(find(VT_ADVICE_CONTEXT_LOST));
	end();

	begin();
	model.ledger.known = model.ledger.by_attributes = true;
	add_xid(43, VT_FAULT_UNKNOWN)->name = "another";
	advise();
	assert_false(has(need(VT_ADVICE_CONTEXT_LOST), "xid"));
	end();
}

static void test_gpu_fault(void **state)
{
	const struct vt_model_advice *advice;

	(void)state;
	begin();
	add_xid(79, VT_FAULT_NOBODYS);
	add_xid(48, VT_FAULT_NOBODYS);
	advise();
	advice = need(VT_ADVICE_GPU_FAULT);
	assert_true(advice->alarm);
	assert_int_equal(number(advice, "xid"), 79);
	assert_int_equal(advice->remedy, VT_REMEDY_REBOOT);
	assert_true(headline("gpu-fault")->alarm);
	end();

	begin();
	add_xid(95, VT_FAULT_OURS);
	advise();
	need(VT_ADVICE_CONTEXT_LOST);
	assert_int_equal(need(VT_ADVICE_GPU_FAULT)->remedy, VT_REMEDY_RESET_GPU);
	end();

	begin();
	add_xid(109, VT_FAULT_OTHERS);
	advise();
	advice = need(VT_ADVICE_GPU_FAULT);
	assert_false(advice->alarm);
	assert_int_equal(advice->certainty, VT_SURE_POSSIBLE);
	assert_null(headline("gpu-fault"));
	end();
}

static struct vt_usage_health *add_gpu(bool ours)
{
	struct vt_model_gpu *gpu = vt_vec_append(&model.usage.gpus);

	assert_non_null(gpu);
	*gpu = (struct vt_model_gpu){
		.uuid = "", .pci = "", .name = "", .ordinal = -1, .parent = -1, .ours_known = true
	};
	gpu->is_ours = ours;
	if (ours)
		gpu->ordinal = 0;
	return &gpu->health;
}

static void test_health(void **state)
{
	const struct vt_model_advice *advice;

	(void)state;
	begin();
	*add_gpu(true) = (struct vt_usage_health){ .known = VT_HEALTH_ECC_NOW | VT_HEALTH_REMAPPED,
						   .ecc_now = 3,
						   .remap_failed = 1 };
	advise();
	advice = need(VT_ADVICE_GPU_FAULT);
	assert_true(advice->alarm && advice->certainty == VT_SURE_CERTAIN);
	assert_int_equal(advice->device, 0);
	check_words(
		vt_advice_evidence, advice,
		"3 uncorrected errors of its memory since the last reset; remapping a row of its memory failed");
	assert_true(headline("gpu-fault")->alarm);
	end();

	begin();
	*add_gpu(true) =
		(struct vt_usage_health){ .known = VT_HEALTH_RETIRED, .retire_pending = 1 };
	advise();
	assert_false(need(VT_ADVICE_GPU_FAULT)->alarm);
	assert_null(headline("gpu-fault"));
	end();

	begin();
	*add_gpu(true) = (struct vt_usage_health){
		.known = VT_HEALTH_SLOW | VT_HEALTH_TEMPERATURE | VT_HEALTH_POWER |
			 VT_HEALTH_CLOCK | VT_HEALTH_CLOCK_LIMIT,
		.slow = 0x8 | 0x40,
		.celsius = 91,
		.milliwatt = 310500,
		.sm_mhz = 345,
		.sm_mhz_limit = 1980,
	};
	advise();
	advice = need(VT_ADVICE_THROTTLED);
	assert_true(advice->alarm);
	check_words(vt_advice_verdict, advice,
		    "GPU 0: the hardware holds its clocks down: its temperature");
	check_words(vt_advice_evidence, advice, "91 °C, 310 W, 345 of 1,980 MHz");
	assert_true(headline("throttled")->alarm);
	end();

	/* Healthy: idle, power cap, by the driver for its temperature; errors of another life. */
	begin();
	*add_gpu(true) = (struct vt_usage_health){ .known = VT_HEALTH_ALL,
						   .slow = 0x1 | 0x2 | 0x4 | 0x20,
						   .ecc_ever = 7,
						   .rows_remapped = 2 };
	*add_gpu(false) = (struct vt_usage_health){
		.known = VT_HEALTH_ALL, .slow = 0x40, .ecc_now = 1, .remap_failed = 1
	};
	advise();
	assert_null(find(VT_ADVICE_GPU_FAULT));
	assert_null(find(VT_ADVICE_THROTTLED));
	assert_null(headline("gpu-fault"));
	assert_null(headline("throttled"));
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_stopped),
		cmocka_unit_test(test_launcher),
		cmocka_unit_test(test_context_lost),
		cmocka_unit_test(test_context_likely_lost),
		cmocka_unit_test(test_gpu_fault),
		cmocka_unit_test(test_health),
		cmocka_unit_test(test_deadlock),
		cmocka_unit_test(test_stuck),
		cmocka_unit_test(test_stuck_in_stream),
		cmocka_unit_test(test_waits),
		cmocka_unit_test(test_host),
		cmocka_unit_test(test_pinned),
		cmocka_unit_test(test_growth),
		cmocka_unit_test(test_fragmented),
		cmocka_unit_test(test_expandable),
		cmocka_unit_test(test_max_split_size),
		cmocka_unit_test(test_elsewhere),
		cmocka_unit_test(test_limited),
		cmocka_unit_test(test_others),
		cmocka_unit_test(test_cache_kept),
		cmocka_unit_test(test_cache_in_pieces),
		cmocka_unit_test(test_cache_after_error),
		cmocka_unit_test(test_past_oom),
		cmocka_unit_test(test_awaiting),
		cmocka_unit_test(test_mig),
		cmocka_unit_test(test_library),
		cmocka_unit_test(test_healthy),
		cmocka_unit_test(test_saved),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
