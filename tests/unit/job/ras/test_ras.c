/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What NCCL's RAS says, in the forms of all releases that have it: about which ranks, saved and
 * read again, as verdicts; and words that are unknown or cut off: they are kept, and nothing is
 * concluded.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "unit/job/job_models.h"
#include "unit/job/ras/ras_words.h"
#include "job/json/json.h"
#include "job/rules/rules.h"
#include "job/ras/ras.h"

static void add(struct vt_job *job, const char *words, bool whole)
{
	const struct vt_ras asked = { .host = "node1",
				      .pid = 4710,
				      .address = "127.0.0.1:28028",
				      .file = "nccl-ras-node1.txt",
				      .understood = whole };

	assert_true(vt_job_add_ras(job, &asked, words, strlen(words)));
}

/* "count AllReduce 41 of 8: 1 [3/4713@10.0.0.1]": a group as text, so that it can be compared. */
static void describe(const struct vt_ras_group *g, struct vt_str *text)
{
	static const char *const names[VT_RAS_N_ABOUT] = { "dead",  "silent", "absent",
							   "error", "status", "count" };

	vt_str_addf(text, "%s", names[g->about]);
	if (*g->what)
		vt_str_addf(text, " %s", g->what);
	if (g->about == VT_RAS_COUNT)
		vt_str_addf(text, " %llu", (unsigned long long)g->count);
	vt_str_addf(text, " of %d: %llu", g->size, (unsigned long long)g->n);
	for (size_t i = 0; i < g->ranks.n; i++)
		vt_str_addf(text, " [%d/%d@%s]", g->ranks.data[i].rank, (int)g->ranks.data[i].pid,
			    g->ranks.data[i].host);
	vt_str_add(text, "\n");
}

static void assert_groups(const struct vt_ras *ras, const char *expected)
{
	struct vt_str text = { 0 };

	for (size_t i = 0; i < ras->groups.n; i++)
		describe(&ras->groups.data[i], &text);
	assert_string_equal(vt_str_get(&text), expected);
	vt_str_deinit(&text);
}

/* Written and read again it is the same. */
static void assert_saved(const struct vt_job *job, const char *expected)
{
	static const struct vt_writer_options options = { 0 };
	const struct vt_ras *ras = &job->ras.data[0], *again;
	struct vt_job loaded;
	char *text = NULL;
	size_t n = 0;
	FILE *file = open_memstream(&text, &n);

	assert_non_null(file);
	assert_null(vt_write_job_json(job, &options, file));
	fclose(file);
	vt_job_init(&loaded);
	assert_null(vt_job_load_text(&loaded, text, n, "there"));
	assert_int_equal(loaded.ras.n, 1);
	again = &loaded.ras.data[0];
	assert_groups(again, expected);
	assert_string_equal(again->file, "there/nccl-ras-node1.txt");
	assert_string_equal(again->version, ras->version);
	assert_int_equal(again->pid, ras->pid);
	assert_int_equal(again->communicators, ras->communicators);
	assert_int_equal(again->understood, ras->understood);
	assert_int_equal(again->lines.n, ras->lines.n);
	vt_job_deinit(&loaded);
	free(text);
}

static const struct expected {
	const char *words, *version, *groups;
	uint64_t communicators;
} expected[] = {
	{ ras_well, "2.24.3", "", 5 },
	{ ras_2_24, "2.24.3",
	  "silent of -1: 1 [-1/4716@10.0.0.1]\n"
	  "dead of -1: 2 [-1/4711@10.0.0.1] [-1/4715@10.0.0.2]\n"
	  "absent of 8: 3 [1/0@] [5/0@] [6/0@]\n"
	  "count 41 of 8: 1 [3/4713@10.0.0.1]\n"
	  "count 42 of 8: 4\n"
	  "status RUNNING of 2: 1 [0/4710@10.0.0.1]\n"
	  "status UNKNOWN of 2: 1 [1/0@]\n",
	  2 },
	{ ras_2_27, "2.27.5",
	  "error Invalid usage of 8: 1 [2/0@]\n"
	  "error Remote process error of 8: 2 [4/4714@10.0.0.1] [5/0@]\n"
	  "error System error of 8: 1 [6/4716@fe80::1]\n"
	  "status ABORT of 8: 1 [6/4716@fe80::1]\n"
	  "status RUNNING of 8: 7\n"
	  "count Broadcast 0 of 8: 6\n"
	  "count Broadcast 1 of 8: 2 [0/4710@10.0.0.1] [1/4711@10.0.0.1]\n"
	  "count AllReduce 0 of 8: 1 [3/4713@10.0.0.1]\n"
	  "count AllReduce 6 of 8: 7\n",
	  1 },
	{ ras_status, "2.29.7",
	  "status NOCOMM of 2: 1 [0/4710@10.0.0.1]\n"
	  "status RUNNING of 2: 1 [1/4711@10.0.0.1]\n"
	  "status NOCOMM of 2: 1 [0/4712@10.0.0.1]\n"
	  "status RUNNING of 2: 1 [1/4713@10.0.0.1]\n",
	  2 },
};

static const char expected_json[] =
	"dead of 8: 1 [5/4715@10.0.0.2]\n"
	"silent of 8: 1 [6/4716@10.0.0.2]\n"
	"error Remote process error of 8: 1 [2/4712@10.0.0.1]\n"
	"status ABORT of 8: 1 [2/4712@10.0.0.1]\n"
	"status INIT of 8: 1 [4/4714@10.0.0.1]\n"
	"status NOCOMM of 8: 1 [7/0@]\n"
	"status RUNNING of 8: 3 [0/4710@10.0.0.1] [1/4711@10.0.0.1] [3/4713@10.0.0.1]\n"
	"count AllReduce 0 of 8: 1 [4/4714@10.0.0.1]\n"
	"count AllReduce 41 of 8: 1 [3/4713@10.0.0.1]\n"
	"count AllReduce 42 of 8: 3 [0/4710@10.0.0.1] [1/4711@10.0.0.1] [2/4712@10.0.0.1]\n";

static void assert_read(const char *words, const char *version, const char *groups,
			uint64_t communicators)
{
	struct vt_job job;

	vt_job_init(&job);
	add(&job, words, true);
	assert_int_equal(job.ras.n, 1);
	assert_true(job.ras.data[0].understood);
	assert_int_equal(job.ras.data[0].lines.n, 0);
	assert_string_equal(job.ras.data[0].version, version);
	assert_int_equal(job.ras.data[0].communicators, communicators);
	assert_groups(&job.ras.data[0], groups);
	assert_saved(&job, groups);
	vt_job_deinit(&job);
}

static void test_forms(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
		assert_read(expected[i].words, expected[i].version, expected[i].groups,
			    expected[i].communicators);
	assert_read(ras_2_28, "2.28.7", expected_json, 2);
	assert_read(ras_2_29, "2.29.2", expected_json, 2);
}

/* A copy in which the first `from` is `to`; both are as long. */
static char *changed(const char *words, const char *from, const char *to)
{
	char *copy = strdup(words), *at = copy ? strstr(copy, from) : NULL;

	assert_non_null(at);
	assert_int_equal(strlen(from), strlen(to));
	for (size_t i = 0; to[i]; i++)
		at[i] = to[i];
	return copy;
}

/* Of a paragraph that is not understood nothing is concluded; of the others all is. */
static void test_unknown_line(void **state)
{
	char *words = changed(ras_2_24, "have launched up", "have finished up");
	struct vt_job job;

	(void)state;
	vt_job_init(&job);
	add(&job, words, true);
	assert_false(job.ras.data[0].understood);
	assert_int_equal(job.ras.data[0].lines.n, 4);
	assert_string_equal(job.ras.data[0].lines.data[2],
			    "  4 ranks have finished up to operation 42");
	assert_groups(&job.ras.data[0], "silent of -1: 1 [-1/4716@10.0.0.1]\n"
					"dead of -1: 2 [-1/4711@10.0.0.1] [-1/4715@10.0.0.2]\n"
					"absent of 8: 3 [1/0@] [5/0@] [6/0@]\n"
					"status RUNNING of 2: 1 [0/4710@10.0.0.1]\n"
					"status UNKNOWN of 2: 1 [1/0@]\n");
	vt_job_deinit(&job);
	free(words);
}

static void assert_nothing(const char *words, bool whole)
{
	struct vt_job job;

	vt_job_init(&job);
	add(&job, words, whole);
	assert_false(job.ras.data[0].understood);
	assert_true(job.ras.data[0].lines.n);
	assert_int_equal(job.ras.data[0].groups.n, 0);
	vt_job_account(&job);
	assert_int_equal(job.verdicts.n, 0);
	vt_job_deinit(&job);
}

/*
 * Wherever it is cut off: nothing is concluded, unless it is known to be whole and all sections are
 * there.
 */
static void test_cut_off(void **state)
{
	static const char *const all[] = { ras_2_24, ras_2_27, ras_2_28, ras_2_29 };

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		char *words = strdup(all[i]);

		assert_non_null(words);
		for (size_t n = strlen(words) - 3; n > 1; n -= 1 + n / 50) {
			words[n] = '\0';
			assert_nothing(words, false);
		}
		free(words);
	}
	for (char *words = strdup(ras_2_24), *at = strstr(words, "#1-0"); at; at = NULL) {
		*at = '\0'; /* the table has more */
		assert_nothing(words, true);
		free(words);
	}
	assert_nothing("ERROR: Unknown command STATUS\n", true);
	assert_nothing("{}\n", true);
	assert_nothing("{\"communicators\": 3}\n", true);
}

static const struct vt_job_verdict *find_verdict(const struct vt_job *job, const char *code)
{
	for (size_t i = 0; i < job->verdicts.n; i++)
		if (!strcmp(vt_finding_name(job->verdicts.data[i].code), code))
			return &job->verdicts.data[i];
	return NULL;
}

/* Eight ranks; rank 3 does not come; RAS does not know their processes. */
#define HANG                                                                            \
	RAS_HEAD("2.27.5")                                                              \
	"    0         1         1         8         8         8   RUNNING  MISMATCH\n" \
	"\nErrors\n======\n\nWarnings\n========\n\n"                                    \
	"#0-0 (fe5c0d1a2b3c4d5e) MISMATCH\n"                                            \
	"  Communicator ranks have different AllReduce operation counts\n"              \
	"  7 ranks have launched up to operation 42\n"                                  \
	"  Rank 3 has launched up to operation 41 -- [process information not found]\n\n"

static void test_verdicts(void **state)
{
	struct job_model what = { .hang = "loop", .ranks = 8, .culprit = 3 };
	const struct vt_job_verdict *v;
	struct vt_job job;

	(void)state;
	vt_job_init(&job);
	assert_true(job_model_fill(&job, &what));
	add(&job, HANG, true);
	vt_job_account(&job);
	v = find_verdict(&job, "ras-behind");
	assert_non_null(v);
	assert_string_equal(
		v->text,
		"rank 3 has launched 41 AllReduce operations, ranks 0-2,4-7 have launched 42 "
		"(NCCL's RAS, communicator fe5c0d1a2b3c4d5e of 8 ranks)");
	assert_true(v->alarm); /* the others wait */
	assert_int_equal(v->members.n, 1);
	assert_int_equal(job.members.data[v->members.members[0]].label.rank, 3);
	vt_job_deinit(&job);

	/* As far as Python goes all of them are in it: then no verdict names a missing one. */
	what.hang = "none";
	vt_job_init(&job);
	assert_true(job_model_fill(&job, &what));
	add(&job, HANG, true);
	vt_job_account(&job);
	assert_string_equal(vt_finding_name(job.verdicts.data[0].code), "ras-behind");
	assert_non_null(find_verdict(&job, "all-in-collective"));
	assert_null(strstr(find_verdict(&job, "all-in-collective")->text, "no rank is missing"));
	vt_job_deinit(&job);

	/* Whoever goes on soon after waits no more. */
	what.hang = "loop";
	vt_job_init(&job);
	assert_true(job_model_fill(&job, &what));
	add(&job, HANG, true);
	for (size_t i = 0; i < job.members.n; i++)
		job.members.data[i].moved = job.members.data[i].label.rank == 5;
	vt_job_account(&job);
	v = find_verdict(&job, "ras-behind");
	assert_non_null(v);
	assert_false(v->alarm);
	vt_job_deinit(&job);

	/*
	 * It is about a process that is not a member, so the verdict names none. Two answers say it
	 * once.
	 */
	vt_job_init(&job);
	assert_true(job_model_fill(&job, &what));
	add(&job, ras_2_29, true);
	add(&job, ras_2_29, true);
	job.ras.data[1].pid = 1;
	vt_job_account(&job);
	v = find_verdict(&job, "ras-dead");
	assert_non_null(v);
	assert_string_equal(v->text,
			    "rank 5 (pid 4715 on 10.0.0.2) is considered dead by NCCL's RAS "
			    "(communicator 0xfe5c0d1a2b3c4d5e of 8 ranks)");
	assert_true(v->alarm);
	assert_int_equal(v->members.n, 0);
	for (size_t i = 0, n = 0; i < job.verdicts.n; i++) {
		n += !strcmp(vt_finding_name(job.verdicts.data[i].code), "ras-dead");
		assert_in_range(n, 0, 1);
	}
	vt_job_deinit(&job);
}

#define COUNTS(lines)                                                                   \
	RAS_HEAD("2.27.5")                                                              \
	"    0         1         1         8         8         8   RUNNING  MISMATCH\n" \
	"\nErrors\n======\n\nWarnings\n========\n\n"                                    \
	"#0-0 (fe5c0d1a2b3c4d5e) MISMATCH\n"                                            \
	"  Communicator ranks have different AllReduce operation counts\n" lines "\n"
#define RANK(rank, count)                                       \
	"  Rank " #rank " has launched up to operation " #count \
	" -- [process information not found]\n"

/*
 * Asked twice: which of the groups of the second answer, those with fewer operations first, moved;
 * and whether somebody is accused.
 */
static void test_asked_again(void **state)
{
	static const struct {
		const char *earlier, *now, *moved;
		int verdict; /* 0 none, 1 there is one, 2 with an alarm */
	} cases[] = {
		{ COUNTS("  7 ranks have launched up to operation 42\n" RANK(3, 41)),
		  COUNTS("  7 ranks have launched up to operation 42\n" RANK(3, 41)), "00", 2 },
		{ COUNTS("  7 ranks have launched up to operation 42\n" RANK(3, 41)),
		  COUNTS("  7 ranks have launched up to operation 52\n" RANK(3, 51)), "11", 0 },
		/* It has done what the others had. */
		{ COUNTS("  7 ranks have launched up to operation 42\n" RANK(3, 41)),
		  COUNTS("  7 ranks have launched up to operation 43\n" RANK(3, 42)), "11", 0 },
		/* One of the others is behind now: it may be where it was. */
		{ COUNTS("  7 ranks have launched up to operation 42\n" RANK(3, 41)),
		  COUNTS("  7 ranks have launched up to operation 43\n" RANK(5, 42)), "01", 1 },
		/* The others are ahead, it stays. */
		{ COUNTS("  7 ranks have launched up to operation 42\n" RANK(3, 41)),
		  COUNTS("  7 ranks have launched up to operation 50\n" RANK(3, 41)), "01", 1 },
		/*
		 * One of two goes on: neither group was there before, but rank 3 is where it was.
		 */
		{ COUNTS("  6 ranks have launched up to operation 42\n  2 ranks have launched up to operation 41\n"
			 "  Rank 3 -- [process information not found]\n  Rank 5 -- [process information not found]\n"),
		  COUNTS("  7 ranks have launched up to operation 42\n" RANK(3, 41)), "00", 2 },
		/* Then all had launched the same. */
		{ RAS_HEAD(
			  "2.27.5") "    0         1         1         8         8         8   RUNNING        OK\n"
				    "\nErrors\n======\n\nWarnings\n========\n\n",
		  COUNTS("  7 ranks have launched up to operation 42\n" RANK(3, 41)), "11", 0 },
	};
	struct job_model what = { .hang = "loop", .ranks = 8, .culprit = 3 };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct vt_job_verdict *v;
		const struct vt_ras *ras;
		struct vt_job job;
		char moved[4] = "";

		vt_job_init(&job);
		assert_true(job_model_fill(&job, &what));
		add(&job, cases[i].earlier, true);
		add(&job, cases[i].now, true);
		assert_int_equal(vt_ras_compare(&job.ras.data[1], &job.ras.data[0]),
				 strchr(cases[i].moved, '0') != NULL);
		vt_job_drop_ras(&job, 0);
		assert_int_equal(job.ras.n, 1);
		ras = &job.ras.data[0];
		assert_int_equal(ras->groups.n, strlen(cases[i].moved));
		for (size_t g = 0; g < ras->groups.n; g++)
			moved[g] = ras->groups.data[g].moved ? '1' : '0';
		print_message("case %zu\n", i);
		assert_string_equal(moved, cases[i].moved);
		vt_job_account(&job);
		v = find_verdict(&job, "ras-behind");
		assert_int_equal(!v ? 0 : v->alarm ? 2 : 1, cases[i].verdict);
		vt_job_deinit(&job);
	}
}

/* Through one host nothing is known of the time after, through another one they have gone on. */
static void test_asked_on_two_hosts(void **state)
{
	struct job_model what = { .hang = "loop", .ranks = 8, .culprit = 3 };
	struct vt_job job;

	(void)state;
	vt_job_init(&job);
	assert_true(job_model_fill(&job, &what));
	add(&job, HANG, true);
	add(&job, HANG, true);
	job.ras.data[1].pid = 1;
	for (size_t g = 0; g < job.ras.data[1].groups.n; g++)
		job.ras.data[1].groups.data[g].moved = 1;
	vt_job_account(&job);
	assert_int_equal(job.ras.n, 2);
	assert_null(find_verdict(&job, "ras-behind"));
	vt_job_deinit(&job);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_asked_again), cmocka_unit_test(test_asked_on_two_hosts),
		cmocka_unit_test(test_forms),       cmocka_unit_test(test_unknown_line),
		cmocka_unit_test(test_cut_off),     cmocka_unit_test(test_verdicts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
