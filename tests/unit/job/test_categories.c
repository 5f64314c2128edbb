/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of ranks by category: who is told to differ and who is not, and the table. The figures are
 * made up, so that each limit is met exactly and missed by one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/width.h"
#include "job/internal.h"
#include "job/json/json.h"
#include "job/rules/rules.h"
#include "job/text/text.h"
#include "unit/job/job_models.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define MAX_RANKS 8
#define NOT_READ UINT64_MAX
#define RAN (UINT64_MAX - 1)
#define NOT_WHOLE (UINT64_MAX - 2)

/* One that could not be compared had much of it. */
static struct vt_job_owners owners_of(enum vt_category category, uint64_t bytes)
{
	struct vt_job_owners owners = {
		.state = bytes == NOT_READ ? VT_OWNERS_NO_PYTHON : VT_OWNERS_READ,
		.ran = bytes == RAN,
		.whole = bytes != NOT_WHOLE && bytes != NOT_READ,
	};

	if (bytes != NOT_READ)
		owners.bytes[category] = bytes >= NOT_WHOLE ? 70 * GIB : bytes;
	return owners;
}

/* All that is equal but owners: ranks 0 to ranks - 1 of a job that hangs in all_reduce. */
static void fill(struct vt_job *job, int ranks)
{
	struct job_model what = { .hang = "none", .ranks = ranks, .culprit = 0 };

	vt_job_init(job);
	assert_true(job_model_fill(job, &what));
	assert_int_equal(job->members.n, ranks);
}

/* Members come in some order. */
static struct vt_job_owners *owners_at(struct vt_job *job, int rank)
{
	for (size_t i = 0; i < job->members.n; i++)
		if (job->members.data[i].label.rank == rank)
			return &job->members.data[i].owners;
	fail_msg("no rank %d", rank);
	return NULL;
}

static size_t count_told(const struct vt_job *job)
{
	size_t n = 0;

	for (size_t i = 0; i < job->verdicts.n; i++) {
		const struct vt_job_verdict *v = &job->verdicts.data[i];

		if (v->code != VT_FINDING_IMBALANCE_CATEGORY)
			continue;
		n++;
		/* A stage of a pipeline may well be different: nobody is accused. */
		assert_false(v->alarm);
	}
	return n;
}

static bool is_told(const struct vt_job *job, const char *text)
{
	for (size_t i = 0; i < job->verdicts.n; i++)
		if (job->verdicts.data[i].code == VT_FINDING_IMBALANCE_CATEGORY &&
		    !strcmp(job->verdicts.data[i].text, text))
			return true;
	return false;
}

/* ---- who differs ---- */

/* clang-format off */
static const struct difference {
	enum vt_category category;
	int ranks;
	uint64_t bytes[MAX_RANKS];
	const char *more, *less; /* NULL: no such line */
} differences[] = {
	{ VT_CATEGORY_ACTIVATION, 4, { 4 * GIB, 4 * GIB, 4 * GIB, 9 * GIB + 102 * MIB },
	  "rank 3 has 9.10 GiB of activations, the others 4.00 GiB", NULL },
	{ VT_CATEGORY_ACTIVATION, 4, { 4 * GIB, 5 * GIB, 4 * GIB, 9 * GIB },
	  "rank 3 has 9.00 GiB of activations, the others 4.00 GiB to 5.00 GiB", NULL },
	{ VT_CATEGORY_ACTIVATION, 4, { 4 * GIB, 4 * GIB, 0, 4 * GIB }, NULL,
	  "rank 2 has no activations, the others 4.00 GiB" },
	{ VT_CATEGORY_OPTIMIZER, 4, { 4 * GIB, 4 * GIB, 2 * GIB, 4 * GIB }, NULL,
	  "rank 2 has 2.00 GiB of optimizer state, the others 4.00 GiB" },
	/* Both sides of the others. */
	{ VT_CATEGORY_PYTHON, 5, { 8 * GIB, 4 * GIB, 4 * GIB, 4 * GIB, 1 * GIB },
	  "rank 0 has 8.00 GiB of Python variables that are in no model, ranks 1-3 4.00 GiB",
	  "rank 4 has 1.00 GiB of Python variables that are in no model, ranks 1-3 4.00 GiB" },
	/* Several, each with its own. */
	{ VT_CATEGORY_GRADIENT, 6, { 4 * GIB, 8 * GIB, 4 * GIB, 9 * GIB, 4 * GIB, 4 * GIB },
	  "ranks 1,3 have 8.00 GiB to 9.00 GiB of gradients, the others 4.00 GiB", NULL },
	/* Of two, the one with more is told, of whichever kind. */
	{ VT_CATEGORY_EXCEPTION, 2, { 0, GIB },
	  "rank 1 has 1.00 GiB of memory that only an exception holds, rank 0 none", NULL },
	{ VT_CATEGORY_PARAMETER, 2, { 3 * GIB, GIB },
	  "rank 0 has 3.00 GiB of parameters, rank 1 1.00 GiB", NULL },
	/* The limits: so many bytes, */
	{ VT_CATEGORY_FRAME, 3, { 0, 0, 512 * MIB },
	  "rank 2 has 512 MiB of variables of running functions, the others none", NULL },
	{ VT_CATEGORY_FRAME, 3, { 0, 0, 512 * MIB - 1 }, NULL, NULL },
	{ VT_CATEGORY_GARBAGE, 3, { 0, 256 * MIB, 0 },
	  "rank 1 has 256 MiB of garbage that is not collected, the others none", NULL },
	{ VT_CATEGORY_GARBAGE, 3, { 0, 256 * MIB - 1, 0 }, NULL, NULL },
	/* and more than a quarter. */
	{ VT_CATEGORY_CACHE, 3, { 8 * GIB, 8 * GIB, 10 * GIB }, NULL, NULL },
	{ VT_CATEGORY_CACHE, 3, { 8 * GIB, 8 * GIB, 11 * GIB },
	  "rank 2 has 11.0 GiB of caches of keys and values, the others 8.00 GiB", NULL },
	{ VT_CATEGORY_CACHE, 3, { 6 * GIB, 8 * GIB, 8 * GIB }, NULL, NULL },
	/* Half of a pipeline, and where all differ. */
	{ VT_CATEGORY_PARAMETER, 4, { 2 * GIB, 2 * GIB, 4 * GIB, 4 * GIB },
	  "ranks 2-3 have 4.00 GiB of parameters, the others 2.00 GiB", NULL },
	{ VT_CATEGORY_PARAMETER, 5, { 1 * GIB, 2 * GIB, 4 * GIB, 8 * GIB, 16 * GIB }, NULL, NULL },
	/* What is of another moment, or not all, says nothing of that rank, nor of the others. */
	{ VT_CATEGORY_ACTIVATION, 4, { 4 * GIB, RAN, 4 * GIB, 4 * GIB }, NULL, NULL },
	{ VT_CATEGORY_ACTIVATION, 4, { 4 * GIB, NOT_WHOLE, 4 * GIB, NOT_READ }, NULL, NULL },
	{ VT_CATEGORY_ACTIVATION, 4, { 4 * GIB, RAN, 9 * GIB, 4 * GIB },
	  "rank 2 has 9.00 GiB of activations, ranks 0,3 4.00 GiB", NULL },
	{ VT_CATEGORY_ACTIVATION, 3, { 4 * GIB, RAN, NOT_READ }, NULL, NULL },
	/* Of what nobody was found for nothing is known. */
	{ VT_CATEGORY_UNKNOWN, 3, { 4 * GIB, 4 * GIB, 9 * GIB }, NULL, NULL },
};
/* clang-format on */

static void check_difference(const struct difference *d)
{
	size_t n = !!d->more + !!d->less;
	struct vt_job job;

	fill(&job, d->ranks);
	for (int i = 0; i < d->ranks; i++)
		*owners_at(&job, i) = owners_of(d->category, d->bytes[i]);
	vt_job_account(&job);
	assert_false(job.failed);
	if (count_told(&job) != n || (d->more && !is_told(&job, d->more)) ||
	    (d->less && !is_told(&job, d->less))) {
		for (size_t i = 0; i < job.verdicts.n; i++)
			print_error("told: %s\n", job.verdicts.data[i].text);
		fail_msg("case %zu", (size_t)(d - differences));
	}
	vt_job_deinit(&job);
}

static void test_differences(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(differences) / sizeof(differences[0]); i++)
		check_difference(&differences[i]);
}

/* No kind of memory is left out, but what nothing is known of; they are told in one order. */
static void test_all_categories(void **state)
{
	(void)state;
	for (size_t i = 0; i < VT_N_CATEGORIES; i++) {
		struct vt_job job;

		fill(&job, 3);
		for (int k = 0; k < 3; k++)
			*owners_at(&job, k) = owners_of((enum vt_category)i, (k == 1) * 4 * GIB);
		vt_job_account(&job);
		if (count_told(&job) != (i != VT_CATEGORY_UNKNOWN))
			fail_msg("category %s", vt_category_code((enum vt_category)i));
		vt_job_deinit(&job);
	}
}

/* Of many the first three are told, leaks before what a model is made of. */
static void test_at_most(void **state)
{
	struct vt_job job;

	(void)state;
	fill(&job, 3);
	for (int k = 0; k < 3; k++) {
		*owners_at(&job, k) = owners_of(VT_CATEGORY_UNKNOWN, 0);
		for (size_t i = 0; i < VT_N_CATEGORIES; i++)
			owners_at(&job, k)->bytes[i] = (k == 1) * 4 * GIB;
	}
	vt_job_account(&job);
	assert_int_equal(count_told(&job), 3);
	assert_true(is_told(
		&job,
		"rank 1 has 4.00 GiB of memory that only an exception holds, the others none"));
	assert_true(is_told(
		&job, "rank 1 has 4.00 GiB of garbage that is not collected, the others none"));
	assert_true(is_told(&job, "rank 1 has 4.00 GiB of activations, the others none"));
	vt_job_deinit(&job);
}

/* ---- the table ---- */

static char *to_text(const struct vt_job *job, int columns, vt_write_fn *write)
{
	struct vt_writer_options options = { .columns = columns };
	char *data = NULL;
	size_t n;
	FILE *file = open_memstream(&data, &n);

	assert_non_null(file);
	assert_null(write(job, &options, file));
	fclose(file);
	return data;
}

static void assert_has(const char *text, const char *part, bool has)
{
	if (!strstr(text, part) == has)
		fail_msg("\"%s\" %s in:\n%s", part, has ? "is not" : "is", text);
}

/* Wrapped lines become one. */
static char *flatten(char *text)
{
	char *to = text;

	for (const char *from = text; *from; from++)
		if (*from != '\n' && (*from != ' ' || (to > text && to[-1] != ' ')))
			*to++ = *from;
		else if (*from == '\n' && to > text && to[-1] != ' ')
			*to++ = ' ';
	*to = '\0';
	return text;
}

static void assert_narrow(const char *text, int columns)
{
	for (const char *line = text, *end; *line; line = end + !!*end) {
		end = strchrnul(line, '\n');
		if (vt_width(line, (size_t)(end - line)) > columns)
			fail_msg("wider than %d: %.*s", columns, (int)(end - line), line);
	}
}

/* 8 ranks: 5 alike, 1 with activations, 1 with less parameters, 1 that ran. */
static void fill_table(struct vt_job *job)
{
	fill(job, 8);
	for (int i = 0; i < 8; i++) {
		struct vt_job_owners *owners = owners_at(job, i);

		*owners = owners_of(VT_CATEGORY_PARAMETER, i == 6 ? 2 * GIB : 4 * GIB);
		owners->bytes[VT_CATEGORY_OPTIMIZER] = 8 * GIB + (uint64_t)i * MIB;
		owners->bytes[VT_CATEGORY_ACTIVATION] = i == 3 ? 9 * GIB : 0;
		owners->ran = i == 4;
	}
	vt_job_account(job);
	assert_false(job->failed);
}

static void test_table(void **state)
{
	static const int columns[] = { 40, 60, 80, 100, 160, 400 };
	struct vt_job job;

	(void)state;
	fill_table(&job);
	for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
		char *text = to_text(&job, columns[i], vt_write_job_text);

		assert_narrow(text, columns[i]);
		free(text);
	}
	for (int wide = 0; wide < 2; wide++) {
		char *text = to_text(&job, wide ? 160 : 80, vt_write_job_text);

		/* clang-format off */
		assert_has(text, "\n"
			"What the memory in use is          ranks 0-2,5,7          rank 3          rank 6\n"
			"  activations held by a graph                  -        9.00 GiB               -\n"
			"  optimizer state                       8.01 GiB        8.00 GiB        8.01 GiB\n"
			"  parameters                            4.00 GiB        4.00 GiB        2.00 GiB\n", true);
		/* clang-format on */
		assert_has(flatten(text), "Not known of rank 4: still running", true);
		assert_has(text, "with other figures", false);
		free(text);
	}
	/* Where there is room for one column less, one rank is left out, and that is told. */
	char *text = to_text(&job, 60, vt_write_job_text);

	assert_has(text, "rank 3\n", true);
	assert_has(flatten(text), "1 more rank, with other figures: in the JSON report.", true);
	free(text);
	vt_job_deinit(&job);
}

/* What is not known is no zero, and what was not asked for is no table. */
static void test_table_of_nothing(void **state)
{
	struct vt_job job;
	char *text;

	(void)state;
	fill(&job, 3);
	vt_job_account(&job);
	text = to_text(&job, 80, vt_write_job_text);
	assert_has(text, "What the memory in use is", false);
	free(text);
	for (int i = 0; i < 3; i++)
		*owners_at(&job, i) = owners_of(VT_CATEGORY_PARAMETER, NOT_READ);
	text = to_text(&job, 80, vt_write_job_text);
	assert_has(text, "What the memory in use is\n", true);
	assert_has(text, "Not known of ranks 0-2: still running, or not readable", true);
	assert_has(text, "parameters", false);
	free(text);
	vt_job_deinit(&job);
}

/* ---- saved ---- */

static void test_saved(void **state)
{
	struct vt_job job, again;
	char *json;

	(void)state;
	fill_table(&job);
	*owners_at(&job, 7) = owners_of(VT_CATEGORY_PARAMETER, NOT_READ);
	*owners_at(&job, 6) = (struct vt_job_owners){ 0 };
	json = to_text(&job, 80, vt_write_job_json);
	vt_job_init(&again);
	assert_null(vt_job_load_text(&again, json, strlen(json), ""));
	assert_int_equal(again.members.n, job.members.n);
	for (size_t i = 0; i < job.members.n; i++)
		assert_memory_equal(owners_at(&again, (int)i), owners_at(&job, (int)i),
				    sizeof(struct vt_job_owners));
	vt_job_account(&again);
	assert_int_equal(count_told(&again), 1);
	assert_true(is_told(&again, "rank 3 has 9.00 GiB of activations, ranks 0-2,5 none"));
	free(json);
	vt_job_deinit(&again);
	vt_job_deinit(&job);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_differences),      cmocka_unit_test(test_all_categories),
		cmocka_unit_test(test_at_most),          cmocka_unit_test(test_table),
		cmocka_unit_test(test_table_of_nothing), cmocka_unit_test(test_saved),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
