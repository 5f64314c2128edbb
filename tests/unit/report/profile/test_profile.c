/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stage between a model and the formats of profiles, and what the formats make of it. What the
 * files say is read here by walkers' own reader of pprof's format (model/jax.c), which knows
 * nothing of the writer; real readers are in tests/functional/profiles.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "model/jax.h"
#include "report/profile/building.h"
#include "report/profile/formats.h"
#include "report/profile/memory.h"
#include "report/profile/protobuf.h"
#include "report/profile/stacks.h"
#include "report/profile/threads.h"
#include "unit/report/report_models.h"

static char *print(vt_write_fn *write, const void *what, size_t *n)
{
	struct vt_writer_options options = { 0 };
	char *text = NULL;
	FILE *file = open_memstream(&text, n);

	assert_non_null(file);
	assert_null(write(what, &options, file));
	fclose(file);
	return text;
}

/* ---- protobuf ---- */

static void test_varints(void **state)
{
	static const struct {
		uint64_t value;
		size_t n;
		uint8_t bytes[10];
	} all[] = {
		{ 0, 1, { 0 } },
		{ 1, 1, { 1 } },
		{ 127, 1, { 0x7f } },
		{ 128, 2, { 0x80, 0x01 } },
		{ 300, 2, { 0xac, 0x02 } },
		{ UINT64_C(1) << 63, 10, { 128, 128, 128, 128, 128, 128, 128, 128, 128, 1 } },
		{ UINT64_MAX, 10, { 255, 255, 255, 255, 255, 255, 255, 255, 255, 1 } },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct vt_proto proto = { 0 };

		vt_proto_item(&proto, all[i].value);
		assert_int_equal(proto.n, all[i].n);
		assert_memory_equal(proto.data, all[i].bytes, proto.n);
		vt_proto_deinit(&proto);
	}
}

static void test_messages(void **state)
{
	static const uint8_t bytes[] = { 0x08, 0x96, 0x01, 0x12, 0x00, 0x1a, 0x02, 'h', 'i' };
	struct vt_proto inner = { 0 }, outer = { 0 };

	(void)state;
	vt_proto_uint(&inner, 1, 150);
	vt_proto_uint(&inner, 7, 0); /* what readers take a missing number for */
	vt_proto_text(&inner, 2, "");
	vt_proto_text(&inner, 3, "hi");
	assert_int_equal(inner.n, sizeof(bytes));
	assert_memory_equal(inner.data, bytes, sizeof(bytes));
	vt_proto_message(&outer, 15, &inner);
	assert_int_equal(outer.n, sizeof(bytes) + 2);
	assert_int_equal(outer.data[0], 15 << 3 | 2);
	assert_int_equal(outer.data[1], sizeof(bytes));
	vt_proto_deinit(&inner);
	vt_proto_deinit(&outer);
}

/* ---- texts, frames, stacks ---- */

static void test_texts_are_clean_and_once(void **state)
{
	static const char *const all[] = { "plain", "\x1b[31m", "ключ", "\xff", "" };
	static const char *const clean[] = { "plain", "\\x1b[31m", "ключ", "\\xff", "" };
	struct vt_texts texts;

	(void)state;
	vt_texts_init(&texts);
	for (int again = 0; again < 2; again++)
		for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
			assert_string_equal(vt_texts_get(&texts, vt_texts_add(&texts, all[i])),
					    clean[i]);
	assert_int_equal(texts.list.n, sizeof(all) / sizeof(all[0]));
	assert_int_equal(vt_texts_add(&texts, NULL), 0);
	assert_int_equal(vt_texts_addn(&texts, "plainer", 5), vt_texts_add(&texts, "plain"));
	assert_false(texts.failed);
	vt_texts_deinit(&texts);
}

static uint32_t stack_of(struct vt_profile *profile, const char *words)
{
	uint32_t at = VT_PROFILE_ROOT;
	char *copy = strdup(words), *rest = copy;

	for (char *word; (word = strsep(&rest, " "));)
		at = vt_profile_call(profile, at, vt_profile_word(profile, word));
	free(copy);
	return at;
}

static void add(struct vt_profile *profile, uint32_t group, const char *words, uint64_t bytes)
{
	struct vt_profile_sample sample = { .group = group, .count = 1, .bytes = bytes };

	sample.node = stack_of(profile, words);
	vt_profile_add(profile, &sample);
}

/* Two groups, of which one repeats; what is equal twice; what is beside. */
static void fill(struct vt_profile *profile)
{
	struct vt_profile_sample beside = { .beside = 1, .count = 1, .bytes = 1000 };
	uint32_t one = vt_profile_group(profile, vt_profile_text(profile, "one"), false);
	uint32_t two = vt_profile_group(profile, vt_profile_text(profile, "two"), false);
	uint32_t again = vt_profile_group(profile, vt_profile_text(profile, "again"), true);

	profile->name = vt_profile_text(profile, "all");
	add(profile, one, "a b", 1);
	add(profile, one, "a c", 20);
	add(profile, one, "d", 300);
	add(profile, one, "a b", 2);
	add(profile, one, "a", 7);
	add(profile, two, "a c", 5);
	add(profile, again, "e", 9999);
	beside.group = one;
	beside.node = stack_of(profile, "f");
	vt_profile_add(profile, &beside);
	assert_false(vt_profile_failed(profile));
}

static void test_folded(void **state)
{
	struct vt_profile profile;
	size_t n = 0;
	char *text;

	(void)state;
	vt_profile_init(&profile, VT_PROFILE_BYTES);
	fill(&profile);
	text = print(vt_write_profile_folded, &profile, &n);
	assert_string_equal(text, "d 300\na 7\na;c 25\na;b 3\n");
	free(text);
	profile.roots = true;
	text = print(vt_write_profile_folded, &profile, &n);
	assert_string_equal(text, "one;d 300\none;a 7\none;a;c 20\none;a;b 3\ntwo;a;c 5\n");
	free(text);
	vt_profile_deinit(&profile);
}

/* The order of a flame graph; a group is a profile. */
static void test_stacks_in_order(void **state)
{
	static const struct {
		uint32_t group;
		uint64_t weight;
	} want[] = {
		{ 0, 1000 }, { 0, 300 }, { 0, 7 }, { 0, 20 }, { 0, 3 }, { 1, 5 }, { 2, 9999 }
	};
	struct vt_profile_stacks stacks;
	struct vt_profile profile;
	size_t n = 0;

	(void)state;
	vt_profile_init(&profile, VT_PROFILE_BYTES);
	fill(&profile);
	assert_true(vt_profile_stacks_init(&stacks, &profile, false));
	assert_int_equal(stacks.list.n, sizeof(want) / sizeof(want[0]));
	for (size_t i = 0; i < stacks.list.n; i++) {
		assert_int_equal(stacks.list.data[i].group, want[i].group);
		assert_int_equal(stacks.list.data[i].weight, want[i].weight);
	}
	assert_non_null(vt_profile_way(&stacks, &profile, stacks.list.data[3].node, &n));
	assert_int_equal(n, 2);
	vt_profile_stacks_deinit(&stacks);
	vt_profile_deinit(&profile);
}

static void test_threads_count(void **state)
{
	struct vt_profile profile;
	size_t n = 0;
	char *text;

	(void)state;
	vt_profile_init(&profile, VT_PROFILE_THREADS);
	fill(&profile);
	text = print(vt_write_profile_folded, &profile, &n);
	assert_string_equal(text, "a 1\na;b 2\na;c 2\nd 1\n");
	free(text);
	text = print(vt_write_profile_speedscope, &profile, &n);
	assert_non_null(strstr(text, "\"unit\": \"none\""));
	free(text);
	vt_profile_deinit(&profile);
}

/* ---- pprof, as the reader of JAX's profiles understands it ---- */

static uint8_t *unpack(const char *packed, size_t n, size_t *size)
{
	enum { ROOM = 1 << 22 };
	uint8_t *data = malloc(ROOM);
	z_stream stream = { .next_in = (unsigned char *)packed,
			    .avail_in = (uInt)n,
			    .next_out = data,
			    .avail_out = ROOM };

	assert_non_null(data);
	assert_int_equal(inflateInit2(&stream, 15 + 16), Z_OK);
	assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
	*size = ROOM - stream.avail_out;
	inflateEnd(&stream);
	return data;
}

/* What stands for blocks that were not read. */
static uint64_t unread_bytes(const struct vt_model_allocator *a)
{
	int64_t counted = a->result.stats.allocated_bytes.current;

	return a->result.have_stats && a->result.result != VT_WALK_REFUSED && counted > 0 ?
		       (uint64_t)counted :
		       1;
}

static void read_back(const char *name)
{
	struct vt_model model;
	struct vt_model_jax jax = { 0 };
	struct vt_arena arena = { 0 };
	uint64_t bytes = 0, count = 0, want = 0, want_count = 0;
	size_t n = 0, size;
	uint8_t *data;
	char *packed;

	assert_true(report_model_build(&model, name));
	packed = print(vt_write_report_pprof, &model, &n);
	data = unpack(packed, n, &size);
	assert_null(vt_jax_profile(&jax, &arena, data, size));
	for (size_t i = 0; i < jax.sites.n; i++) {
		bytes += jax.sites.data[i].bytes;
		count += jax.sites.data[i].count;
		assert_true(jax.sites.data[i].n_frames > 0);
	}
	for (size_t i = 0; i < model.allocators.n; i++) {
		const struct vt_model_allocator *a = &model.allocators.data[i];

		want += a->exact ? a->allocated_bytes : unread_bytes(a);
		want_count += a->exact ? a->allocated_blocks : 1;
	}
	if (!model.allocators.n && model.torch_state == VT_ALLOCATOR_REFUSED) {
		want++;
		want_count++;
	}
	for (size_t i = 0; i < model.driver_blocks.n && !model.ledger.known; i++)
		if (model.driver_blocks.data[i].on_device &&
		    !model.driver_blocks.data[i].of_pytorch) {
			want += model.driver_blocks.data[i].size;
			want_count++;
		}
	assert_int_equal(bytes, want);
	assert_int_equal(count, want_count);
	free(data);
	free(packed);
	vt_vec_deinit(&jax.sites);
	vt_arena_deinit(&arena);
	vt_model_deinit(&model);
}

static void test_pprof_adds_up(void **state)
{
	(void)state;
	for (size_t i = 0; report_model_names[i]; i++) {
		struct vt_model model;
		bool listed;

		assert_true(report_model_build(&model, report_model_names[i]));
		listed = model.ledger.known || model.libpools.pools.n;
		vt_model_deinit(&model);
		if (!listed) /* what other libraries have is compared by functional tests */
			read_back(report_model_names[i]);
	}
}

/* What was not read is a stack, and the name says that there is less. */
static void test_partial_is_said(void **state)
{
	static const char *const whole_name = "(partial)\"";
	struct vt_model model;
	size_t n = 0;
	char *text;

	(void)state;
	assert_true(report_model_build(&model, "training"));
	assert_true(model.allocators.n > 0 && model.allocators.data[0].exact);
	model.completeness = VT_COMPLETE;
	text = print(vt_write_report_speedscope, &model, &n);
	assert_null(strstr(text, whole_name));
	free(text);
	model.completeness = VT_PARTIAL;
	for (size_t i = 0; i < model.allocators.n; i++) {
		model.allocators.data[i].exact = false;
		model.allocators.data[i].result.result = VT_WALK_UNSTABLE;
		model.allocators.data[i].result.have_stats = true;
		model.allocators.data[i].result.stats.allocated_bytes.current = 12345;
	}
	text = print(vt_write_report_speedscope, &model, &n);
	assert_non_null(strstr(text, whole_name));
	free(text);
	text = print(vt_write_report_folded, &model, &n);
	assert_non_null(strstr(text, "[not here: PyTorch's blocks: "));
	assert_non_null(strstr(text, "] 12345\n"));
	free(text);
	vt_model_deinit(&model);
}

static void test_unread_processes(void **state)
{
	struct vt_stacks_result result = {
		.pid = 4711, .err = vt_error_create(VT_ERR_PERMISSION, "it is another user's")
	};
	struct vt_stacks_document document = { .results = &result, .n = 1, .tool_version = "0" };
	size_t n = 0;
	char *text = print(vt_write_stacks_folded, &document, &n);

	(void)state;
	assert_string_equal(text, "[not read: it is another user's] 1\n");
	free(text);
	text = print(vt_write_stacks_speedscope, &document, &n);
	assert_non_null(strstr(text, "process (4711)"));
	free(text);
	vt_error_destroy(result.err);
}

/* Each part of a path has the path up to it: all of them together stay small. */
static void test_long_paths(void **state)
{
	char path[20001];
	struct vt_model_owner owner = {
		.category = VT_CATEGORY_PARAMETER, .name = "w", .module = path, .variable = ""
	};
	struct vt_profile profile;
	size_t sum = 0;

	(void)state;
	memset(path, 'x', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	for (size_t i = 600; i < sizeof(path) - 1; i += 600)
		path[i] = '.';
	vt_profile_init(&profile, VT_PROFILE_BYTES);
	vt_owner_path(&profile, VT_PROFILE_ROOT, &owner, false);
	assert_false(vt_profile_failed(&profile));
	for (size_t i = 0; i < profile.texts.list.n; i++)
		sum += strlen(vt_texts_get(&profile.texts, (uint32_t)i));
	assert_in_range(sum, sizeof(path) - 1, 3 * sizeof(path));
	vt_profile_deinit(&profile);
}

/* The mapping of code at the last address ends there, not at 0. */
static void test_last_address(void **state)
{
	struct vt_profile_sample sample = { .count = 1, .bytes = 1 };
	struct vt_profile profile;
	unsigned char data[4096];
	z_stream stream = { 0 };
	size_t n = 0, at;
	char *text;

	(void)state;
	vt_profile_init(&profile, VT_PROFILE_BYTES);
	sample.group = vt_profile_group(&profile, vt_profile_text(&profile, "g"), false);
	sample.node = vt_profile_call(
		&profile, VT_PROFILE_ROOT,
		vt_profile_frame(&profile, &(struct vt_profile_frame){
						   .name = vt_profile_text(&profile, "f"),
						   .module = vt_profile_text(&profile, "lib.so"),
						   .pc = UINT64_MAX }));
	vt_profile_add(&profile, &sample);
	text = print(vt_write_profile_pprof, &profile, &n);
	assert_int_equal(inflateInit2(&stream, 15 + 16), Z_OK);
	stream.next_in = (unsigned char *)text;
	stream.avail_in = (unsigned int)n;
	stream.next_out = data;
	stream.avail_out = sizeof(data);
	assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
	inflateEnd(&stream);
	n = sizeof(data) - stream.avail_out;
	for (at = 0; at + 11 <= n; at++) /* field 3 of a mapping, memory_limit: all bits set */
		if (!memcmp(data + at, "\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11))
			break;
	/* The same bytes are field 3 of a location, its address: there must be two. */
	for (at++; at + 11 <= n; at++)
		if (!memcmp(data + at, "\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11))
			break;
	assert_true(at + 11 <= n);
	free(text);
	vt_profile_deinit(&profile);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_varints),
		cmocka_unit_test(test_messages),
		cmocka_unit_test(test_texts_are_clean_and_once),
		cmocka_unit_test(test_folded),
		cmocka_unit_test(test_stacks_in_order),
		cmocka_unit_test(test_threads_count),
		cmocka_unit_test(test_pprof_adds_up),
		cmocka_unit_test(test_partial_is_said),
		cmocka_unit_test(test_unread_processes),
		cmocka_unit_test(test_long_paths),
		cmocka_unit_test(test_last_address),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
