/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chains of causes: each planted hang has one that begins with the culprit and has all that wait
 * for it, with what can be done; several culprits have one each; ranks that wait for each other are
 * a circle; where nothing shows a cause there is none.
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
#include "job/internal.h"
#include "job/rules/rules.h"
#include "job/text/text.h"

#define RANKS 8
#define CULPRIT 2

static void fill(struct vt_job *job, const char *hang, int ranks)
{
	struct job_model what = { .hang = hang, .ranks = ranks, .workers = 3, .culprit = CULPRIT };

	vt_job_init(job);
	assert_true(job_model_fill(job, &what));
}

static void assert_contains(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("\"%s\" is not in \"%s\"", part, text);
}

static struct vt_member *rank_of(struct vt_job *job, int rank)
{
	for (size_t i = 0; i < job->members.n; i++)
		if (job->members.data[i].label.role == VT_ROLE_RANK &&
		    job->members.data[i].label.rank == rank)
			return &job->members.data[i];
	fail_msg("there is no rank %d", rank);
	return NULL;
}

static struct vt_member *worker_of(struct vt_job *job, int rank, int worker)
{
	for (size_t i = 0; i < job->members.n; i++)
		if (job->members.data[i].label.role == VT_ROLE_LOADER &&
		    job->members.data[i].label.rank == rank &&
		    job->members.data[i].label.worker == worker)
			return &job->members.data[i];
	fail_msg("rank %d has no worker %d", rank, worker);
	return NULL;
}

/* "cause < link < link" with %d for a pid. */
static void links_of(const struct vt_job_chain *chain, struct vt_str *text)
{
	vt_str_clear(text);
	for (size_t i = 0; i < chain->n_links; i++)
		vt_str_addf(text, "%s%s", i ? " < " : "", chain->links[i].text);
}

/* ---- one culprit ---- */

static const struct expected {
	const char *hang, *links, *command;
	enum vt_finding code;
	enum vt_doubt doubt;
	size_t hanging;
} expected[] = {
	{ "loop",
	  "rank 2 (pid 6000) runs Python (packing.py:12 find_bin) < ranks 0-1,3-7 wait in all_reduce",
	  "vramtap stacks 6000", VT_FINDING_MISSED_COLLECTIVE, VT_DOUBT_NONE, 7 },
	{ "sleep",
	  "rank 2 (pid 6000) is in clock_nanosleep (train.py:81 train_step) < ranks 0-1,3-7 wait",
	  "vramtap stacks 6000", VT_FINDING_MISSED_COLLECTIVE, VT_DOUBT_NONE, 7 },
	{ "retries", "rank 2 (pid 6000) retries an allocation: ", "vramtap report 6000",
	  VT_FINDING_RETRIES_ALLOCATION, VT_DOUBT_NONE, 7 },
	{ "oom", "rank 2 (pid 6000) ran out of GPU memory", "vramtap report 6000",
	  VT_FINDING_OUT_OF_MEMORY, VT_DOUBT_NONE, 7 },
	{ "loader",
	  "worker 1 of rank 2 (pid 6501) is in uninterruptible sleep (D) in rpc_wait_bit_killable, "
	  "waits for an NFS server (data.py:31 load_shard) < rank 2 waits for it < ranks 0-1,3-7 wait in all_reduce",
	  "vramtap stacks 6501", VT_FINDING_LOADER_WORKER, VT_DOUBT_NONE, 8 },
	{ "loaders", "worker 1 of rank 2 (pid 6501) is in uninterruptible sleep (D)",
	  "vramtap stacks 6501", VT_FINDING_LOADER_WORKER, VT_DOUBT_NONE, 1 },
	{ "loader-busy",
	  "worker 1 of rank 2 (pid 6501) runs Python (data.py:40 Images.__getitem__) < rank 2 waits for it < ranks 0-1,3-7 wait",
	  "vramtap stacks 6501", VT_FINDING_LOADER_BUSY, VT_DOUBT_SLOW, 8 },
	{ "loader-stopped", "worker 1 of rank 2 (pid 6501) is stopped by a signal",
	  "kill -CONT 6501", VT_FINDING_LOADER_WORKER, VT_DOUBT_NONE, 1 },
	{ "stuck", "rank 2 (pid 6000) is in uninterruptible sleep (D) in ", "vramtap stacks 6000",
	  VT_FINDING_STUCK, VT_DOUBT_NONE, 7 },
	{ "stopped",
	  "rank 2 (pid 6000) is stopped by a signal (train.py:88 train_step) < ranks 0-1,3-7 wait in all_reduce",
	  "kill -CONT 6000", VT_FINDING_STOPPED, VT_DOUBT_NONE, 7 },
	{ "traced", "rank 2 (pid 6000) is held by a debugger (gdb, pid 77)",
	  "ps -o user,tty,args -p 77", VT_FINDING_TRACED, VT_DOUBT_NONE, 7 },
	{ "killed", "rank 2 of 8 is missing < ranks 0-1,3-7 wait in all_reduce", "dmesg -T",
	  VT_FINDING_MISSING_RANK, VT_DOUBT_LEFT_OUT, 7 },
	{ "sequences",
	  "rank 2 (pid 6000) has not begun what the others wait in: it is in cudaStreamSynchronize",
	  "vramtap stacks 6000", VT_FINDING_BEHIND, VT_DOUBT_NONE, 7 },
};

static void test_one(void **state)
{
	struct vt_str text = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		const struct expected *e = &expected[i];
		struct vt_job job;

		fill(&job, e->hang, RANKS);
		vt_job_account(&job);
		assert_false(job.failed);
		if (job.chains.n != 1)
			fail_msg("%s: %zu chains", e->hang, job.chains.n);
		links_of(&job.chains.data[0], &text);
		assert_contains(vt_str_get(&text), e->links);
		assert_int_equal(job.chains.data[0].code, e->code);
		assert_int_equal(job.chains.data[0].doubt, e->doubt);
		assert_int_equal(job.chains.data[0].hanging, e->hanging);
		assert_false(job.chains.data[0].circle);
		assert_true(job.chains.data[0].n_steps > 0);
		assert_contains(job.chains.data[0].steps[0].command, e->command);
		vt_job_deinit(&job);
	}
	vt_str_deinit(&text);
}

/* What the data do not show is not said. */
static void test_none(void **state)
{
	static const char *const hangs[] = { "none",      "different",   "call-site",
					     "gpu",       "unreadable",  "outsider",
					     "imbalance", "loader-gone", "activations" };

	(void)state;
	for (size_t i = 0; i < sizeof(hangs) / sizeof(hangs[0]); i++) {
		struct vt_job job;

		fill(&job, hangs[i], RANKS);
		vt_job_account(&job);
		if (job.chains.n)
			fail_msg("%s: %s", hangs[i], job.chains.data[0].links[0].text);
		vt_job_deinit(&job);
	}
}

/* Those that wait went on a moment later: it is the stop that is wrong, not that they wait. */
static void test_moved(void **state)
{
	struct vt_job job;

	(void)state;
	fill(&job, "stopped", RANKS);
	for (size_t i = 0; i < job.members.n; i++)
		job.members.data[i].moved = job.members.data[i].label.rank == 5;
	vt_job_account(&job);
	assert_int_equal(job.chains.n, 1);
	assert_int_equal(job.chains.data[0].n_links, 1);
	assert_int_equal(job.chains.data[0].hanging, 0);
	vt_job_deinit(&job);
	fill(&job, "loop", RANKS);
	for (size_t i = 0; i < job.members.n; i++)
		job.members.data[i].moved = job.members.data[i].label.rank == 5;
	vt_job_account(&job);
	assert_int_equal(job.chains.n, 0);
	vt_job_deinit(&job);
}

/* ---- several culprits ---- */

/* A stopped rank, and another one whose worker is: all others hang on each of them. */
static void test_two(void **state)
{
	struct vt_str text = { 0 };
	struct vt_job job;

	(void)state;
	fill(&job, "loader", RANKS);
	rank_of(&job, 6)->process_state = 'T';
	vt_job_account(&job);
	assert_int_equal(job.chains.n, 2);
	links_of(&job.chains.data[0], &text);
	assert_contains(vt_str_get(&text), "worker 1 of rank 2 (pid 6501) is in uninterruptible");
	assert_contains(vt_str_get(&text), " < rank 2 waits for it < ranks 0-1,3-5,7 wait in");
	assert_int_equal(job.chains.data[0].hanging, 7);
	links_of(&job.chains.data[1], &text);
	assert_contains(vt_str_get(&text), "rank 6 (pid 10000) is stopped by a signal");
	assert_contains(vt_str_get(&text), " < ranks 0-1,3-5,7 wait in all_reduce");
	assert_int_equal(job.chains.data[1].hanging, 6);
	assert_contains(job.chains.data[1].steps[0].command, "kill -CONT 10000");
	vt_job_deinit(&job);
	vt_str_deinit(&text);
}

/* Its rank may as well wait for one that works. */
static void test_other_workers(void **state)
{
	struct vt_job job;

	(void)state;
	fill(&job, "loader", RANKS);
	worker_of(&job, CULPRIT, 0)->process_state = 'T';
	vt_job_account(&job);
	assert_int_equal(job.chains.n, 2);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(job.chains.data[i].doubt, VT_DOUBT_WORKERS);
		assert_int_equal(job.chains.data[i].hanging, 8);
	}
	vt_job_deinit(&job);
}

/* Two ranks that are stopped at one place are one cause, with one command. */
static void test_together(void **state)
{
	struct vt_job job;

	(void)state;
	fill(&job, "stopped", RANKS);
	rank_of(&job, 6)->process_state = 'T';
	vt_job_account(&job);
	assert_int_equal(job.chains.n, 1);
	assert_string_equal(job.chains.data[0].links[0].text,
			    "ranks 2,6 are stopped by a signal (train.py:88 train_step)");
	assert_string_equal(job.chains.data[0].steps[0].command, "kill -CONT 6000 10000");
	assert_int_equal(job.chains.data[0].hanging, 6);
	vt_job_deinit(&job);
}

/* ---- process groups ---- */

#define TOLD_MS UINT64_C(1790000000000)

static void add_group(struct vt_job *job, int rank, const char *name, const char *ranks, bool waits)
{
	struct vt_member *m = rank_of(job, rank);
	struct vt_model_process_group *g = vt_vec_append(&m->collectives.groups);

	assert_non_null(g);
	*g = (struct vt_model_process_group){
		.backend = "nccl",
		.name = name,
		.description = "",
		.ranks = ranks,
		.last_enqueued = 3 + waits,
		.last_started = -1,
		.last_completed = 3,
		.n_pending = waits,
		.oldest = { .name = "all_reduce", .number = 4, .age_ms = 90000, .started = -1 },
	};
	m->collectives.told_ms = TOLD_MS;
	assert_true(vt_job_intern_collectives(job, &m->collectives));
}

/* Rank 0 waits for 1, which waits for 2, which waits for nobody; or for 0. */
static void test_through_groups(void **state)
{
	struct vt_str text = { 0 };

	(void)state;
	for (int circle = 0; circle < 2; circle++) {
		struct vt_job job;

		fill(&job, "none", 3);
		add_group(&job, 0, "a", "0-1", true);
		add_group(&job, 1, "a", "0-1", false);
		add_group(&job, 1, "b", "1-2", true);
		add_group(&job, 2, "b", "1-2", false);
		add_group(&job, 2, "c", "0,2", circle);
		add_group(&job, 0, "c", "0,2", false);
		vt_job_account(&job);
		assert_int_equal(job.chains.n, 1);
		assert_int_equal(job.chains.data[0].circle, circle);
		assert_int_equal(job.chains.data[0].n_links, 3);
		links_of(&job.chains.data[0], &text);
		if (!circle) {
			assert_contains(vt_str_get(&text), "rank 2 (pid ");
			assert_contains(vt_str_get(&text), " < rank 1 waits in all_reduce");
			assert_contains(vt_str_get(&text), " < rank 0 waits in all_reduce");
		}
		vt_job_deinit(&job);
	}
	vt_str_deinit(&text);
}

/* A core's path is one word for a shell. */
static void test_quoted(void **state)
{
	struct vt_job job;
	struct vt_member *m;

	(void)state;
	fill(&job, "stopped", RANKS);
	m = rank_of(&job, CULPRIT);
	m->core = "/cores/it's $(reboot)";
	m->headline = "abort()";
	vt_job_account(&job);
	assert_int_equal(job.chains.n, 1);
	assert_string_equal(job.chains.data[0].steps[0].command,
			    "vramtap report --core '/cores/it'\\''s $(reboot)'");
	vt_job_deinit(&job);
}

/* ---- the text ---- */

static char *text_of(const struct vt_job *job, int columns, bool ascii)
{
	struct vt_writer_options options = { .columns = columns, .ascii = ascii };
	size_t n;
	char *text = NULL;
	FILE *file = open_memstream(&text, &n);

	assert_non_null(file);
	assert_null(vt_write_job_text(job, &options, file));
	fclose(file);
	return text;
}

/* One line where there is room, else one for each link; a command is never cut. */
static void test_text(void **state)
{
	static const char one[] =
		"\nSTART HERE: worker 1 of rank 2 (pid 6501) is stopped by a signal (worker.py:275 _worker_loop) ← rank 2 waits for it\n"
		"    kill -CONT 6501      lets it go on\n"
		"    vramtap stacks 6501  shows where it stands\n";
	static const char many[] =
		"\nSTART HERE: worker 1 of rank 2 (pid 6501) is stopped by a signal (worker.py:275\n"
		"    _worker_loop)\n"
		"  ← rank 2 waits for it\n"
		"    kill -CONT 6501      lets it go on\n";
	struct vt_job job;
	char *text;

	(void)state;
	fill(&job, "loader-stopped", RANKS);
	vt_job_account(&job);
	text = text_of(&job, 160, false);
	assert_contains(text, one);
	free(text);
	text = text_of(&job, 80, false);
	assert_contains(text, many);
	assert_true(strstr(text, "START HERE") < strstr(text, "\n! "));
	free(text);
	text = text_of(&job, 80, true);
	assert_contains(text, "\n  <- rank 2 waits for it\n");
	free(text);
	vt_job_deinit(&job);
	fill(&job, "stopped", 16);
	vt_job_account(&job);
	text = text_of(&job, 80, false);
	assert_contains(text, "\n  on node0\n    kill -CONT 6000 ");
	free(text);
	vt_job_deinit(&job);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one),
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_moved),
		cmocka_unit_test(test_two),
		cmocka_unit_test(test_other_workers),
		cmocka_unit_test(test_together),
		cmocka_unit_test(test_through_groups),
		cmocka_unit_test(test_quoted),
		cmocka_unit_test(test_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
