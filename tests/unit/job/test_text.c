/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The summary's tables: ranks of one device with like figures are one entry, the job's own come
 * first, and nobody is left out without a word; a stack that does not fit has a line for each
 * frame.
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
#include "job/internal.h"
#include "job/rules/rules.h"
#include "job/text/text.h"
#include "unit/job/job_models.h"

#define GIB (UINT64_C(1) << 30)

static void fill(struct vt_job *job, const char *hang, int ranks)
{
	struct job_model what = { .hang = hang, .ranks = ranks, .culprit = 2 };

	vt_job_init(job);
	assert_true(job_model_fill(job, &what));
}

static char *text_of(const struct vt_job *job, int columns)
{
	struct vt_writer_options options = { .columns = columns };
	char *text = NULL;
	size_t n;
	FILE *file = open_memstream(&text, &n);

	assert_non_null(file);
	assert_null(vt_write_job_text(job, &options, file));
	fclose(file);
	return text;
}

static void assert_has(const char *text, const char *part, bool has)
{
	if (!strstr(text, part) == has)
		fail_msg("\"%s\" is %s in \"%s\"", part, has ? "not" : "", text);
}

/* All on one device; so many processes outside the job with more than any rank. */
static char *holders_of(int ranks, int outsiders, uint64_t odd)
{
	struct vt_str text = { 0 };
	struct vt_job job;

	fill(&job, "none", ranks);
	for (int i = 0; i < outsiders; i++) {
		struct vt_label label = job.members.data[0].label;
		struct vt_member *m;
		struct vt_job_memory *memory;

		label.pid = 90000 + i;
		label.rank = -1;
		label.in_job = false;
		label.name = "notebook";
		assert_true(vt_job_add(&job, &label, NULL, NULL));
		m = &job.members.data[job.members.n - 1];
		memory = vt_vec_append(&m->memory);
		assert_non_null(memory);
		*memory = job.members.data[0].memory.data[0];
		memory->reserved = 50 * GIB + (uint64_t)i * GIB;
	}
	for (size_t i = 0; i < job.members.n; i++) {
		struct vt_job_memory *memory = &job.members.data[i].memory.data[0];

		memory->uuid = job.members.data[0].memory.data[0].uuid;
		memory->ordinal = 0;
		if (job.members.data[i].label.rank == 2 && odd)
			memory->reserved = odd;
	}
	vt_job_account(&job);
	assert_false(job.failed);
	assert_int_equal(job.devices.n, 1);
	assert_true(vt_text_job_holders(&job, &job.devices.data[0], false, &text));
	vt_job_deinit(&job);
	return text.data;
}

static void test_holders(void **state)
{
	char *text = holders_of(4, 3, 0);

	(void)state;
	assert_string_equal(
		text,
		"ranks 0-3 48.0 GiB each, pid 90002@node0 (notebook, outside the job) 52.0 GiB, "
		"pid 90001@node0 (notebook, outside the job) 51.0 GiB, "
		"pid 90000@node0 (notebook, outside the job) 50.0 GiB");
	free(text);
	text = holders_of(4, 0, 70 * GIB);
	assert_string_equal(text, "rank 2 70.0 GiB, ranks 0-1,3 48.0 GiB each");
	free(text);
	/* None is dropped without a word. */
	text = holders_of(2, 12, 0);
	assert_has(text, "ranks 0-1 48.0 GiB each, pid 90011@node0 ", true);
	assert_has(text, "pid 90003@node0", false);
	assert_has(text, ", 4 more outside the job 206 GiB", true);
	free(text);
}

/* A set of ranks and others has the word. */
static void test_mixed_set(void **state)
{
	uint32_t indices[5] = { 0, 1, 3, 4 };
	struct vt_member_set set = { .members = indices, .n = 4 };
	struct vt_str text = { 0 };
	struct vt_job job;

	(void)state;
	fill(&job, "none", 5);
	vt_job_account(&job);
	job.members.data[4].label.role = VT_ROLE_OTHER;
	vt_job_add_set(&job, &set, 60, &text);
	assert_has(vt_str_get(&text), "ranks 0-1,3, pid ", true);
	vt_str_clear(&text);
	set.n = 3;
	vt_job_add_set(&job, &set, 60, &text);
	assert_string_equal(vt_str_get(&text), "0-1,3");
	vt_str_deinit(&text);
	vt_job_deinit(&job);
}

static void test_tree(void **state)
{
	struct vt_job job;
	char *text;

	(void)state;
	fill(&job, "loop", 8);
	vt_job_account(&job);
	text = text_of(&job, 80);
	assert_has(text,
		   "\n  0-7 [8]             <module> train.py:233 > main train.py:210\n"
		   "    2 [1]               train_step train.py:80 > find_bin packing.py:12: runs\n"
		   "    0-1,3-7 [7]         train_step train.py:88\n"
		   "                        wrapper c10d_logger.py:81\n"
		   "                        all_reduce distributed_c10d.py:2806\n"
		   "                          waits in all_reduce\n",
		   true);
	free(text);
	text = text_of(&job, 160);
	assert_has(text,
		   "train_step train.py:88 > wrapper c10d_logger.py:81 > all_reduce "
		   "distributed_c10d.py:2806: waits in all_reduce\n",
		   true);
	free(text);
	vt_job_deinit(&job);
}

/* Without the kernel driver's count of a rank its rest and sum are not known. */
static void test_unknown(void **state)
{
	struct vt_job job;
	char *text;

	(void)state;
	fill(&job, "none", 2);
	for (size_t i = 0; i < job.members.n; i++) {
		struct vt_job_memory *memory = &job.members.data[i].memory.data[0];

		memory->ledger_known = true;
		memory->claimed[VT_CLAIMER_PYTORCH] = 48 * GIB;
	}
	vt_job_account(&job);
	text = text_of(&job, 100);
	assert_has(text, "contexts, code                               ?\n", true);
	assert_has(text, "in all, by the driver's count                ?\n", true);
	assert_has(text, "-: none; ?: not known.", true);
	free(text);
	vt_job_deinit(&job);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_holders),
		cmocka_unit_test(test_mixed_set),
		cmocka_unit_test(test_tree),
		cmocka_unit_test(test_unknown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
