/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of PyTorch's flight recorder: whose numbers are whose, what is not over; and that
 * nothing else is believed. What PyTorch itself writes is read in
 * tests/functional/triage_collectives.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/flight.h"

#define NOW_NS UINT64_C(1790000000000000000)

#define CONFIG(name, desc, ranks) \
	"\"" name "\":{\"name\":\"" name "\",\"desc\":\"" desc "\",\"ranks\":\"" ranks "\"}"
#define STATUS(id, enqueued, started, completed)                           \
	"\"" id "\":{\"last_enqueued_collective\":\"" enqueued             \
	"\",\"last_started_collective\":\"" started "\",\"last_completed_" \
	"collective\":\"" completed "\"}"
#define ENTRY_AT(record, id, group, number, p2p_number, is_p2p, name, state, retired, started_ns)                              \
	"{\"record_id\":" record ",\"pg_id\":" id ",\"process_group\":[\"" group                                               \
	"\",\"d\"],\"collective_seq_id\":" number ",\"p2p_seq_id\":" p2p_number                                                \
	",\"is_p2p\":" is_p2p ",\"profiling_name\":\"" name "\",\"state\":\"" state                                            \
	"\",\"retired\":" retired                                                                                              \
	",\"time_created_ns\":1789999990000000000,\"time_discovered_started_ns\":" started_ns                                  \
	",\"time_discovered_completed_ns\":0,\"timeout_ms\":600000,\"input_sizes\":[[64,32],[8]],\"input_dtypes\":[\"Float\"," \
	"\"Long\"]}"
#define ENTRY(record, id, group, number, name, state) \
	ENTRY_AT(record, id, group, number, "0", "false", name, state, "false", "0")
#define TEXT(config, status, entries)                                             \
	"{\"version\":\"2.10\",\"pg_config\":{" config "},\"pg_status\":{" status \
	"},\"entries\":[" entries "]}"

struct read {
	struct vt_arena arena;
	struct vt_model_collectives told;
	struct vt_error *err;
};

static struct read read_text(unsigned int recorder, const char *text, bool only_active)
{
	struct read r = { 0 };

	r.err = vt_flight_parse(&vt_flight_recorders[recorder], text, strlen(text), NOW_NS,
				only_active, &r.arena, &r.told);
	return r;
}

static void forget(struct read *r)
{
	vt_error_destroy(r->err);
	vt_vec_deinit(&r->told.groups);
	vt_arena_deinit(&r->arena);
}

static const struct vt_model_process_group *group(const struct read *r, const char *name)
{
	assert_null(r->err);
	for (size_t i = 0; i < r->told.groups.n; i++)
		if (!strcmp(r->told.groups.data[i].name, name))
			return &r->told.groups.data[i];
	fail_msg("there is no group %s", name);
	return NULL;
}

static void assert_numbers(const struct vt_model_process_group *g, int enqueued, int completed,
			   unsigned int pending)
{
	assert_int_equal(g->last_enqueued, enqueued);
	assert_int_equal(g->last_completed, completed);
	assert_int_equal(g->n_pending, pending);
}

/* Statuses go by numbers that only entries tie to names. */
static void test_groups(void **state)
{
	struct read r = read_text(
		0,
		TEXT(CONFIG("0", "default_pg", "[0, 1, 2, 3]") "," CONFIG(
			     "17", "undefined", "[2, 3]") "," CONFIG("18", "x", "[9, 2]"),
		     STATUS("0", "4", "-1", "3") "," STATUS("1", "1", "-1", "1"),
		     ENTRY("0", "0", "0", "3", "nccl:all_reduce", "completed") "," ENTRY(
			     "1", "1", "17", "1", "nccl:all_gather",
			     "completed") "," ENTRY("2", "0", "0", "4", "nccl:broadcast",
						    "scheduled") "," ENTRY("3", "0", "0", "5",
									   "nccl:reduce",
									   "scheduled")),
		false);
	const struct vt_model_process_group *g;

	(void)state;
	assert_int_equal(r.told.groups.n, 3);
	assert_int_equal(r.told.told_ms, NOW_NS / 1000000);
	g = group(&r, "0");
	assert_numbers(g, 5, 3, 2); /* number 5 was called, but NCCL's function has not come back */
	assert_string_equal(g->ranks, "0-3");
	assert_string_equal(g->description, "default_pg");
	assert_string_equal(g->operation, "reduce");
	assert_string_equal(g->oldest.name, "broadcast");
	assert_int_equal(g->oldest.number, 4);
	assert_int_equal(g->oldest.started, -1);
	assert_int_equal(g->oldest.age_ms, 10000);
	assert_int_equal(g->oldest.timeout_ms, 600000);
	assert_string_equal(g->oldest.input, "[64, 32] Float, [8] Long");
	g = group(&r, "17");
	assert_numbers(g, 1, 1, 0);
	assert_string_equal(vt_flight_group_name(g), "17");
	g = group(&r, "18");
	assert_numbers(g, 0, 0, 0);
	assert_string_equal(g->ranks, "2,9");
	forget(&r);
}

/* Numbers of transfers are in the status, too, and are not those of collectives. */
static void test_transfers(void **state)
{
	static const char head[] = ENTRY("0", "0", "0", "40", "nccl:all_reduce",
					 "completed") "," ENTRY_AT("1", "0", "0", "40", "1", "true",
								   "nccl:send 0->1", "completed",
								   "true", "0");
	char text[4096];
	struct read r;

	(void)state;
	snprintf(text, sizeof(text),
		 TEXT(CONFIG("0", "d", "[0]"), STATUS("0", "1", "-1", "1"), "%s"), head);
	r = read_text(0, text, false);
	assert_numbers(group(&r, "0"), 40, 40, 0);
	forget(&r);
	snprintf(text, sizeof(text),
		 TEXT(CONFIG("0", "d", "[0]"), STATUS("0", "41", "-1", "1"), "%s,%s"), head,
		 ENTRY("2", "0", "0", "41", "nccl:all_reduce", "scheduled"));
	r = read_text(0, text, false);
	assert_numbers(group(&r, "0"), 41, 40, 1);
	forget(&r);
	snprintf(text, sizeof(text),
		 TEXT(CONFIG("0", "d", "[0]"), STATUS("0", "2", "-1", "1"), "%s,%s"), head,
		 ENTRY_AT("2", "0", "0", "40", "2", "true", "nccl:recv 0<-1", "scheduled", "false",
			  "0"));
	r = read_text(0, text, false);
	assert_numbers(group(&r, "0"), 40, -1, 1);
	assert_true(group(&r, "0")->oldest.of_two);
	assert_int_equal(group(&r, "0")->oldest.number, 2);
	assert_string_equal(group(&r, "0")->oldest.name, "recv 0<-1");
	forget(&r);
}

/* Parts of what was called at once have no state of their own. */
static void test_coalesced(void **state)
{
	struct read r = read_text(
		0,
		TEXT(CONFIG("0", "d", "[0]"), STATUS("0", "1", "-1", "1"),
		     ENTRY_AT("0", "0", "0", "0", "1", "true", "nccl:send 0->1", "scheduled",
			      "false", "0") "," ENTRY_AT("1", "0", "0", "0", "1", "true",
							 "nccl:recv 0<-1", "scheduled", "false",
							 "0") "," ENTRY_AT("2", "0", "0", "0", "1",
									   "true", "nccl:coalesced",
									   "completed", "true",
									   "0")),
		false);

	(void)state;
	assert_numbers(group(&r, "0"), 0, 0, 0);
	forget(&r);
}

static void test_started(void **state)
{
	struct read r = read_text(
		0,
		TEXT(CONFIG("0", "d", "[0]"), STATUS("0", "2", "1", "0"),
		     ENTRY_AT("0", "0", "0", "1", "0", "false", "nccl:all_reduce", "started",
			      "false",
			      "5") "," ENTRY("1", "0", "0", "2", "nccl:all_reduce", "scheduled")),
		false);

	(void)state;
	assert_int_equal(group(&r, "0")->oldest.started, 1);
	assert_int_equal(group(&r, "0")->last_started, 1);
	forget(&r);
	r = read_text(
		0,
		TEXT(CONFIG("0", "d", "[0]"), STATUS("0", "2", "1", "1"),
		     ENTRY_AT("0", "0", "0", "1", "0", "false", "nccl:all_reduce", "completed",
			      "true",
			      "5") "," ENTRY("1", "0", "0", "2", "nccl:all_reduce", "scheduled")),
		false);
	assert_int_equal(group(&r, "0")->oldest.started, 0);
	forget(&r);
}

/* Gloo has no events, and its groups no names in the configuration. */
static void test_gloo(void **state)
{
	static const char text[] = TEXT(
		CONFIG("", "", "[0, 1]"), STATUS("0", "2", "-1", "1"),
		ENTRY_AT("0", "0", "0", "1", "0", "false", "gloo:all_reduce", "scheduled", "true",
			 "0") "," ENTRY("1", "0", "0", "2", "gloo:broadcast", "scheduled"));
	struct read r = read_text(1, text, false);

	(void)state;
	assert_int_equal(r.told.groups.n, 1);
	assert_numbers(group(&r, "0"), 2, 1, 1);
	assert_string_equal(group(&r, "0")->ranks, "0-1");
	assert_string_equal(group(&r, "0")->backend, "gloo");
	forget(&r);
}

/*
 * By a hook of 2.15: statuses count operations from 0, and when something began is known once it is
 * over.
 */
static void test_hook(void **state)
{
	struct read r = read_text(
		2,
		TEXT(CONFIG("0", "default_pg", "[0, 1]"), STATUS("0", "2", "-1", "1"),
		     ENTRY_AT("0", "0", "0", "1", "0", "false", "nccl2:all_reduce", "completed",
			      "true", "5") "," ENTRY_AT("1", "0", "0", "2", "0", "false",
							"nccl2:all_reduce", "completed", "true",
							"5") "," ENTRY("2", "0", "0", "3",
								       "nccl2:broadcast",
								       "scheduled")),
		false);

	(void)state;
	assert_numbers(group(&r, "0"), 3, 2, 1);
	assert_string_equal(group(&r, "0")->backend, "nccl2");
	assert_string_equal(group(&r, "0")->oldest.name, "broadcast");
	assert_int_equal(group(&r, "0")->oldest.started, -1);
	forget(&r);
}

/* What fell out of the recorder, or was left out, is not taken for nothing. */
static void test_what_is_left_out(void **state)
{
	static const char old[] =
		TEXT(CONFIG("0", "d", "[0]") "," CONFIG("1", "e", "[0]"),
		     STATUS("0", "900", "-1", "900") "," STATUS("1", "7", "-1", "7"),
		     ENTRY("900", "0", "0", "900", "nccl:all_reduce", "completed"));
	struct read r = read_text(0, old, false);

	(void)state;
	assert_numbers(group(&r, "0"), 900, 900, 0);
	assert_numbers(group(&r, "1"), 7, 7, 0); /* the only one left */
	forget(&r);
	r = read_text(0,
		      TEXT(CONFIG("0", "d", "[0]") "," CONFIG("1", "e", "[0]"),
			   STATUS("0", "9", "-1", "9") "," STATUS("1", "7", "-1", "7"), ""),
		      true);
	assert_numbers(group(&r, "0"), -1, -1, 0);
	assert_numbers(group(&r, "1"), -1, -1, 0);
	forget(&r);
	r = read_text(0, "{\"version\":\"2.10\",\"pg_config\":{},\"pg_status\":{}}", false);
	assert_null(r.err);
	assert_int_equal(r.told.groups.n, 0);
	assert_true(r.told.told_ms);
	forget(&r);
}

static void test_nonsense_is_refused(void **state)
{
	static const char *const texts[] = {
		"",
		"{",
		"[]",
		"{}",
		"{\"pg_config\":[],\"pg_status\":{}}",
		"{\"pg_config\":{},\"pg_status\":{\"0\":{}}}",
		"{\"pg_config\":{\"0\":{\"name\":5}},\"pg_status\":{}}",
		"{\"pg_config\":{},\"pg_status\":{},\"entries\":5}",
		"{\"pg_config\":{},\"pg_status\":{},\"entries\":[5]}",
		"{\"pg_config\":{},\"pg_status\":{},\"entries\":[{}]}",
		TEXT("", "", ENTRY("0", "0", "0", "-5", "x", "scheduled")),
		TEXT("", "", ENTRY("0", "0", "0", "\"5\"", "x", "scheduled")),
		TEXT("", STATUS("0", "a", "1", "1"), ""),
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct read r = read_text(0, texts[i], false);

		if (!r.err)
			fail_msg("this is believed: %s", texts[i]);
		assert_int_equal(r.told.groups.n, 0);
		forget(&r);
	}
}

static void test_ranks(void **state)
{
	static const struct {
		const char *text, *ranks;
	} texts[] = {
		{ "[0]", "0" },         { "[0, 1, 2, 5, 7, 8]", "0-2,5,7-8" },
		{ "[3, 1, 2]", "1-3" }, { "[4,4]", "4" },
		{ "[]", NULL },         { "", NULL },
		{ "0, 1", NULL },       { "[0, x]", NULL },
		{ "[-1]", NULL },       { "[99999999999]", NULL },
		{ "[1", NULL },
	};
	struct vt_arena arena = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		const char *ranks = vt_flight_ranks(&arena, texts[i].text);

		if (texts[i].ranks)
			assert_string_equal(ranks, texts[i].ranks);
		else
			assert_null(ranks);
	}
	vt_arena_deinit(&arena);
}

static void test_ranges(void **state)
{
	const char *ranks = "0-2,5,7-7",
		   *wrong[] = { "", "x", "2-1", "-1", "1,", "1-", "1048576", "5 ", NULL };
	int first, last;

	(void)state;
	assert_true(vt_flight_next_ranks(&ranks, &first, &last) && first == 0 && last == 2);
	assert_true(vt_flight_next_ranks(&ranks, &first, &last) && first == 5 && last == 5);
	assert_true(vt_flight_next_ranks(&ranks, &first, &last) && first == 7 && last == 7);
	assert_false(vt_flight_next_ranks(&ranks, &first, &last));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		size_t n = 0;

		ranks = wrong[i];
		while (vt_flight_next_ranks(&ranks, &first, &last))
			n++;
		assert_true(n <= 1);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_groups),
		cmocka_unit_test(test_transfers),
		cmocka_unit_test(test_coalesced),
		cmocka_unit_test(test_started),
		cmocka_unit_test(test_gloo),
		cmocka_unit_test(test_hook),
		cmocka_unit_test(test_what_is_left_out),
		cmocka_unit_test(test_nonsense_is_refused),
		cmocka_unit_test(test_ranks),
		cmocka_unit_test(test_ranges),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
