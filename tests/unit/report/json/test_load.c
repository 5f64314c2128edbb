/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saved reports read again: what the JSON writer makes of the model that was read is what it made
 * of the first one. And what is no report, or is one no more.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "model/notices.h"
#include "report/json/load.h"
#include "report/state_words.h"
#include "report/writer.h"
#include "unit/report/report_models.h"

struct text {
	char *data;
	size_t n;
};

static struct text to_json(const struct vt_model *model)
{
	struct vt_writer_options options = { 0 };
	struct text text = { 0 };
	FILE *file = open_memstream(&text.data, &text.n);

	assert_non_null(file);
	assert_null(vt_write_report_json(model, &options, file));
	fclose(file);
	return text;
}

static struct text json_of(const char *name)
{
	struct vt_model model;
	struct text text;

	assert_true(report_model_build(&model, name));
	text = to_json(&model);
	vt_model_deinit(&model);
	return text;
}

/* Keys that are not read, wherever they are. */
static const char *const not_read[] = {
	"consistency", "passes",       "dropped_blocks",  "waits",  "lock", "walk_ns", "read_ns",
	"statistics",  "memory_pools", "context_threads", "user",   "uid",  "threads", "state",
	"tracer",      "uses_cuda",    "why_no_memory",   "locals",
};

/* Without those keys; blocks and groups keep their state. */
static void strip(json_t *value)
{
	const char *key;
	json_t *member;
	size_t i;

	for (i = 0; json_is_object(value) && i < sizeof(not_read) / sizeof(not_read[0]); i++)
		if (strcmp(not_read[i], "state") != 0 || json_object_get(value, "command_line"))
			json_object_del(value, not_read[i]);
	json_object_foreach(value, key, member) strip(member);
	json_array_foreach(value, i, member) strip(member);
}

static size_t compare_part(json_t *first, json_t *second, const char *path)
{
	json_t *a = json_object_get(first, path), *b = json_object_get(second, path);
	char *text_a, *text_b;

	assert_non_null(a);
	assert_non_null(b);
	if (json_is_null(a) && json_is_null(b))
		return 0;
	/* what is no number of seconds is unknown when it is read */
	if (json_is_null(json_object_get(a, "uptime_s")))
		json_object_del(b, "uptime_s"), json_object_del(a, "uptime_s");
	strip(a);
	strip(b);
	text_a = json_dumps(a, JSON_ENCODE_ANY);
	text_b = json_dumps(b, JSON_ENCODE_ANY);
	assert_string_equal(text_a, text_b);

	size_t n = strlen(text_a);

	free(text_a);
	free(text_b);
	return n;
}

/* Bytes that were compared; 0 when the report has numbers that JSON readers do not have. */
static size_t round_trip(const char *name)
{
	static const char *const parts[] = { "schema",  "tool_version", "time", "completeness",
					     "process", "diagnostics",  "cuda", "ledger" };
	static const char *const torch_parts[] = { "method", "state", "allocators", "recorded" };
	struct text text = json_of(name), again;
	struct vt_model model;
	json_t *first, *second;
	size_t n = 0;

	vt_model_init(&model);

	struct vt_error *err = vt_report_load_text(text.data, text.n, &model);

	if (err)
		print_message("%s: %s\n", name, err->message);
	assert_null(err);
	again = to_json(&model);
	first = json_loadb(text.data, text.n, 0, NULL);
	second = json_loadb(again.data, again.n, 0, NULL);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		n += compare_part(first, second, parts[i]);
	for (size_t i = 0; i < sizeof(torch_parts) / sizeof(torch_parts[0]); i++)
		n += compare_part(json_object_get(first, "pytorch"),
				  json_object_get(second, "pytorch"), torch_parts[i]);
	json_decref(first);
	json_decref(second);
	vt_model_deinit(&model);
	free(text.data);
	free(again.data);
	return n;
}

static void test_round_trip(void **state)
{
	size_t n = 0;

	(void)state;
	for (size_t i = 0; report_model_names[i]; i++)
		n += round_trip(report_model_names[i]);
	assert_true(n > 1000000);
}

/* What the writer makes of the model, with another text in the place of one that is there once. */
static void load_instead(const struct vt_model *model, const char *that, const char *other,
			 struct vt_model *loaded)
{
	struct text text = to_json(model);
	char *at = strstr(text.data, that), *changed = NULL;

	assert_non_null(at);
	assert_null(strstr(at + 1, that));
	assert_true(asprintf(&changed, "%.*s%s%s", (int)(at - text.data), text.data, other,
			     at + strlen(that)) > 0);
	vt_model_init(loaded);
	assert_null(vt_report_load_text(changed, strlen(changed), loaded));
	free(changed);
	free(text.data);
}

static void test_stages(void **state)
{
	struct vt_model model, loaded;

	(void)state;
	vt_model_init(&model);
	for (unsigned int i = 0; i < VT_N_STAGES; i++) {
		vt_model_diag(&model, VT_DIAG_NOTE, (enum vt_stage)i, "of-stage", "number %u", i);
		for (unsigned int k = 0; k < i; k++)
			assert_string_not_equal(vt_stage_name((enum vt_stage)i),
						vt_stage_name((enum vt_stage)k));
	}
	load_instead(&model, "\"stage\": \"pinned\"", "\"stage\": \"of next year\"", &loaded);
	assert_int_equal(loaded.diags.n, VT_N_STAGES);
	for (unsigned int i = 0; i < VT_N_STAGES; i++)
		assert_int_equal(loaded.diags.data[i].stage,
				 i == VT_STAGE_PINNED ? VT_STAGE_OTHER : i);
	vt_model_deinit(&loaded);
	vt_model_deinit(&model);
}

/* Each code and each why comes back, with all that a notice has. */
static void test_notices(void **state)
{
	struct vt_model model, loaded;
	struct text first, second;

	(void)state;
	vt_model_init(&model);
	model.owners.state = VT_OWNERS_READ;
	model.owners.collector_known = true;
	for (unsigned int i = 0; i < VT_N_NOTICES; i++) {
		struct vt_model_notice *notice = vt_vec_append(&model.owners.notices);

		assert_non_null(notice);
		*notice = (struct vt_model_notice){
			.code = (uint8_t)i,
			.why = (uint8_t)(i % VT_N_WHYS),
			.certain = i % 2,
			.bytes = 1000 + i,
			.part_bytes = 100 + i,
			.count = i,
			.versions = 2 * i,
			.name = "losses in main (a.py:3)",
			.other = i % 2 ? "model" : "",
			.type = "",
		};
		for (unsigned int k = 0; k < i; k++)
			assert_string_not_equal(vt_notice_code((enum vt_notice)i),
						vt_notice_code((enum vt_notice)k));
	}
	first = to_json(&model);
	vt_model_init(&loaded);
	assert_null(vt_report_load_text(first.data, first.n, &loaded));
	assert_int_equal(loaded.owners.notices.n, VT_N_NOTICES);
	assert_true(loaded.owners.collector_known && !loaded.owners.collector_enabled);
	second = to_json(&loaded);

	json_t *a = json_loadb(first.data, first.n, 0, NULL);
	json_t *b = json_loadb(second.data, second.n, 0, NULL);

	for (size_t i = 0; i < VT_N_NOTICES; i++)
		assert_true(json_equal(
			json_array_get(json_object_get(json_object_get(a, "owners"), "notices"), i),
			json_array_get(json_object_get(json_object_get(b, "owners"), "notices"),
				       i)));
	assert_non_null(json_array_get(json_object_get(json_object_get(a, "owners"), "notices"),
				       VT_N_NOTICES - 1));
	json_decref(a);
	json_decref(b);
	vt_model_deinit(&loaded);
	vt_model_deinit(&model);
	free(first.data);
	free(second.data);
}

static void test_allocator_states(void **state)
{
	struct vt_model model, loaded;

	(void)state;
	vt_model_init(&model);
	for (unsigned int i = 0; i < VT_N_ALLOCATOR_STATES; i++) {
		const char *code = vt_allocator_state_code((enum vt_allocator_state)i);

		model.torch_state = (enum vt_allocator_state)i;
		assert_int_equal(code != NULL, i != VT_ALLOCATOR_UNKNOWN);
		assert_int_equal(vt_allocator_state_words(model.torch_state) != NULL,
				 i != VT_ALLOCATOR_UNKNOWN);
		for (unsigned int k = VT_ALLOCATOR_UNKNOWN + 1; k < i; k++)
			assert_string_not_equal(
				code, vt_allocator_state_code((enum vt_allocator_state)k));
		load_instead(&model, "\"tool_version\"", "\"tool_version\"", &loaded);
		assert_int_equal(loaded.torch_state, i);
		vt_model_deinit(&loaded);
	}
	/* words do not count where there is a code, and a code of next year is not known */
	model.torch_state = VT_ALLOCATOR_PLUGGABLE;
	load_instead(&model, "\"state\": \"pluggable\"", "\"state\": \"native\"", &loaded);
	assert_int_equal(loaded.torch_state, VT_ALLOCATOR_PLUGGABLE);
	vt_model_deinit(&loaded);
	load_instead(&model, "\"state_code\": \"pluggable\"", "\"state_code\": \"of next year\"",
		     &loaded);
	assert_int_equal(loaded.torch_state, VT_ALLOCATOR_UNKNOWN);
	vt_model_deinit(&loaded);
	vt_model_deinit(&model);
}

static void test_recordings(void **state)
{
	struct vt_model model, loaded;

	(void)state;
	vt_model_init(&model);
	for (unsigned int i = 0; i < VT_N_RECORDINGS; i++) {
		const char *code = vt_recording_code((enum vt_recording)i);

		model.recorder.state = (enum vt_recording)i;
		assert_int_equal(code != NULL, i != VT_RECORDING_NONE);
		assert_int_equal(vt_recording_words(model.recorder.state) != NULL,
				 i != VT_RECORDING_NONE);
		for (unsigned int k = VT_RECORDING_NONE + 1; k < i; k++)
			assert_string_not_equal(code, vt_recording_code((enum vt_recording)k));
		load_instead(&model, "\"tool_version\"", "\"tool_version\"", &loaded);
		assert_int_equal(loaded.recorder.state, i);
		vt_model_deinit(&loaded);
	}
	model.recorder.state = VT_RECORDING_OTHER_VERSION;
	load_instead(&model, "\"state_code\": \"other-version\"",
		     "\"state_code\": \"of next year\"", &loaded);
	assert_int_equal(loaded.recorder.state, VT_RECORDING_UNKNOWN);
	vt_model_deinit(&loaded);
	vt_model_deinit(&model);
}

static void test_driver_kinds(void **state)
{
	struct vt_model model, loaded;

	(void)state;
	vt_model_init(&model);
	model.recorder.state = VT_RECORDING_ON;
	for (unsigned int i = 0; i < VT_N_DRIVER_KINDS; i++) {
		struct vt_model_driver_group *group = vt_vec_append(&model.driver_groups);

		assert_non_null(group);
		*group = (struct vt_model_driver_group){ .kind = (enum vt_driver_kind)i,
							 .device = -1,
							 .ages = { VT_NO_AGE, VT_NO_AGE } };
		for (unsigned int k = 0; k < i; k++)
			assert_string_not_equal(vt_driver_kind_name((enum vt_driver_kind)i),
						vt_driver_kind_name((enum vt_driver_kind)k));
	}
	load_instead(&model, "\"kind\": \"mapped\"", "\"kind\": \"of next year\"", &loaded);
	assert_int_equal(loaded.driver_groups.n, VT_N_DRIVER_KINDS);
	for (unsigned int i = 0; i < VT_N_DRIVER_KINDS; i++)
		assert_int_equal(loaded.driver_groups.data[i].kind,
				 i == VT_DRIVER_KIND_MAPPED ? VT_DRIVER_KIND_OTHER : i);
	vt_model_deinit(&loaded);
	vt_model_deinit(&model);
}

/* Word for word what 0.1.0 wrote: today's words may become others, these mean the same for ever. */
static void test_words_of_0_1_0(void **state)
{
	static const struct {
		const char *words;
		enum vt_allocator_state state;
	} allocators[] = {
		{ "\"not loaded\"", VT_ALLOCATOR_NOT_LOADED },
		{ "\"not initialised\"", VT_ALLOCATOR_NOT_INITIALISED },
		{ "\"native\"", VT_ALLOCATOR_NATIVE },
		{ "\"inherited\"", VT_ALLOCATOR_INHERITED },
		{ "\"cudaMallocAsync\"", VT_ALLOCATOR_ASYNC },
		{ "\"pluggable\"", VT_ALLOCATOR_PLUGGABLE },
		{ "\"refused\"", VT_ALLOCATOR_REFUSED },
		{ "null", VT_ALLOCATOR_UNKNOWN },
		{ "\"of another year\"", VT_ALLOCATOR_UNKNOWN },
	};
	static const struct {
		const char *words;
		enum vt_recording state;
	} recordings[] = {
		{ "on", VT_RECORDING_ON },
		{ "off", VT_RECORDING_OFF },
		{ "inherited", VT_RECORDING_INHERITED },
		{ "other version", VT_RECORDING_OTHER_VERSION },
		{ "unreadable", VT_RECORDING_UNREADABLE },
		{ "of another year", VT_RECORDING_UNKNOWN },
	};
	struct vt_model model, loaded;
	char old[200];

	(void)state;
	vt_model_init(&model);
	model.torch_state = VT_ALLOCATOR_PLUGGABLE;
	model.recorder.state = VT_RECORDING_OTHER_VERSION;
	for (size_t i = 0; i < sizeof(allocators) / sizeof(allocators[0]); i++) {
		snprintf(old, sizeof(old), "\"state\": %s", allocators[i].words);
		load_instead(&model, "\"state\": \"pluggable\",\n  \"state_code\": \"pluggable\"",
			     old, &loaded);
		assert_int_equal(loaded.torch_state, allocators[i].state);
		vt_model_deinit(&loaded);
	}
	for (size_t i = 0; i < sizeof(recordings) / sizeof(recordings[0]); i++) {
		snprintf(old, sizeof(old), "\"state\": \"%s\"", recordings[i].words);
		load_instead(&model,
			     "\"state\": \"other version\",\n  \"state_code\": \"other-version\"",
			     old, &loaded);
		assert_int_equal(loaded.recorder.state, recordings[i].state);
		vt_model_deinit(&loaded);
	}
	vt_model_deinit(&model);
}

static void refused(const char *json, size_t n, enum vt_error_code code, const char *why)
{
	struct vt_model model;
	struct vt_error *err;

	vt_model_init(&model);
	err = vt_report_load_text(json, n, &model);
	if (!err)
		print_message("not refused, which should be as: %s\n", why);
	assert_non_null(err);
	if (err->code != code || !strstr(err->message, why))
		print_message("%s\n", err->message);
	assert_int_equal(err->code, code);
	assert_non_null(strstr(err->message, why));
	vt_error_destroy(err);
	vt_model_deinit(&model);
}

static void test_other_documents(void **state)
{
	static const struct {
		const char *json, *why;
	} documents[] = {
		{ "", "not JSON" },
		{ "{", "not JSON" },
		{ "[]", "not a report" },
		{ "null", "not JSON" },
		{ "{\"schema\": 1}", "not a report" },
		{ "{\"schema\": \"vramtap-stacks\", \"schema_version\": 1}", "not a report" },
		{ "{\"schema\": \"vramtap-report\"}", "schema version is 0" },
		{ "{\"schema\": \"vramtap-report\", \"schema_version\": 2}",
		  "schema version is 2" },
		{ "{\"schema\": \"vramtap-report\", \"schema_version\": \"1\"}", "schema version" },
		{ "{\"schema\": \"vramtap-report\", \"schema_version\": 1}", "damaged" },
		{ "{\"schema\": \"vramtap-report\", \"schema\": \"vramtap-report\"}", "duplicate" },
		{ "{\"schema\": \"vramtap-report\\u0000\"}", "not JSON" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(documents) / sizeof(documents[0]); i++)
		refused(documents[i].json, strlen(documents[i].json), VT_ERR_FORMAT,
			documents[i].why);
}

/* A million brackets: the parser must not go that deep. */
static void test_depth(void **state)
{
	size_t n = 1000000;
	char *deep = malloc(n);

	(void)state;
	assert_non_null(deep);
	memset(deep, '[', n);
	refused(deep, n, VT_ERR_FORMAT, "not JSON");
	free(deep);
}

/* Empty arrays take forty times their text. */
static void test_many_small_parts(void **state)
{
	size_t n = 9000001;
	char *many = malloc(n);

	(void)state;
	assert_non_null(many);
	many[0] = '[';
	for (size_t i = 1; i < n; i += 3)
		memcpy(many + i, "[],", 3);
	many[n - 1] = ']';
	refused(many, n, VT_ERR_FORMAT, "too many small parts");
	free(many);
}

/* A report whose text was replaced once. */
static void damaged(const char *model, const char *from, const char *to, const char *why)
{
	struct text text = json_of(model);
	char *at = memmem(text.data, text.n, from, strlen(from)),
	     *changed = malloc(text.n + strlen(to) + 1);
	size_t before = (size_t)(at - text.data), n = text.n - strlen(from) + strlen(to);

	assert_non_null(at);
	assert_non_null(changed);
	memcpy(changed, text.data, before);
	memcpy(changed + before, to, strlen(to));
	memcpy(changed + before + strlen(to), at + strlen(from), text.n - before - strlen(from));
	refused(changed, n, VT_ERR_FORMAT, why);
	free(changed);
	free(text.data);
}

static void test_damage(void **state)
{
	(void)state;
	damaged("recorded", "\"bytes\": 23068672", "\"bytes\": -1", "is negative");
	damaged("recorded", "\"bytes\": 23068672", "\"bytes\": 1.5", "not a number");
	damaged("recorded", "\"bytes\": 23068672", "\"bytes\": 99999999999999999999", "too big");
	damaged("recorded", "{\"address\": \"0x7f", "{\"address\": \"7f", "hexadecimal");
	damaged("recorded", "\"state\": \"allocated\"", "\"state\": \"eaten\"", "unknown word");
	damaged("recorded", "\"backtrace\": 0", "\"backtrace\": 8", "does not exist");
	damaged("recorded", "\"backtraces\": [1,", "\"backtraces\": [1000,", "does not exist");
	damaged("recorded", "\"source\": \"pytorch\"", "\"source\": \"somebody\"", "unknown word");
	damaged("recorded", "\"frames\": [0,", "\"frames\": [4000000000,", "does not exist");
	damaged("recorded", "\"sites\": [", "\"sites\": [7,", "not an object");
	damaged("recorded", "\"devices\": [", "\"devices\": {}, \"x\": [", "not an array");
	damaged("recorded", "\"time\": \"2026", "\"time\": \"MMXXVI", "not a time");
	damaged("recorded", "\"totals\": {", "\"totals\": {}, \"x\": {", "is missing");
	damaged("recorded", "\"pid\": 41273", "\"pid\": 99999999999", "out of range");
	damaged("recorded",
		"\"largest_bytes\": ", "\"bytes\": 9223372036854775807, \"x\": ", "duplicate");
}

/* The same trace in two places would make a ring of them. */
static void test_rings(void **state)
{
	struct text text = json_of("recorded");
	char *first = memmem(text.data, text.n, "\"backtraces\": [", 15), *second;

	(void)state;
	assert_non_null(first);
	second = memmem(first + 15, text.n - (size_t)(first + 15 - text.data), "\"backtraces\": [",
			15);
	assert_non_null(second);
	second[15] = first[15];
	refused(text.data, text.n, VT_ERR_FORMAT, "another place");
	free(text.data);
}

static void test_more_bytes_than_there_are(void **state)
{
	static const char huge[] = "9223372036854775807";
	struct text text = json_of("recorded");
	char *grown = malloc(text.n + 2 * sizeof(huge)), *at = text.data, *to = grown;

	(void)state;
	assert_non_null(grown);
	at = memmem(text.data, text.n, "\"sites\": [", 10);
	assert_non_null(at);
	memcpy(grown, text.data, (size_t)(at - text.data));
	to += at - text.data;
	for (int i = 0; i < 2; i++) {
		char *bytes = memmem(at, text.n - (size_t)(at - text.data), "\"bytes\": ", 9) + 9;

		memcpy(to, at, (size_t)(bytes - at));
		to += bytes - at;
		to = stpcpy(to, huge);
		at = bytes + strspn(bytes, "0123456789");
	}
	memcpy(to, at, text.n - (size_t)(at - text.data));
	to += text.n - (size_t)(at - text.data);
	refused(grown, (size_t)(to - grown), VT_ERR_FORMAT, "impossible sizes");
	free(grown);
	free(text.data);
}

static void test_cut(void **state)
{
	struct text text = json_of("recorded");

	(void)state;
	for (size_t n = 1; n < text.n - 2; n += text.n / 50 + 1)
		refused(text.data, n, VT_ERR_FORMAT, "not JSON");
	free(text.data);
}

static void test_files(void **state)
{
	char path[] = "/tmp/vramtap-test-XXXXXX";
	struct text text = json_of("recorded");
	struct vt_model model;
	struct vt_error *err;
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text.data, text.n), text.n);
	close(fd);
	vt_model_init(&model);
	assert_null(vt_report_load(path, &model));
	assert_int_equal(model.process.pid, 41273);
	assert_string_equal(model.where.host, "node17");
	assert_string_equal(model.where.zone, "CET");
	assert_true(model.where.zone_known && model.where.utc_offset_min == 60);
	assert_int_equal(model.process.ns_pid, 7);
	assert_int_equal(model.process.local_rank, 3);
	assert_string_equal(model.process.pod, "trainer-0");
	assert_string_equal(model.process.job, "slurm 4711");
	assert_true(model.sites.n > 3);
	vt_model_deinit(&model);
	assert_int_equal(truncate(path, (off_t)text.n / 2), 0);
	err = vt_report_load(path, &model);
	assert_non_null(err);
	assert_non_null(strstr(err->message, path));
	vt_error_destroy(err);
	vt_model_deinit(&model);
	unlink(path);
	err = vt_report_load(path, &model);
	assert_int_equal(err->code, VT_ERR_OS);
	vt_error_destroy(err);
	free(text.data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_stages),
		cmocka_unit_test(test_notices),
		cmocka_unit_test(test_allocator_states),
		cmocka_unit_test(test_recordings),
		cmocka_unit_test(test_words_of_0_1_0),
		cmocka_unit_test(test_driver_kinds),
		cmocka_unit_test(test_other_documents),
		cmocka_unit_test(test_depth),
		cmocka_unit_test(test_many_small_parts),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_rings),
		cmocka_unit_test(test_more_bytes_than_there_are),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
