/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs of 2, 8 and 1,024 ranks with a hang of a known culprit: the answer names it, saved and read
 * again it is the same; what is no saved job, or is one no more, is refused and leaves nothing
 * behind.
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
#include "base/width.h"
#include "unit/report/report_models.h"
#include "job/json/json.h"
#include "job/rules/rules.h"
#include "job/text/text.h"

struct text {
	char *data;
	size_t n;
};

static struct text written(const struct vt_job *job, vt_write_fn *write,
			   const struct vt_writer_options *options)
{
	struct text text = { 0 };
	FILE *file = open_memstream(&text.data, &text.n);

	assert_non_null(file);
	assert_null(write(job, options, file));
	fclose(file);
	return text;
}

static struct text to_json(const struct vt_job *job)
{
	static const struct vt_writer_options options = { 0 };

	return written(job, vt_write_job_json, &options);
}

static void build(struct vt_job *job, const char *hang, int ranks, int culprit)
{
	struct job_model what = { .hang = hang, .ranks = ranks, .workers = 3, .culprit = culprit };

	if (ranks >= 1024 && !strstr(hang, "loader"))
		what.workers = 0;
	vt_job_init(job);
	assert_true(job_model_fill(job, &what));
	vt_job_account(job);
	assert_false(job->failed);
}

static const struct vt_job_verdict *find_verdict(const struct vt_job *job, const char *code)
{
	for (size_t i = 0; i < job->verdicts.n; i++)
		if (!strcmp(vt_finding_name(job->verdicts.data[i].code), code))
			return &job->verdicts.data[i];
	return NULL;
}

static void assert_contains(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("\"%s\" is not in \"%s\"", part, text);
}

/* ---- the answer ---- */

/*
 * %d in text is the culprit; others: what the others do. worker: it is about the culprit's worker
 * 1.
 */
static const struct expected {
	const char *hang, *code, *text;
	bool others, worker, nobody;
} expected[] = {
	{ "loop", "missed-collective",
	  "rank %d is not in all_reduce but runs Python (packing.py:", true, false, false },
	{ "sleep", "missed-collective",
	  "rank %d is not in all_reduce but is in clock_nanosleep (train.py:81 train_step)", true,
	  false, false },
	{ "retries", "retries-allocation",
	  "rank %d retries an allocation: it gives back cached memory, in cudaFree, as it did 3 times before to retry a request "
	  "(attn.py:57 forward)",
	  true, false, false },
	{ "oom", "out-of-memory",
	  "rank %d ran out of GPU memory, kept for vramtap watch (attn.py:57 forward), asked for 2.10 GiB",
	  true, false, false },
	{ "loader", "waits-for-loader", "rank %d waits for loader workers (train.py:70 train_step)",
	  true, false, false },
	{ "loader", "loader-worker",
	  "worker 1 of rank %d is in uninterruptible sleep (D) in rpc_wait_bit_killable", false,
	  true, false },
	{ "loaders", "loader-worker",
	  "worker 1 of rank %d is in uninterruptible sleep (D) in rpc_wait_bit_killable", false,
	  true, false },
	{ "loader-busy", "loader-busy",
	  "worker 1 of rank %d runs Python (data.py:40 Images.__getitem__)", false, true, false },
	{ "loader-stopped", "loader-worker", "worker 1 of rank %d is stopped by a signal", false,
	  true, false },
	{ "loader-gone", "fewer-loader-workers", "rank %d waits for loader workers and has 2; ",
	  false, false, false },
	{ "stuck", "stuck",
	  "rank %d is in uninterruptible sleep (D) in rpc_wait_bit_killable, waits for an NFS server (data.py:31",
	  true, false, false },
	{ "stopped", "stopped", "rank %d is stopped by a signal", true, false, false },
	{ "traced", "traced", "rank %d is held by a debugger (gdb, pid 77)", true, false, false },
	{ "killed", "missing-rank", "rank %d of ", false, false, true },
	{ "unreadable", "unread-rank", "rank %d could not be read: it ended while it was looked at",
	  false, false, false },
	{ "sequences", "behind",
	  "rank %d has not begun all_reduce number 4172 of process group default_pg, the last one there was number 4170; ",
	  false, false, false },
	{ "activations", "imbalance-category", "rank %d has 40.0 GiB of activations, ", false,
	  false, false },
	{ "imbalance", "imbalance", "rank %d has 60.0 GiB in use, the median rank 40.0 GiB", false,
	  false, false },
};

static void check_answer(const struct expected *e, int ranks, int culprit)
{
	const struct vt_job_verdict *v;
	const struct vt_member *m;
	char text[200], others[40];
	struct vt_job job;

	build(&job, e->hang, ranks, culprit);
	v = find_verdict(&job, e->code);
	if (!v)
		fail_msg("%s of %d ranks: no verdict %s", e->hang, ranks, e->code);
	/* NOLINTNEXTLINE(clang-diagnostic-format-nonliteral) */
	snprintf(text, sizeof(text), e->text, culprit);
	assert_contains(v->text, text);
	snprintf(others, sizeof(others),
		 ranks > 2 ? "; the other %d wait in all_reduce" : "; rank %d waits in all_reduce",
		 ranks > 2 ? ranks - 1 : !culprit);
	if (e->others)
		assert_contains(v->text, others);
	assert_int_equal(v->members.n, !e->nobody);
	if (!e->nobody) {
		m = &job.members.data[v->members.members[0]];
		assert_int_equal(m->label.rank, culprit);
		assert_int_equal(m->label.role, e->worker ? VT_ROLE_LOADER : VT_ROLE_RANK);
		assert_int_equal(m->label.worker, e->worker ? 1 : -1);
		if (v->alarm)
			assert_true(m->outlier);
	}
	/* Nobody else is. */
	for (size_t i = 0; i < job.members.n; i++)
		if (job.members.data[i].outlier)
			assert_int_equal(job.members.data[i].label.rank, culprit);
	vt_job_deinit(&job);
}

/* Large jobs are made of a few only: that takes seconds with sanitizers. */
#define LARGE_EVERY 5

static void test_answers(void **state)
{
	static const struct {
		int ranks, culprit;
	} jobs[] = { { 2, 0 }, { 2, 1 }, { 8, 0 }, { 8, 3 }, { 1024, 300 } };

	(void)state;
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
		for (size_t k = 0; k < sizeof(jobs) / sizeof(jobs[0]); k++)
			if (jobs[k].ranks < 1024 || i % LARGE_EVERY == 0)
				check_answer(&expected[i], jobs[k].ranks, jobs[k].culprit);
}

/*
 * A rank whose GPU waits is not proven to wait for a rank: a rank that runs is named only if most
 * wait.
 */
static void test_gpu(void **state)
{
	const struct vt_job_verdict *v;
	struct vt_job job;

	(void)state;
	build(&job, "gpu", 8, 5);
	v = find_verdict(&job, "gpu-waits-for-rank");
	assert_non_null(v);
	assert_contains(v->text, "rank 5 runs Python (packing.py:");
	assert_contains(v->text, "; the other 7 are in cudaStreamSynchronize, for .item()");
	assert_false(v->alarm);
	vt_job_deinit(&job);
}

static void test_different(void **state)
{
	const struct vt_job_verdict *v;
	struct vt_job job;

	(void)state;
	build(&job, "different", 8, 5);
	v = find_verdict(&job, "different-collective");
	assert_non_null(v);
	assert_contains(
		v->text,
		"rank 5 waits in all_gather (train.py:88 train_step), but ranks 0-4,6-7 wait in all_reduce");
	assert_contains(v->text, " (fine if these are different process groups)");
	assert_false(v->alarm);
	vt_job_deinit(&job);
	/* The same one, called elsewhere. */
	build(&job, "call-site", 8, 5);
	v = find_verdict(&job, "different-collective");
	assert_non_null(v);
	assert_contains(
		v->text,
		"rank 5 waits in all_reduce (train.py:95 train_step), but ranks 0-4,6-7 wait in all_reduce (train.py:88");
	assert_false(v->alarm || job.members.data[5].outlier);
	vt_job_deinit(&job);
	/* Of two, neither is the odd one. */
	build(&job, "different", 2, 1);
	v = find_verdict(&job, "different-collective");
	assert_non_null(v);
	assert_int_equal(v->members.n, 2);
	assert_false(job.members.data[0].outlier || job.members.data[1].outlier);
	vt_job_deinit(&job);
}

static void test_equal(void **state)
{
	const struct vt_job_verdict *v;
	struct vt_job job;

	(void)state;
	build(&job, "none", 8, 0);
	assert_int_equal(job.verdicts.n, 1);
	assert_string_equal(vt_finding_name(job.verdicts.data[0].code), "all-in-collective");
	assert_contains(
		job.verdicts.data[0].text,
		"all 8 ranks wait in all_reduce (train.py:88 train_step): if they are in one process group, no rank is missing");
	assert_int_equal(job.verdicts.data[0].members.n, 8);
	vt_job_deinit(&job);
	build(&job, "loaders", 8, 2);
	assert_string_equal(vt_finding_name(job.verdicts.data[0].code), "all-wait-for-loader");
	vt_job_deinit(&job);
	build(&job, "outsider", 8, 2);
	v = find_verdict(&job, "outside-holder");
	assert_non_null(v);
	assert_string_equal(
		v->text,
		"pid 999@node0 (ipykernel), which is outside the job, holds 21.0 GiB of GPU 2 of node0");
	vt_job_deinit(&job);
}

/* ---- which ranks may be accused ---- */

#define C10D "/x/torch/distributed/distributed_c10d.py"

/* What a thread does, and how it is known. */
static const struct doing {
	char state;
	/* Python, around the innermost function; NULL no frames at all */
	const char *function, *file;
	const char *verdict, *waits;
} reduces = { 'S', "all_reduce", C10D, "in cudaEventQuery, for torch.distributed.all_reduce",
	      NULL },
  receives = { 'S', "recv", C10D, "in cudaEventQuery, for torch.distributed.recv", NULL },
  pickles = { 'R', "all_gather_object", C10D, NULL, NULL },
  launches = { 'R', "all_reduce", C10D, "in cudaLaunchKernel, for torch.distributed.all_reduce",
	       NULL },
  records = { 'R', "all_reduce", C10D, "in cudaEventRecord, for torch.distributed.all_reduce",
	      NULL },
  runs = { 'R', "step", "/home/user/a.py", NULL, NULL },
  runs_unread = { 'R', NULL, NULL, NULL, NULL },
  waits_unread = { 'S', NULL, NULL, NULL, "in poll" },
  sleeps = { 'S', "step", "/home/user/a.py", NULL, "in clock_nanosleep for 1 s" },
  reads = { 'S', "step", "/home/user/a.py", NULL, "in read of fd 3" },
  loads = { 'S', "step", "/home/user/a.py", "waits for a DataLoader worker", NULL },
  sinks = { 'D', "step", "/home/user/a.py", "waits for a disk", NULL },
  retries = { 'S', "step", "/home/user/a.py",
	      "in cudaFree, for the caching allocator, which retries a request", NULL },
  empties = { 'S', "step", "/home/user/a.py", "in cudaFree, for the caching allocator, empty_cache",
	      NULL },
  debugs = { 'S', "step", "/home/user/a.py", "in Python's debugger (pdb)", NULL },
  synchronizes = { 'S', "step", "/home/user/a.py", "in cudaDeviceSynchronize", NULL };

static struct vt_label rank_label(int rank, int world_size)
{
	return (struct vt_label){
		.host = "a",
		.pid = 100 + rank,
		.ppid = 50,
		.name = "",
		.command = "",
		.role = VT_ROLE_RANK,
		.rank = rank,
		.local_rank = rank,
		.world_size = world_size,
		.worker = -1,
		.container = "",
		.pod = "",
		.job = "",
		.in_job = true,
	};
}

static void add_thread(struct vt_model *model, const struct doing *does, bool is_main)
{
	struct vt_model_thread *t = report_add_thread(model, is_main ? 100 : 200, "python3");

	t->is_main = is_main;
	t->state = does->state;
	report_does(model, t, does->verdict, does->waits);
	if (!does->function)
		return;
	report_add_python(model, t, "innermost", "/home/user/b.py", 3);
	report_add_python(model, t, does->function, does->file, 7);
	report_add_python(model, t, "<module>", "/home/user/train.py", 9);
}

static void add_rank(struct vt_job *job, const struct vt_label *label,
		     const struct doing *main_does, const struct doing *other_does)
{
	struct vt_model model;

	vt_model_init(&model);
	model.process.pid = label->pid;
	model.process.state = main_does->state;
	add_thread(&model, main_does, true);
	if (other_does)
		add_thread(&model, other_does, false);
	assert_true(vt_job_add(job, label, &model, NULL));
	vt_model_deinit(&model);
}

#define MAX_DOERS 8

/* Ranks by what their main threads do; other: what the last one's other thread does. */
/* clang-format off */
static const struct accused {
	const struct doing *does[MAX_DOERS];
	const struct doing *other;
	int missing; /* ranks of the world that are not there */
	const char *code, *text; /* code: no such verdict when text is NULL */
	bool alarm, outlier; /* the last one */
} accused[] = {
	{ { &reduces, &reduces, &reduces, &runs }, NULL, 0, "missed-collective",
	  "rank 3 is not in all_reduce but runs", true, true },
	{ { &reduces, &runs }, NULL, 0, "missed-collective", "rank 1 is not in all_reduce but runs",
	  true, true },
	{ { &reduces, &sleeps }, NULL, 0, "missed-collective", "rank 1 is not in all_reduce but",
	  true, true },
	{ { &reduces, &reads }, NULL, 0, "missed-collective", "rank 1 is not in all_reduce but",
	  false, false },
	/* Not all are there: the one that is waited for may be another. */
	{ { &reduces, &reduces, &reduces, &runs }, NULL, 1, "missed-collective",
	  "rank 3 is not in all_reduce but runs", false, false },
	/* A process group and another. */
	{ { &reduces, &reduces, &runs, &runs }, NULL, 0, "missed-collective",
	  "ranks 2-3 are not in all_reduce but run", false, false },
	/* Nor are most accused for a few. */
	{ { &reduces, &runs, &runs, &runs }, NULL, 0, "missed-collective", NULL, false, false },
	{ { &receives, &receives, &receives, &runs }, NULL, 0, "missed-collective",
	  "rank 3 runs Python", false, false },
	{ { &reduces, &reduces, &reduces, &runs_unread }, NULL, 0, "missed-collective", NULL, false,
	  false },
	{ { &reduces, &reduces, &reduces, &waits_unread }, NULL, 0, "missed-collective", NULL,
	  false, false },
	{ { &reduces, &reduces, &reduces, &sleeps }, &reduces, 0, "missed-collective", NULL, false,
	  false },
	{ { &reduces, &reduces, &reduces, &pickles }, NULL, 0, "missed-collective", NULL, false,
	  false },
	{ { &reduces, &reduces, &reduces, &launches }, NULL, 0, "missed-collective", NULL, false,
	  false },
	{ { &reduces, &reduces, &reduces, &records }, NULL, 0, "missed-collective", NULL, false,
	  false },
	{ { &records, &runs }, NULL, 0, "missed-collective", NULL, false, false },
	{ { &synchronizes, &runs }, NULL, 0, "gpu-waits-for-rank",
	  "rank 1 runs Python (b.py:3 innermost)", false, true },
	{ { &synchronizes, &sleeps }, NULL, 0, "gpu-waits-for-rank", "(b.py:3 innermost)", false,
	  true },
	{ { &synchronizes, &runs }, NULL, 2, "gpu-waits-for-rank", "rank 1 runs Python", false,
	  false },
	{ { &synchronizes, &synchronizes, &runs, &runs }, NULL, 0, "gpu-waits-for-rank",
	  "ranks 2-3 run Python", false, false },
	/* Some wait for their GPU, and it for the others. */
	{ { &synchronizes, &synchronizes, &reduces, &loads }, NULL, 0, "waits-for-loader",
	  "rank 3 waits for loader workers", false, false },
	{ { &synchronizes, &synchronizes, &reduces, &runs }, NULL, 0, "missed-collective", NULL,
	  false, false },
	{ { &synchronizes, &synchronizes, &reduces, &runs }, NULL, 0, "gpu-waits-for-rank", NULL,
	  false, false },
	{ { &reduces, &reduces }, NULL, 0, "all-in-collective", "no rank is missing", true, false },
	{ { &receives, &receives }, NULL, 0, "all-in-collective", "both ranks wait in recv", true,
	  false },
	{ { &reduces, &reduces, &reduces, &retries }, NULL, 0, "retries-allocation",
	  "rank 3 retries an allocation: it gives back cached memory, in cudaFree (b.py:3 innermost); the other 3 wait", true, true },
	{ { &reduces, &reduces, &reduces, &empties }, NULL, 0, "retries-allocation",
	  "rank 3 is in cudaFree, for the caching allocator, empty_cache (b.py:3", true, true },
	{ { &reduces, &reduces, &reduces, &debugs }, NULL, 0, "missed-collective",
	  "rank 3 is not in all_reduce but is in Python's debugger",
	  true, true },
	/* Several process groups: a rank that waits for something else keeps only its own. */
	{ { &reduces, &reduces, &runs, &retries }, NULL, 0, "retries-allocation",
	  "rank 3 retries an allocation", false, false },
	{ { &reduces, &receives, &receives, &loads }, NULL, 0, "waits-for-loader",
	  "rank 3 waits for loader workers", false, false },
	/* Of the world not all were looked at: it waits for its loader all the same. */
	{ { &reduces, &reduces, &reduces, &loads }, NULL, 4, "waits-for-loader",
	  "rank 3 waits for loader workers", true, true },
};
/* clang-format on */

/* What GPUs run accuses nobody; it is said beside what does. */
#define NCCL "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
static const char nothing[] = "nothing", refused[] = "refused";

/* clang-format off */
static const struct {
	const struct doing *does[MAX_DOERS];
	const char *runs[MAX_DOERS]; /* the GPU of each */
	const char *code, *end;      /* how the verdict ends; NULL: there is none */
	bool outlier;                /* the last one, as without it */
} gpus[] = {
	{ { &reduces, &reduces, &reduces, &runs }, { NCCL, NCCL, NCCL, nothing }, "missed-collective",
	  "; cuda-gdb sees nothing run on the GPU of rank 3, and " NCCL " on those of ranks 0-2", true },
	{ { &reduces, &reduces, &reduces, &runs }, { NCCL, NCCL, NCCL, nothing }, "gpus-differ", NULL, true },
	{ { &reduces, &reduces, &reduces, &runs }, { NCCL, "ncclDevKernel_Broadcast", NCCL, "f" }, "missed-collective",
	  "; cuda-gdb sees f run on the GPU of rank 3, and kernels of NCCL on those of ranks 0-2", true },
	/* Of one it is not known, and another one is elsewhere. */
	{ { &reduces, &reduces, &reduces, &runs }, { NCCL, refused, NCCL, nothing }, "missed-collective",
	  "rank 3, and " NCCL " on those of ranks 0,2", true },
	{ { &reduces, &reduces, &reduces, &runs }, { NCCL, "f", NCCL, nothing }, "missed-collective",
	  "; cuda-gdb sees nothing run on the GPU of rank 3", true },
	{ { &reduces, &reduces, &reduces, &runs }, { NCCL, NCCL, NCCL, refused }, "missed-collective", "wait in all_reduce (b.py:3 innermost)", true },
	{ { &synchronizes, &synchronizes, &synchronizes, &sleeps }, { NCCL, NCCL, NCCL, nothing }, "gpu-waits-for-rank",
	  " on those of ranks 0-2", true },
	/* All stacks are the same. */
	{ { &synchronizes, &synchronizes, &synchronizes, &synchronizes }, { NCCL, NCCL, NCCL, "spin" }, "gpus-differ",
	  "the GPUs of ranks 0-2 run " NCCL ", that of rank 3 runs spin", false },
	{ { &synchronizes, &synchronizes, &synchronizes, &synchronizes }, { NCCL, NCCL, NCCL, nothing }, "gpus-differ",
	  "that of rank 3 runs nothing", false },
	{ { &synchronizes, &synchronizes, &synchronizes, &synchronizes }, { NCCL, NCCL, NCCL, NCCL }, "gpus-differ", NULL, false },
	{ { &synchronizes, &synchronizes, &synchronizes, &synchronizes }, { NCCL, NCCL, NCCL, refused }, "gpus-differ", NULL, false },
	{ { &synchronizes, &synchronizes, &synchronizes, &synchronizes }, { "f", "f", "f", nothing }, "gpus-differ", NULL, false },
	{ { &synchronizes, &synchronizes, &synchronizes, &synchronizes }, { "f", NCCL, "f", "f" }, "gpus-differ", NULL, false },
};
/* clang-format on */

static void set_runs(struct vt_job *job, struct vt_member *member, const char *name)
{
	struct vt_job_kernel *kernel;

	member->kernels.state = name == refused ? VT_KERNELS_REFUSED :
				name == nothing ? VT_KERNELS_NONE :
						  VT_KERNELS_TOLD;
	if (member->kernels.state != VT_KERNELS_TOLD)
		return;
	kernel = vt_vec_append(&member->kernels.list);
	assert_non_null(kernel);
	*kernel = (struct vt_job_kernel){ .name = vt_job_copy(job, name) };
}

static bool ends_with(const char *text, const char *end)
{
	return strlen(text) >= strlen(end) && !strcmp(text + strlen(text) - strlen(end), end);
}

static void test_gpus(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(gpus) / sizeof(gpus[0]); i++) {
		const struct vt_job_verdict *v;
		struct vt_job job;

		vt_job_init(&job);
		for (int rank = 0; rank < 4; rank++) {
			const struct vt_label label = rank_label(rank, 4);

			add_rank(&job, &label, gpus[i].does[rank], NULL);
			set_runs(&job, &job.members.data[rank], gpus[i].runs[rank]);
		}
		vt_job_account(&job);
		assert_false(job.failed);
		v = find_verdict(&job, gpus[i].code);
		if (gpus[i].end && (!v || !ends_with(v->text, gpus[i].end)))
			fail_msg("case %zu: %s", i, v ? v->text : "no verdict");
		if (!gpus[i].end && v)
			fail_msg("case %zu: %s", i, v->text);
		if (v && v->code == VT_FINDING_GPUS_DIFFER)
			assert_false(v->alarm);
		for (int rank = 0; rank < 4; rank++)
			assert_int_equal(job.members.data[rank].outlier,
					 rank == 3 && gpus[i].outlier);
		vt_job_deinit(&job);
	}
}

/* The kernel's log has this fault of the process with that pid; 0: of no process. */
static void add_xid(struct vt_job *job, uint32_t code, pid_t pid, enum vt_fault_owner owner)
{
	const struct vt_label *label = &job->members.data[0].label;
	struct vt_model_usage usage = { 0 };
	struct vt_model_faults faults = { .state = VT_FAULTS_READ, .why = "" };
	struct vt_model_xid *xid = vt_vec_append(&faults.xids);

	assert_non_null(xid);
	*xid = (struct vt_model_xid){ .code = code,
				      .owner = owner,
				      .pid = pid,
				      .name = "",
				      .pci = "0000:1B:00",
				      .device = -1,
				      .text = "",
				      .n = 1 };
	assert_true(vt_job_add_usage(job, label->host, label->system, &usage, &faults));
}

/* A rank whose GPU, or context, is lost is what the others wait for, whatever it does itself. */
static void test_faults(void **state)
{
	static const struct {
		uint32_t code; /* in the log; 0 nothing */
		enum vt_fault_owner owner;
		enum vt_context_lost lost;
		const struct doing *does;
		enum vt_finding found; /* VT_N_FINDINGS: nothing of it */
		const char *text;
	} cases[] = {
		{ 79, VT_FAULT_OURS, VT_CONTEXT_NOT_LOST, &synchronizes, VT_FINDING_GPU_FAULT,
		  "the GPU of rank 3 has a fault: Xid 79 (the GPU has fallen off the bus)" },
		{ 79, VT_FAULT_OURS, VT_CONTEXT_LIKELY_LOST, &reduces, VT_FINDING_GPU_FAULT,
		  "the GPU of rank 3 has a fault: Xid 79 (the GPU has fallen off the bus)" },
		{ 31, VT_FAULT_OURS, VT_CONTEXT_LOST, &synchronizes, VT_FINDING_CONTEXT_LOST,
		  "rank 3 has lost its CUDA context: Xid 31 (GPU memory page fault)" },
		{ 0, VT_FAULT_OURS, VT_CONTEXT_LIKELY_LOST, &reduces, VT_FINDING_CONTEXT_LOST,
		  "rank 3 has likely lost its CUDA context" },
		{ 31, VT_FAULT_OURS, VT_CONTEXT_NOT_LOST, &reduces, VT_N_FINDINGS, NULL },
		{ 79, VT_FAULT_NOBODYS, VT_CONTEXT_NOT_LOST, &reduces, VT_N_FINDINGS, NULL },
		{ 79, VT_FAULT_UNKNOWN, VT_CONTEXT_NOT_LOST, &reduces, VT_N_FINDINGS, NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct vt_job_verdict *v = NULL;
		struct vt_job job;

		vt_job_init(&job);
		for (int rank = 0; rank < 4; rank++) {
			const struct vt_label label = rank_label(rank, 4);

			add_rank(&job, &label, rank == 3 ? cases[i].does : &reduces, NULL);
		}
		job.members.data[3].lost = cases[i].lost;
		job.members.data[3].lost_by = cases[i].lost == VT_CONTEXT_LOST ? cases[i].code : 0;
		if (cases[i].code)
			add_xid(&job, cases[i].code, job.members.data[3].label.pid, cases[i].owner);
		vt_job_account(&job);
		assert_false(job.failed);
		if (cases[i].found == VT_N_FINDINGS) {
			assert_null(find_verdict(&job, "gpu-fault"));
			assert_null(find_verdict(&job, "context-lost"));
		} else {
			v = find_verdict(&job, vt_finding_name(cases[i].found));
			assert_non_null(v);
			assert_string_equal(v->text, cases[i].text);
			assert_true(v->alarm);
			assert_true(job.members.data[3].outlier);
			assert_int_equal(job.chains.n, 1);
			assert_int_equal(job.chains.data[0].code, cases[i].found);
			assert_string_equal(job.chains.data[0].links[0].text, cases[i].text);
			assert_int_equal(job.chains.data[0].hanging, 3);
			assert_int_equal(job.chains.data[0].doubt, VT_DOUBT_NONE);
		}
		assert_int_equal(job.faults.n, cases[i].code != 0);
		vt_job_deinit(&job);
	}
}

static void check_accused(const struct accused *a)
{
	const struct vt_job_verdict *v;
	struct vt_job job;
	int n = 0;

	while (n < MAX_DOERS && a->does[n])
		n++;
	vt_job_init(&job);
	for (int rank = 0; rank < n; rank++) {
		struct vt_label label = rank_label(rank, n + a->missing);

		add_rank(&job, &label, a->does[rank], rank == n - 1 ? a->other : NULL);
	}
	vt_job_account(&job);
	v = find_verdict(&job, a->code);
	if (!v != !a->text)
		fail_msg("case %zu: %s", (size_t)(a - accused), v ? v->text : a->code);
	if (v) {
		assert_contains(v->text, a->text);
		if (v->alarm != a->alarm || job.members.data[n - 1].outlier != a->outlier)
			fail_msg("case %zu: alarm %d, outlier %d", (size_t)(a - accused), v->alarm,
				 job.members.data[n - 1].outlier);
	}
	vt_job_deinit(&job);
}

static void test_accused(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(accused) / sizeof(accused[0]); i++)
		check_accused(&accused[i]);
}

/* The same at one moment, and different once it is known which ones slept on. */
/* clang-format off */
static const struct glanced {
	const struct doing *does[MAX_DOERS];
	int moved[MAX_DOERS];
	const char *code, *text; /* code: no such verdict when text is NULL */
	bool alarm, outlier; /* the last one */
} glanced[] = {
	{ { &reduces, &reduces, &reduces, &runs }, { 0, 0, 0, -1 }, "missed-collective",
	  "rank 3 is not in all_reduce", true, true },
	/* A step of a job that is well. */
	{ { &reduces, &reduces, &reduces, &runs }, { 0, 1, 0, -1 }, "missed-collective",
	  "rank 3 is not in all_reduce", false, false },
	{ { &reduces, &runs }, { 1, -1 }, "missed-collective", "rank 1 is not in all_reduce", false,
	  false },
	{ { &reduces, &reduces, &reduces, &reduces }, { 0, 0, 0, 0 }, "all-in-collective",
	  "no rank is missing", true, false },
	{ { &reduces, &reduces, &reduces, &reduces }, { 0, 0, 1, 0 }, "all-in-collective",
	  "all 4 ranks wait", false, false },
	{ { &reduces, &reduces, &reduces, &loads }, { 0, 0, 0, 0 }, "waits-for-loader",
	  "rank 3 waits for loader", true, true },
	{ { &reduces, &reduces, &reduces, &loads }, { 0, 0, 0, 1 }, "waits-for-loader",
	  "rank 3 waits for loader", false, false },
	{ { &reduces, &reduces, &reduces, &loads }, { 1, 0, 0, 0 }, "waits-for-loader",
	  "rank 3 waits for loader", false, false },
	{ { &synchronizes, &synchronizes, &reduces, &loads }, { 0, 0, 0, 0 }, "waits-for-loader",
	  "rank 3 waits", true, true },
	{ { &synchronizes, &synchronizes, &reduces, &loads }, { -1, 0, 0, 0 }, "waits-for-loader",
	  "rank 3 waits", false, false },
	/* Of process groups: another rank computes. */
	{ { &reduces, &reduces, &runs, &loads }, { 0, 0, -1, 0 }, "waits-for-loader",
	  "rank 3 waits", false, false },
	{ { &loads, &loads }, { 0, 0 }, "all-wait-for-loader", "both ranks wait", true, false },
	{ { &loads, &loads }, { 0, 1 }, "all-wait-for-loader", "both ranks wait", false, false },
	/* A GPU that is busy. */
	{ { &synchronizes, &synchronizes }, { -1, -1 }, "all-wait-for-gpu",
	  "both ranks are in cudaDeviceSynchronize", false, false },
	{ { &synchronizes, &synchronizes }, { 0, 0 }, "all-wait-for-gpu",
	  "both ranks are in cudaDeviceSynchronize", true, false },
	/* A disk that is. */
	{ { &reduces, &reduces, &reduces, &sinks }, { 0, 0, 0, 0 }, "stuck",
	  "rank 3 is in uninterruptible sleep (D)", true, true },
	{ { &reduces, &reduces, &reduces, &sinks }, { 0, 0, 0, 1 }, "stuck", NULL, false, false },
	{ { &reduces, &reduces, &reduces, &sinks }, { 0, 0, 0, 1 }, "missed-collective",
	  "rank 3 is not in all_reduce but waits for a disk",
	  true, true },
};
/* clang-format on */

static void check_glanced(const struct glanced *g)
{
	const struct vt_job_verdict *v;
	struct vt_job job;
	int n = 0;

	while (n < MAX_DOERS && g->does[n])
		n++;
	vt_job_init(&job);
	for (int rank = 0; rank < n; rank++) {
		struct vt_label label = rank_label(rank, n);

		add_rank(&job, &label, g->does[rank], NULL);
		job.members.data[rank].moved = g->moved[rank];
	}
	vt_job_account(&job);
	v = find_verdict(&job, g->code);
	if (!v != !g->text)
		fail_msg("case %zu: %s", (size_t)(g - glanced), v ? v->text : g->code);
	if (v) {
		assert_contains(v->text, g->text);
		if (v->alarm != g->alarm || job.members.data[n - 1].outlier != g->outlier)
			fail_msg("case %zu: alarm %d, outlier %d", (size_t)(g - glanced), v->alarm,
				 job.members.data[n - 1].outlier);
	}
	vt_job_deinit(&job);
}

static void test_glanced(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(glanced) / sizeof(glanced[0]); i++)
		check_glanced(&glanced[i]);
}

/*
 * A network is not to blame while nobody knows how many ranks there are, or for what two of them
 * do.
 */
static void test_network_is_not_blamed(void **state)
{
	static const struct doing *const does[] = { &reduces, &receives };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct vt_job job;

		vt_job_init(&job);
		for (int rank = 0; rank < 2; rank++) {
			struct vt_label label = rank_label(rank, i ? 2 : -1);

			add_rank(&job, &label, does[i], NULL);
		}
		vt_job_account(&job);
		assert_string_equal(vt_finding_name(job.verdicts.data[0].code),
				    "all-in-collective");
		assert_null(strstr(job.verdicts.data[0].text, "no rank is missing"));
		vt_job_deinit(&job);
	}
}

/* Somebody else's rank 1 on a device of ours is not ours. */
static void test_rank_of_others(void **state)
{
	static const struct vt_writer_options options = { .columns = 160 };
	struct job_model what = { .hang = "outsider", .ranks = 4, .culprit = 2 };
	const struct vt_job_verdict *v;
	struct text text;
	struct vt_job job;

	(void)state;
	vt_job_init(&job);
	assert_true(job_model_fill(&job, &what));
	job.members.data[job.members.n - 1].label.role = VT_ROLE_RANK;
	job.members.data[job.members.n - 1].label.rank = 1;
	vt_job_account(&job);
	v = find_verdict(&job, "outside-holder");
	assert_non_null(v);
	assert_contains(v->text, "pid 999@node0 (ipykernel), which is outside the job, ");
	text = written(&job, vt_write_job_text, &options);
	assert_contains(text.data, "999@node0 (ipykernel, out");
	free(text.data);
	vt_job_deinit(&job);
}

static void other_job(struct vt_label *label)
{
	label->job = "slurm 4712";
}

static void other_world(struct vt_label *label)
{
	label->world_size = 7;
}

static void same_rank(struct vt_label *label)
{
	label->rank = label->local_rank = 0;
}

static void no_rank(struct vt_label *label)
{
	label->rank = label->local_rank = -1;
}

/*
 * What is not one job is not compared: two jobs, a notebook, a process with the number of another.
 */
static void test_not_compared(void **state)
{
	static void (*const changes[])(struct vt_label * label) = { other_job, other_world,
								    same_rank, no_rank };
	static const struct vt_writer_options options = { .columns = 100 };
	struct text text;

	(void)state;
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		struct vt_job job;

		vt_job_init(&job);
		for (int rank = 0; rank < 4; rank++) {
			struct vt_label label = rank_label(rank, 4);

			if (rank == 3)
				changes[i](&label);
			add_rank(&job, &label, rank == 3 ? &runs : &reduces, NULL);
		}
		vt_job_account(&job);
		assert_int_equal(job.verdicts.n, 1);
		assert_string_equal(vt_finding_name(job.verdicts.data[0].code), "ranks");
		assert_contains(job.verdicts.data[0].text,
				"not compared, because they may belong to different jobs: ");
		text = written(&job, vt_write_job_text, &options);
		assert_int_equal(!strncmp(text.data, "several jobs, one of them ", 26),
				 changes[i] == other_job);
		free(text.data);
		assert_int_equal(job.diags.n, 1);
		assert_string_equal(job.diags.data[0].code, "not-compared");
		vt_job_deinit(&job);
	}
}

/* Without numbers: those that one process has started. */
static void test_ranks_without_numbers(void **state)
{
	(void)state;
	for (int siblings = 0; siblings < 2; siblings++) {
		struct vt_job job;

		vt_job_init(&job);
		for (int i = 0; i < 3; i++) {
			struct vt_label label = rank_label(i, -1);

			no_rank(&label);
			label.ppid = siblings ? 50 : 50 + i;
			add_rank(&job, &label, i == 2 ? &runs : &reduces, NULL);
		}
		vt_job_account(&job);
		assert_int_equal(find_verdict(&job, "missed-collective") != NULL, siblings);
		vt_job_deinit(&job);
	}
}

static void add_on_host(struct vt_job *job, const char *host, int rank, int local_rank,
			int world_size, int local_world_size)
{
	struct vt_label label = rank_label(rank, world_size);

	label.host = host;
	label.local_rank = local_rank;
	label.local_world_size = local_world_size;
	add_rank(job, &label, &runs, NULL);
}

static void test_missing(void **state)
{
	const struct vt_job_verdict *v;
	struct vt_job job;

	(void)state;
	/* Four to a host were asked for; there are three ranks. */
	vt_job_init(&job);
	for (int rank = 0; rank < 3; rank++)
		add_on_host(&job, "a", rank, rank, 3, 4);
	vt_job_account(&job);
	assert_null(find_verdict(&job, "missing-rank"));
	vt_job_deinit(&job);
	/* Number 2 is on the other host. */
	vt_job_init(&job);
	for (int rank = 0; rank < 3; rank++)
		add_on_host(&job, rank == 2 ? "b" : "a", rank, rank % 2, 8, rank == 2 ? 1 : 3);
	vt_job_account(&job);
	assert_null(find_verdict(&job, "missing-rank"));
	vt_job_deinit(&job);
	/* One alone does not say which numbers its host has. */
	vt_job_init(&job);
	add_on_host(&job, "a", 5, 1, 8, 2);
	vt_job_account(&job);
	v = find_verdict(&job, "missing-rank");
	assert_non_null(v);
	assert_string_equal(
		v->text,
		"local rank 0 of 2 is missing: no process that was found on a is it; it was killed or ended, unless it was "
		"left out");
	vt_job_deinit(&job);
	/* Several are one sentence. */
	for (int n = 1; n < 3; n++) {
		vt_job_init(&job);
		for (int rank = 3; rank < 3 + n; rank++)
			add_on_host(&job, "b", 8 + rank, rank, 16, 8);
		vt_job_account(&job);
		v = find_verdict(&job, "missing-rank");
		assert_non_null(v);
		assert_string_equal(
			v->text,
			n == 1 ?
				"local ranks 0-2,4-7 of 8 are missing: no processes that were found on b are these; they were "
				"killed or ended, unless they were left out" :
				"ranks 8-10,13-15 of 16 are missing: no processes that were found on b are local ranks 0-2,5-7 "
				"of 8; they were killed or ended, unless they were left out");
		for (size_t i = 0; i < job.verdicts.n; i++)
			assert_true(&job.verdicts.data[i] == v ||
				    job.verdicts.data[i].code != v->code);
		vt_job_deinit(&job);
	}
}

/*
 * Ranks that begin another loader have more workers for a while, and other processes may look like
 * workers.
 */
static void test_fewer_workers(void **state)
{
	static const int n_workers[] = { 4, 4, 4, 3 };
	struct vt_job job;

	(void)state;
	for (int waits = 0; waits < 2; waits++) {
		vt_job_init(&job);
		for (int rank = 0; rank < 4; rank++) {
			struct vt_label label = rank_label(rank, 4);

			add_rank(&job, &label, waits && rank == 3 ? &loads : &runs, NULL);
			label.of = label.pid;
			label.role = VT_ROLE_LOADER;
			for (int i = 0; i < n_workers[rank]; i++) {
				label.pid = 1000 + 10 * rank + i;
				label.worker = i + 1; /* a logger was number 0 */
				add_rank(&job, &label, &reads, NULL);
			}
		}
		vt_job_account(&job);
		if (waits)
			assert_string_equal(
				find_verdict(&job, "fewer-loader-workers")->text,
				"rank 3 waits for loader workers and has 3; most ranks have 4 or more");
		else
			assert_null(find_verdict(&job, "fewer-loader-workers"));
		for (size_t i = 0; i < job.verdicts.n; i++)
			assert_false(job.verdicts.data[i].alarm);
		vt_job_deinit(&job);
	}
}

static void add_ended(struct vt_job *job, int pid, enum vt_role role, pid_t of)
{
	struct vt_label label = rank_label(-1, -1);

	label.pid = pid;
	label.name = "python3";
	label.role = role;
	label.of = of;
	label.worker = of ? 0 : -1;
	assert_true(vt_job_add(job, &label, NULL, "it is a zombie"));
	job->members.data[job->members.n - 1].process_state = 'Z';
}

/*
 * Its number went with its environment: its rank is known if it is the only zombie, and one rank is
 * missing.
 */
static void test_zombies(void **state)
{
	(void)state;
	for (int n = 0; n <= 2; n++) {
		const struct vt_job_verdict *v;
		struct vt_job job;

		vt_job_init(&job);
		for (int rank = 0; rank < 4; rank++) {
			struct vt_label label = rank_label(rank, 4);

			if (rank != 2)
				add_rank(&job, &label, &reduces, NULL);
		}
		for (int i = 0; i < n; i++)
			add_ended(&job, 500 + i, VT_ROLE_OTHER, 0);
		vt_job_account(&job);
		v = find_verdict(&job, "missing-rank");
		assert_non_null(v);
		assert_true(v->alarm);
		assert_int_equal(v->members.n, n == 1);
		if (n == 1)
			assert_string_equal(
				v->text,
				"rank 2 of 4 has ended or was killed: pid 500 (python3) on a is a zombie that its "
				"parent 50 has not reaped");
		else
			assert_contains(
				v->text,
				"rank 2 of 4 is missing: no process that was found on a is local rank 2");
		if (n == 1)
			assert_true(job.members.data[v->members.members[0]].outlier);
		vt_job_deinit(&job);
	}
}

/* A worker that has ended is what its rank waits for; of a rank that goes on it is nothing. */
static void test_ended_workers(void **state)
{
	(void)state;
	for (int waits = 0; waits < 2; waits++) {
		const struct vt_job_verdict *v;
		struct vt_job job;

		vt_job_init(&job);
		for (int rank = 0; rank < 4; rank++) {
			struct vt_label label = rank_label(rank, 4);

			add_rank(&job, &label, waits && rank == 3 ? &loads : &reduces, NULL);
		}
		add_ended(&job, 500, VT_ROLE_LOADER, 103);
		vt_job_account(&job);
		v = find_verdict(&job, "loader-worker");
		assert_int_equal(v != NULL, waits);
		if (v) {
			assert_contains(v->text, " has ended, but its parent has not reaped it");
			assert_true(v->alarm);
			assert_int_equal(job.members.data[v->members.members[0]].label.pid, 500);
		}
		vt_job_deinit(&job);
	}
}

/* ---- process groups ---- */

#define TOLD_MS UINT64_C(1790000000000)

/* Of a rank in a process group; pending 0: it waits in nothing there. */
struct in_group {
	int begun, completed, pending;
	unsigned int age_ms;
	const char *name, *input;
	int started;
	bool of_two;
	bool not_told;         /* its recorder did not answer */
	bool not_there;        /* it does not know the group, but another one */
	unsigned int ahead_ms; /* its host's clock is */
};

#define UP_TO(n)                               \
	{                                      \
		.begun = (n), .completed = (n) \
	}
#define WAITS(n, ms)                                                              \
	{                                                                         \
		.begun = (n), .completed = (n)-1, .pending = (n), .age_ms = (ms), \
		.name = "all_reduce", .started = -1                               \
	}

/* All in one group; NULL code: no verdict about collectives. */
static const struct {
	struct in_group ranks[4];
	const char *code, *text;
	bool calm; /* no alarm */
} groups[] = {
	/* Ranks that run are a few apart, in whatever order they are looked at. */
	{ { UP_TO(9), UP_TO(9), WAITS(10, 40), UP_TO(11) }, NULL, NULL },
	{ { WAITS(10, 2500), WAITS(10, 90), WAITS(10, 12), UP_TO(9) }, NULL, NULL },
	/* One is. The last to come counts for how long. */
	{ { WAITS(10, 9000), WAITS(10, 5000), WAITS(10, 7000), UP_TO(9) },
	  "behind",
	  "rank 3 has not begun all_reduce number 10 of process group default_pg, the last one there was number 9; ranks 0-2 wait in it for "
	  "5 s" },
	{ { WAITS(10, 9000), UP_TO(7), WAITS(10, 7000), UP_TO(9) },
	  "behind",
	  "ranks 1,3 have not begun all_reduce number 10 of process group default_pg; ranks 0,2 wait in it for 7 s" },
	{ { WAITS(10, 9000), WAITS(10, 9000), UP_TO(0), WAITS(10, 9000) },
	  "behind",
	  ", nor any there before; " },
	{ { WAITS(10, 9000), WAITS(10, 9000), WAITS(10, 9000), { .not_there = true } },
	  "behind",
	  "rank 3 has not begun " },
	/* Others wait for what comes after that. */
	{ { WAITS(11, 9000), WAITS(10, 9000), WAITS(10, 9000), UP_TO(9) },
	  "behind",
	  "; ranks 1-2 wait in it" },
	/* By the clocks of the waiting ranks that was just now: another one's is wrong. */
	{ { WAITS(10, 900),
	    WAITS(10, 900),
	    WAITS(10, 900),
	    { .begun = 9, .completed = 9, .ahead_ms = 60000 } },
	  NULL,
	  NULL },
	{ { WAITS(10, 9000),
	    WAITS(10, 9000),
	    WAITS(10, 9000),
	    { .begun = 9, .completed = 9, .ahead_ms = 60000 } },
	  "behind",
	  " wait in it for 9 s" },
	/* Of one that did not tell nothing is known. */
	{ { WAITS(10, 9000), WAITS(10, 9000), WAITS(10, 9000), { .not_told = true } },
	  "collective-waits",
	  "ranks 0-2 wait in all_reduce number 10 of process group default_pg for 9 s; it is not known whether the 1 other of the group has begun it",
	  true },
	{ { WAITS(10, 40000), WAITS(10, 40000), { .not_told = true }, { .not_told = true } },
	  "collective-waits",
	  "ranks 0-1 wait in all_reduce number 10 of process group default_pg for 40 s; it is not known whether the 2 others of the group have begun it" },
	{ { WAITS(10, 900), WAITS(10, 900), WAITS(10, 900), { .not_told = true } }, NULL, NULL },
	{ { WAITS(10, 9000), WAITS(10, 9000), WAITS(10, 9000), { .begun = -1, .completed = -1 } },
	  NULL,
	  NULL },
	/* Transfers are between two: a rank that is not in one is not behind. */
	{ { { .begun = 10,
	      .completed = 10,
	      .pending = 3,
	      .age_ms = 9000,
	      .name = "recv 0<-1",
	      .of_two = true },
	    UP_TO(10),
	    UP_TO(10),
	    UP_TO(9) },
	  NULL,
	  NULL },
	/* All have begun it. */
	{ { WAITS(10, 90000), WAITS(10, 90000), WAITS(10, 90000), WAITS(10, 40000) },
	  "collective-stalls",
	  "all 4 ranks have all begun all_reduce number 10 of process group default_pg and wait in it for 40 s: no rank is missing; the cause is NCCL" },
	/* The GPUs may have other work before it. */
	{ { WAITS(10, 9000), WAITS(10, 9000), WAITS(10, 9000), WAITS(10, 4000) },
	  "collective-stalls",
	  " wait in it for 4 s: no rank is missing",
	  true },
	{ { WAITS(10, 900), WAITS(10, 900), WAITS(10, 900), WAITS(10, 900) }, NULL, NULL },
	{ { WAITS(10, 90000),
	    WAITS(10, 90000),
	    { .begun = 10, .completed = 10 },
	    WAITS(10, 90000) },
	  "not-completed",
	  "ranks 0-1,3 have not completed all_reduce number 10" },
	{ { WAITS(10, 9000), WAITS(10, 9000), { .begun = 10, .completed = 10 }, WAITS(10, 9000) },
	  "not-completed",
	  "ranks 0-1,3 have not completed all_reduce number 10",
	  true },
	{ { WAITS(10, 9000),
	    { .begun = 10,
	      .completed = 9,
	      .pending = 10,
	      .age_ms = 9000,
	      .name = "broadcast",
	      .started = -1 },
	    WAITS(10, 9000),
	    WAITS(10, 9000) },
	  "mismatched-collective",
	  "rank 1 began broadcast as number 10 of process group default_pg, ranks 0,2-3 all_reduce: they wait for each other for 9 s" },
	{ { { .begun = 10,
	      .completed = 9,
	      .pending = 10,
	      .age_ms = 9000,
	      .name = "all_reduce",
	      .input = "[8] Float" },
	    { .begun = 10,
	      .completed = 9,
	      .pending = 10,
	      .age_ms = 9000,
	      .name = "all_reduce",
	      .input = "[9] Float" },
	    { .begun = 10,
	      .completed = 9,
	      .pending = 10,
	      .age_ms = 9000,
	      .name = "all_reduce",
	      .input = "[9] Float" },
	    { .begun = 10,
	      .completed = 9,
	      .pending = 10,
	      .age_ms = 9000,
	      .name = "all_reduce",
	      .input = "[9] Float" } },
	  "mismatched-collective",
	  "rank 0 began all_reduce of [8] Float as number 10 of process group default_pg, ranks 1-3 all_reduce of [9] Float" },
	{ { { .begun = 10,
	      .completed = 9,
	      .pending = 10,
	      .age_ms = 90000,
	      .name = "all_gather",
	      .started = 1 },
	    { .begun = 10,
	      .completed = 9,
	      .pending = 10,
	      .age_ms = 90000,
	      .name = "all_gather",
	      .started = 1 },
	    { .begun = 10,
	      .completed = 9,
	      .pending = 10,
	      .age_ms = 90000,
	      .name = "all_gather",
	      .started = 0 },
	    { .begun = 10,
	      .completed = 9,
	      .pending = 10,
	      .age_ms = 90000,
	      .name = "all_gather",
	      .started = 1 } },
	  "not-started",
	  "the GPU of rank 2 has not started all_gather number 10 of process group default_pg, those of ranks 0-1,3 have: earlier work does not finish; they wait for 1 min" },
	{ { { .begun = 10,
	      .completed = 9,
	      .pending = 10,
	      .age_ms = 9000,
	      .name = "all_gather",
	      .started = 1 },
	    { .begun = 10,
	      .completed = 9,
	      .pending = 10,
	      .age_ms = 9000,
	      .name = "all_gather",
	      .started = 1 },
	    { .begun = 10,
	      .completed = 9,
	      .pending = 10,
	      .age_ms = 9000,
	      .name = "all_gather",
	      .started = 0 },
	    { .begun = 10,
	      .completed = 9,
	      .pending = 10,
	      .age_ms = 9000,
	      .name = "all_gather",
	      .started = 1 } },
	  "not-started",
	  "the GPU of rank 2 has not started all_gather number 10 of process group default_pg, those of ranks 0-1,3 have; they wait for 9 s",
	  true },
};

static void set_group(struct vt_job *job, struct vt_member *m, const struct in_group *in)
{
	struct vt_model_process_group *g;

	vt_vec_deinit(&m->collectives.groups);
	m->collectives.told_ms = 0;
	if (in->not_told)
		return;
	m->collectives.told_ms = TOLD_MS + in->ahead_ms;
	g = vt_vec_append(&m->collectives.groups);
	assert_non_null(g);
	*g = (struct vt_model_process_group){
		.backend = "nccl",
		.name = "0",
		.description = "default_pg",
		.ranks = "0-3",
		.last_enqueued = in->begun,
		.last_started = -1,
		.last_completed = in->completed,
		.n_pending = in->pending > 0,
		.oldest = { .name = in->name,
			    .number = in->pending,
			    .age_ms = in->age_ms,
			    .input = in->input,
			    .started = in->started,
			    .of_two = in->of_two },
	};
	if (in->not_there)
		*g = (struct vt_model_process_group){
			.backend = "nccl", .name = "1", .description = "", .ranks = "3"
		};
	assert_true(vt_job_intern_collectives(job, &m->collectives));
}

static bool is_of_collectives(const struct vt_job_verdict *v)
{
	static const char *const codes[] = { "behind",           "collective-stalls",
					     "collective-waits", "not-completed",
					     "not-started",      "mismatched-collective" };

	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		if (!strcmp(vt_finding_name(v->code), codes[i]))
			return true;
	return false;
}

static void test_process_groups(void **state)
{
	struct job_model what = { .hang = "none", .ranks = 4 };

	(void)state;
	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
		const struct vt_job_verdict *v = NULL;
		struct vt_job job;

		vt_job_init(&job);
		assert_true(job_model_fill(&job, &what));
		for (size_t k = 0; k < job.members.n; k++)
			if (job.members.data[k].label.rank >= 0 &&
			    job.members.data[k].label.rank < 4)
				set_group(&job, &job.members.data[k],
					  &groups[i].ranks[job.members.data[k].label.rank]);
		vt_job_account(&job);
		for (size_t k = 0; k < job.verdicts.n; k++) {
			if (!is_of_collectives(&job.verdicts.data[k]))
				continue;
			assert_null(v);
			v = &job.verdicts.data[k];
		}
		if (!v != !groups[i].code)
			fail_msg("row %zu: %s", i, v ? v->text : "no verdict");
		if (v) {
			assert_int_equal(v->alarm, !groups[i].calm);
			assert_string_equal(vt_finding_name(v->code), groups[i].code);
			assert_contains(v->text, groups[i].text);
		}
		vt_job_deinit(&job);
	}
}

static void add_group(struct vt_job *job, struct vt_member *m, const char *backend,
		      const char *name, const char *ranks, bool waits)
{
	struct vt_model_process_group *g = vt_vec_append(&m->collectives.groups);

	assert_non_null(g);
	*g = (struct vt_model_process_group){
		.backend = backend,
		.name = name,
		.description = "",
		.ranks = ranks,
		.last_enqueued = 3 + waits,
		.last_started = -1,
		.last_completed = 3,
		.n_pending = waits,
		.oldest = { .name = "all_reduce", .number = 4, .age_ms = 90000 },
	};
	m->collectives.told_ms = TOLD_MS;
	assert_true(vt_job_intern_collectives(job, &m->collectives));
}

/*
 * Of Gloo's groups the ranks are a guess, which two may make differently; and a rank may have one
 * recorder only.
 */
static void test_unsure_groups(void **state)
{
	struct job_model what = { .hang = "none", .ranks = 4 };
	const struct vt_job_verdict *v;

	(void)state;
	for (int gloo = 0; gloo < 2; gloo++) {
		struct vt_job job;

		vt_job_init(&job);
		assert_true(job_model_fill(&job, &what));
		for (size_t i = 0; i < job.members.n; i++) {
			struct vt_member *m = &job.members.data[i];
			bool last = m->label.rank == 3;

			if (gloo)
				add_group(&job, m, "gloo", "0",
					  last          ? "0-3" :
					  m->label.rank ? NULL :
							  "0-1",
					  last);
			else
				add_group(&job, m, last ? "gloo" : "nccl", "0", "0-3", !last);
		}
		vt_job_account(&job);
		v = find_verdict(&job, "behind");
		assert_int_equal(v != NULL, gloo);
		if (v)
			assert_contains(
				v->text,
				"ranks 0-2 have not begun all_reduce number 4 of process group 0, the last one there was number 3; ");
		vt_job_deinit(&job);
	}
}

/* "All" are those of the world, not those that could be read. */
static void test_not_all(void **state)
{
	static const struct in_group in[] = {
		WAITS(10, 90000), WAITS(10, 90000), WAITS(10, 90000), { .not_told = true }
	};
	struct job_model what = { .hang = "unreadable", .ranks = 4, .culprit = 3 };
	const struct vt_job_verdict *v;
	struct vt_job job;

	(void)state;
	vt_job_init(&job);
	assert_true(job_model_fill(&job, &what));
	for (size_t i = 0; i < job.members.n; i++)
		set_group(&job, &job.members.data[i], &in[job.members.data[i].label.rank]);
	vt_job_account(&job);
	v = find_verdict(&job, "collective-waits");
	assert_non_null(v);
	assert_contains(v->text, "ranks 0-2 wait in all_reduce number 10");
	vt_job_deinit(&job);
}

/* The others do not wait for one that waits in a collective of another group. */
static void test_waits_itself(void **state)
{
	struct job_model what = { .hang = "loop", .ranks = 4, .culprit = 3 };

	(void)state;
	for (int waits = 0; waits < 2; waits++) {
		const struct vt_job_verdict *v;
		struct vt_job job;

		vt_job_init(&job);
		assert_true(job_model_fill(&job, &what));
		for (size_t i = 0; i < job.members.n && waits; i++)
			if (job.members.data[i].label.rank == 3)
				add_group(&job, &job.members.data[i], "nccl", "1", "2-3", true);
		vt_job_account(&job);
		v = find_verdict(&job, "missed-collective");
		assert_non_null(v);
		assert_int_equal(v->alarm, !waits);
		assert_int_equal(job.members.data[3].outlier, !waits);
		vt_job_deinit(&job);
	}
}

/* It is not said to be well where it is known not to be. */
static void test_different_in_one_group(void **state)
{
	struct job_model what = { .hang = "different", .ranks = 4, .culprit = 3 };
	struct in_group in = WAITS(10, 9000);

	(void)state;
	for (int known = 0; known < 2; known++) {
		const struct vt_job_verdict *v;
		struct vt_job job;

		vt_job_init(&job);
		assert_true(job_model_fill(&job, &what));
		for (size_t i = 0; i < job.members.n && known; i++) {
			in.name = job.members.data[i].label.rank == 3 ? "all_gather" : "all_reduce";
			set_group(&job, &job.members.data[i], &in);
		}
		vt_job_account(&job);
		assert_int_equal(job.verdicts.data[0].code == VT_FINDING_MISMATCHED_COLLECTIVE,
				 known);
		v = find_verdict(&job, "different-collective");
		assert_non_null(v);
		assert_int_equal(strstr(v->text, "(fine") != NULL, !known);
		vt_job_deinit(&job);
	}
}

/* What keeps a rank comes before how far it is, and both before what is no alarm. */
static void test_order(void **state)
{
	struct job_model what = { .hang = "oom", .ranks = 4, .culprit = 3 };
	static const struct in_group in[] = { WAITS(10, 9000), WAITS(10, 9000), WAITS(10, 9000),
					      UP_TO(9) };
	struct vt_job job;
	bool calm = false;

	(void)state;
	vt_job_init(&job);
	assert_true(job_model_fill(&job, &what));
	for (size_t i = 0; i < job.members.n; i++) {
		set_group(&job, &job.members.data[i], &in[job.members.data[i].label.rank]);
		job.members.data[i].memory.data[0].allocated <<= job.members.data[i].label.rank ==
								 1;
	}
	vt_job_account(&job);
	assert_true(job.verdicts.n > 2);
	assert_string_equal(vt_finding_name(job.verdicts.data[0].code), "out-of-memory");
	assert_string_equal(vt_finding_name(job.verdicts.data[1].code), "behind");
	for (size_t i = 0; i < job.verdicts.n; i++) {
		calm |= !job.verdicts.data[i].alarm;
		assert_true(!calm || !job.verdicts.data[i].alarm);
	}
	assert_true(calm);
	vt_job_deinit(&job);
}

/* By another vramtap, that is: it says nothing of the process. */
static void test_traced_by_another_of_us(void **state)
{
	struct job_model what = { .hang = "traced", .ranks = 2, .culprit = 1 };
	struct vt_job job;

	(void)state;
	vt_job_init(&job);
	assert_true(job_model_fill(&job, &what));
	for (size_t i = 0; i < job.members.n; i++)
		if (job.members.data[i].tracer)
			job.members.data[i].tracer_name = "vramtap";
	vt_job_account(&job);
	assert_null(find_verdict(&job, "traced"));
	vt_job_deinit(&job);
}

/*
 * Beside the core of an earlier process of a rank the others are compared as ever; and it does not
 * stand for one that is missing.
 */
static void test_core_of_before(void **state)
{
	(void)state;
	for (int missing = 0; missing < 2; missing++) {
		const struct vt_job_verdict *v;
		struct vt_label label;
		struct vt_job job;

		vt_job_init(&job);
		for (int rank = 0; rank < 4; rank++) {
			label = rank_label(rank, 4 + missing);
			add_rank(&job, &label, rank == 3 ? &runs : &reduces, NULL);
		}
		label = rank_label(0, 5);
		label.pid = 99;
		add_rank(&job, &label, &runs, NULL);
		job.members.data[4].core = "core.99";
		vt_job_account(&job);
		assert_string_equal(vt_finding_name(job.verdicts.data[0].code), "crashed");
		assert_contains(job.verdicts.data[0].text, "; pid 100 on a has its rank now");
		v = find_verdict(&job, "missed-collective");
		assert_non_null(v);
		assert_int_equal(v->alarm, !missing);
		vt_job_deinit(&job);
	}
}

static void test_cores_without_numbers(void **state)
{
	struct vt_label label = rank_label(-1, -1);
	struct vt_job job;

	(void)state;
	label.pid = 0;
	vt_job_init(&job);
	for (int i = 0; i < 2; i++)
		assert_true(vt_job_add(&job, &label, NULL,
				       i ? "core.1: not a core" : "core.2: not a core"));
	vt_job_account(&job);
	assert_int_equal(job.members.n, 2);
	vt_job_deinit(&job);
}

/* ---- devices ---- */

#define UUID_A "GPU-aaaaaaaa-0000-0000-0000-000000000000"
#define UUID_B "GPU-bbbbbbbb-0000-0000-0000-000000000000"

/*
 * Ranks of one host, each with what it has of one device; and what the devices are called, with how
 * many holders.
 */
static const struct numbered {
	struct {
		const char *visible, *container;
		int ordinal;
		const char *uuid; /* NULL not known */
	} ranks[4];
	struct {
		const char *name;
		int ordinal;
		size_t holders;
	} devices[4];
	bool assumed;
} numbered[] = {
	{ { { NULL, "", 0, NULL }, { NULL, "", 1, NULL } },
	  { { "GPU 0", 0, 1 }, { "GPU 1", 1, 1 } },
	  false },
	{ { { NULL, "", 0, NULL }, { NULL, "", 0, NULL } }, { { "GPU 0", 0, 2 } }, true },
	{ { { "0", "", 0, NULL }, { "1", "", 0, NULL } },
	  { { "GPU 0", 0, 1 }, { "GPU 1", 1, 1 } },
	  false },
	{ { { "3,2", "", 0, NULL }, { "3, 2", "", 1, NULL }, { NULL, "", 2, NULL } },
	  { { "GPU 2", 2, 2 }, { "GPU 3", 3, 1 } },
	  false },
	{ { { "2", "", 0, UUID_A }, { NULL, "", 2, NULL } }, { { "GPU 2", 2, 2 } }, false },
	/* Each has set the variable for itself, so that it is not visible. */
	{ { { NULL, "", 0, UUID_A }, { NULL, "", 0, UUID_B } },
	  { { "GPU-aaaaaaaa", -1, 1 }, { "GPU-bbbbbbbb", -1, 1 } },
	  false },
	{ { { NULL, "", 0, UUID_A }, { NULL, "", 1, UUID_A } },
	  { { "GPU-aaaaaaaa", -1, 2 } },
	  false },
	{ { { UUID_A, "", 0, NULL }, { UUID_B, "", 0, NULL }, { UUID_A, "", 0, UUID_A } },
	  { { "GPU-aaaaaaaa", -1, 2 }, { "GPU-bbbbbbbb", -1, 1 } },
	  false },
	{ { { "MIG-1", "", 0, NULL }, { "MIG-2", "", 0, NULL } },
	  { { "MIG-1", -1, 1 }, { "MIG-2", -1, 1 } },
	  false },
	{ { { "MIG-12345678-0000-0000-0000-000000000000", "", 0, NULL },
	    { "MIG-9abcdef0-0000-0000-0000-000000000000", "", 0, NULL } },
	  { { "MIG-12345678", -1, 1 }, { "MIG-9abcdef0", -1, 1 } },
	  false },
	{ { { NULL, "one", 0, NULL }, { NULL, "two", 0, NULL } },
	  { { "GPU 0 in one", -1, 1 }, { "GPU 0 in two", -1, 1 } },
	  false },
	{ { { "1", "", 5, NULL }, { "1", "", 5, NULL } },
	  { { "GPU ?", -1, 1 }, { "GPU ?", -1, 1 } },
	  false },
	{ { { "-1", "", 0, NULL }, { "99999999999", "", 0, NULL } },
	  { { "-1", -1, 1 }, { "99999999999", -1, 1 } },
	  false },
};

static void add_memory(struct vt_job *job, int ordinal, const char *uuid)
{
	struct vt_member *member = &job->members.data[job->members.n - 1];
	struct vt_job_memory *memory = vt_vec_append(&member->memory);

	assert_non_null(memory);
	*memory = (struct vt_job_memory){
		.ordinal = ordinal, .uuid = "", .known = true, .reserved = 1 << 20
	};
	if (uuid)
		memory->uuid = vt_job_text(job, uuid, strlen(uuid));
}

static void check_numbered(const struct numbered *want)
{
	struct vt_job job;
	size_t n = 0;

	vt_job_init(&job);
	for (int rank = 0; rank < 4 && want->ranks[rank].container; rank++) {
		struct vt_label label = rank_label(rank, -1);

		label.visible = want->ranks[rank].visible;
		label.container = want->ranks[rank].container;
		add_rank(&job, &label, &runs, NULL);
		add_memory(&job, want->ranks[rank].ordinal, want->ranks[rank].uuid);
	}
	vt_job_account(&job);
	assert_false(job.failed);
	for (; n < 4 && want->devices[n].name; n++) {
		const struct vt_job_device *d = &job.devices.data[n];

		if (n >= job.devices.n || strcmp(d->name, want->devices[n].name) != 0 ||
		    d->ordinal != want->devices[n].ordinal ||
		    d->holders.n != want->devices[n].holders || d->assumed != want->assumed)
			fail_msg("case %zu, device %zu of %zu: %s", (size_t)(want - numbered), n,
				 job.devices.n, n < job.devices.n ? d->name : "none");
	}
	assert_int_equal(job.devices.n, n);
	vt_job_deinit(&job);
}

/* The number that CUDA has for a device in a process is not the device's. */
static void test_devices(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(numbered) / sizeof(numbered[0]); i++)
		check_numbered(&numbered[i]);
}

/* ---- the tree ---- */

static void add_set_of(const struct vt_job *job, const struct vt_member_set *set, const char *want)
{
	struct vt_str text = { 0 };

	vt_job_add_set(job, set, 80, &text);
	assert_string_equal(vt_str_get(&text), want);
	vt_str_deinit(&text);
}

static void test_tree(void **state)
{
	const struct vt_job_node *nodes;
	struct vt_job job;

	(void)state;
	build(&job, "loop", 8, 3);
	nodes = job.tree.data;
	assert_int_equal(job.tree.n, 4);
	add_set_of(&job, &nodes[0].members, "0-7");
	assert_int_equal(nodes[0].n_frames, 2);
	assert_string_equal(job.frames.data[nodes[0].frames[0]].function, "<module>");
	add_set_of(&job, &nodes[1].members, "3");
	assert_true(nodes[1].outlier && nodes[1].parent == 0 && nodes[1].does);
	add_set_of(&job, &nodes[2].members, "0-2,4-7");
	assert_false(nodes[2].outlier);
	assert_string_equal(nodes[2].does, "waits in all_reduce");
	add_set_of(&job, &nodes[3].members, "workers 0-2 of ranks 0-7");
	assert_int_equal(nodes[3].role, VT_ROLE_LOADER);
	assert_true(job.frames.data[nodes[1].frames[1]].line > 0);
	vt_job_deinit(&job);
}

static void add_looping(struct vt_job *job, int rank, int line, int call, int world_size)
{
	struct vt_label label = { .host = "a",
				  .pid = 100 + rank,
				  .name = "",
				  .command = "",
				  .role = VT_ROLE_RANK,
				  .rank = rank,
				  .local_rank = -1,
				  .world_size = world_size,
				  .worker = -1,
				  .container = "",
				  .pod = "",
				  .job = "slurm 4711",
				  .in_job = true };
	struct vt_model_thread *t;
	struct vt_model model;

	vt_model_init(&model);
	t = report_add_thread(&model, label.pid, "python3");
	t->is_main = true;
	t->state = 'R';
	report_add_python(&model, t, "loop", "/home/user/a.py", line);
	report_add_python(&model, t, "main", "/home/user/a.py", call);
	assert_true(vt_job_add(job, &label, &model, NULL));
	vt_model_deinit(&model);
}

static void test_lines(void **state)
{
	struct vt_job job;

	(void)state;
	vt_job_init(&job);
	for (int rank = 0; rank < 6; rank++)
		add_looping(&job, rank, 10 + rank % 2, rank == 5 ? 51 : 50, -1);
	vt_job_account(&job);
	assert_int_equal(job.tree.n, 2);
	add_set_of(&job, &job.tree.data[0].members, "5");
	assert_int_equal(job.frames.data[job.tree.data[0].frames[0]].line, 51);
	assert_int_equal(job.frames.data[job.tree.data[0].frames[1]].line, 11);
	add_set_of(&job, &job.tree.data[1].members, "0-4");
	assert_int_equal(job.frames.data[job.tree.data[1].frames[0]].line, 50);
	assert_int_equal(job.frames.data[job.tree.data[1].frames[1]].line, 0);
	vt_job_deinit(&job);
}

/*
 * Many ranks that are at many places: some of these are named. Those of one function are one place.
 */
static void test_many_places(void **state)
{
	struct job_model what = { .hang = "none", .ranks = 8, .culprit = 0 };
	const struct vt_job_verdict *v;
	struct vt_job job;

	(void)state;
	vt_job_init(&job);
	assert_true(job_model_fill(&job, &what));
	for (size_t i = 0; i < job.members.n; i++)
		job.members.data[i].label.world_size = 14;
	for (int rank = 8; rank < 14; rank++)
		add_looping(&job, rank, 10 + rank, 50, 14);
	vt_job_account(&job);
	v = find_verdict(&job, "missed-collective");
	assert_non_null(v);
	assert_string_equal(
		v->text,
		"ranks 8-13 are not in all_reduce but run Python (a.py loop); the other 8 wait in all_reduce "
		"(train.py:88 train_step)");
	assert_int_equal(job.verdicts.n, 1);
	vt_job_deinit(&job);
}

static void test_sets(void **state)
{
	struct vt_str text = { 0 };
	uint32_t all[64];
	struct vt_member_set set = { .members = all };
	struct vt_job job;

	(void)state;
	build(&job, "none", 40, 0);
	for (uint32_t i = 0; i < 40; i += 2)
		all[set.n++] = i;
	vt_job_add_set(&job, &set, 12, &text);
	assert_string_equal(vt_str_get(&text), "0,2,4,6,…");
	vt_str_deinit(&text);
	set.n = 3;
	add_set_of(&job, &set, "0,2,4");
	set.n = 0;
	add_set_of(&job, &set, "");
	/* Workers: 0-2 of rank 0, 1 of rank 1. */
	memcpy(all, (uint32_t[]){ 40, 41, 42, 44 }, 4 * sizeof(all[0]));
	set.n = 4;
	add_set_of(&job, &set, "workers 0-2 of rank 0, worker 1 of rank 1");
	vt_job_deinit(&job);
}

/* A rank in recv(), with what only this rank has. */
static void add_receiving(struct vt_job *job, int rank, const char *detail)
{
	struct vt_label label = rank_label(rank, 2);
	struct vt_model_thread *t;
	struct vt_model model;

	vt_model_init(&model);
	model.process.pid = label.pid;
	t = report_add_thread(&model, label.pid, "python3");
	t->is_main = true;
	t->state = 'S';
	t->waits = (struct vt_waits){
		.code = VT_WAITS_CALL,
		.call = "recv",
		.detail = detail,
		.shared = " on descriptor …",
	};
	assert_true(vt_job_add(job, &label, &model, NULL));
	vt_model_deinit(&model);
}

static const char *detail_of_only(const struct vt_job *job)
{
	assert_int_equal(job->doings.n, 1);
	return job->doings.data[0].waits.detail;
}

/* Whole as long as all threads that do the same have the same, also when it was saved between. */
static void test_details(void **state)
{
	struct vt_job job, again;
	struct text text;

	(void)state;
	vt_job_init(&job);
	add_receiving(&job, 0, " on descriptor 7");
	add_receiving(&job, 1, " on descriptor 7");
	assert_string_equal(detail_of_only(&job), " on descriptor 7");
	vt_job_account(&job);
	text = to_json(&job);
	vt_job_init(&again);
	assert_null(vt_job_load_text(&again, text.data, text.n, ""));
	assert_string_equal(detail_of_only(&again), " on descriptor 7");
	add_receiving(&again, 2, " on descriptor 8");
	assert_string_equal(detail_of_only(&again), " on descriptor …");
	free(text.data);
	vt_job_deinit(&again);
	vt_job_deinit(&job);
}

/* ---- saved ---- */

static void test_round_trip(void **state)
{
	(void)state;
	for (size_t i = 0; job_model_hangs[i]; i++) {
		struct text first, second;
		struct vt_job job, again;

		build(&job, job_model_hangs[i], 8, 3);
		first = to_json(&job);
		vt_job_init(&again);
		assert_null(vt_job_load_text(&again, first.data, first.n, ""));
		vt_job_account(&again);
		second = to_json(&again);
		assert_string_equal(first.data, second.data);
		free(first.data);
		free(second.data);
		vt_job_deinit(&again);
		vt_job_deinit(&job);
	}
}

/*
 * Each rank by itself, as workers of vramtap triage hand them over, in any order: the same as all
 * at once.
 */
static void test_parts(void **state)
{
	struct text whole, summary, together;
	static const struct vt_writer_options options = { .columns = 100 };
	struct vt_job job, sum;

	(void)state;
	vt_job_init(&sum);
	for (int turn = 0; turn < 2; turn++) /* all of it twice: each process counts once */
		for (int culprit = 0; culprit < 2; culprit++) {
			struct text part;

			/* Ranks 8-15 are on another host. */
			build(&job, culprit ? "loop" : "none", culprit ? 16 : 8, 3);
			part = to_json(&job);
			assert_null(vt_job_load_text(&sum, part.data, part.n, "dir"));
			free(part.data);
			vt_job_deinit(&job);
		}
	vt_job_account(&sum);
	assert_int_equal(sum.members.n, 16 + 48);
	assert_int_equal(sum.diags.n, 2);
	assert_string_equal(sum.diags.data[0].code, "doubles");
	assert_contains(sum.diags.data[0].text, " left out: there are others for ");
	assert_string_equal(sum.diags.data[1].code, "not-compared"); /* worlds of 8 and of 16 */
	vt_job_deinit(&sum);
	build(&job, "loop", 16, 3);
	whole = written(&job, vt_write_job_text, &options);
	summary = to_json(&job);
	vt_job_init(&sum);
	assert_null(vt_job_load_text(&sum, summary.data, summary.n, "node1"));
	vt_job_account(&sum);
	together = written(&sum, vt_write_job_text, &options);
	assert_string_equal(whole.data, together.data);
	free(whole.data);
	free(summary.data);
	free(together.data);
	vt_job_deinit(&sum);
	vt_job_deinit(&job);
}

/* Its message, and nothing of it may be left. */
static void assert_refused(const char *text, size_t n, const char *why)
{
	struct vt_error *err;
	struct vt_job job;
	size_t frames, stacks, doings;
	time_t when;

	build(&job, "none", 2, 0);
	when = ++job.when.tv_sec;
	frames = job.frames.n;
	stacks = job.stacks.n;
	doings = job.doings.n;
	err = vt_job_load_text(&job, text, n, "");
	if (!err)
		fail_msg("not refused for \"%s\"", why);
	if (*why)
		assert_contains(err->message, why);
	vt_error_destroy(err);
	assert_int_equal(job.members.n, 2 + 6);
	assert_int_equal(job.when.tv_sec, when);
	assert_int_equal(job.frames.n, frames);
	assert_int_equal(job.stacks.n, stacks);
	assert_int_equal(job.doings.n, doings);
	vt_job_deinit(&job);
}

/* A copy with one find replaced: the first behind what is not read again, if there is one. */
static struct text damaged(const struct text *json, const char *find, const char *replace)
{
	const char *members = strstr(json->data, "\n \"members\": ["),
		   *at = members ? strstr(members, find) : NULL;
	struct text text = { .n = json->n - strlen(find) + strlen(replace) };

	if (!at)
		at = strstr(json->data, find);
	if (!at)
		fail_msg("no %s", find);
	text.data = malloc(text.n + 1);
	assert_non_null(text.data);
	memcpy(text.data, json->data, (size_t)(at - json->data));
	strcpy(text.data + (at - json->data), replace); /* NOLINT: there is room */
	strcat(text.data, at + strlen(find));           /* NOLINT */
	return text;
}

static bool takes_one(struct vt_job *job, const struct text *text, pid_t pid)
{
	struct vt_error *err = vt_job_load_one(job, text->data, text->n, pid);

	if (err)
		assert_contains(err->message, "other processes");
	vt_error_destroy(err);
	return !err;
}

/* ---- part by part ---- */

#define SECTIONS 4

/* A document with its sections in the order that begins with the one of this number. */
static char *rotated(const char *const sections[SECTIONS], size_t first)
{
	struct vt_str text = { 0 };

	vt_str_add(&text, "{");
	for (size_t i = 0; i < SECTIONS; i++)
		vt_str_addf(&text, "%s,", sections[(first + i) % SECTIONS]);
	vt_str_add(&text, "\"schema\":\"vramtap-triage\",\"schema_version\":1}");
	assert_false(text.failed);
	return text.data;
}

#define MEMBER                                                                                     \
	"\"members\":[{\"host\":\"a\",\"pid\":7,\"role\":\"rank\",\"rank\":0,\"in_job\":true,"     \
	"\"completeness\":\"complete\",\"process_state\":\"S\",\"threads\":[7,8],\"threads_do\":[" \
	"1,0]}]"
#define DOINGS                                                                                            \
	"\"doings\":[{\"name\":\"b\",\"stack\":1,\"state\":\"S\"},{\"name\":\"a\",\"stack\":0,\"state\":" \
	"\"R\",\"main\":true}]"
#define STACKS "\"stacks\":[[1],[0,1]]"
#define FRAME "{\"kind\":\"native\",\"function\":\"f\"}"
#define FRAMES "\"frames\":[" FRAME ",{\"kind\":\"python\",\"function\":\"g\",\"line\":3}]"

/* Whichever part comes first, indices are those of the document. */
static void test_any_order(void **state)
{
	static const char *const sections[SECTIONS] = { MEMBER, DOINGS, STACKS, FRAMES };

	(void)state;
	for (size_t first = 0; first < SECTIONS; first++) {
		char *text = rotated(sections, first);
		const struct vt_job_doing *doing;
		struct vt_job job;

		vt_job_init(&job);
		assert_null(vt_job_load_text(&job, text, strlen(text), ""));
		assert_int_equal(job.members.n, 1);
		assert_int_equal(job.members.data[0].threads.n, 2);
		doing = &job.doings.data[job.members.data[0].threads.data[0].doing];
		assert_string_equal(doing->name, "a");
		assert_int_equal(job.stacks.data[doing->stack].n, 1);
		assert_string_equal(
			job.frames.data[job.stacks.data[doing->stack].frames[0]].function, "g");
		vt_job_deinit(&job);
		free(text);
	}
}

/* What is said is wrong does not depend on the order: frames before what refers to them. */
static void test_mistakes_in_any_order(void **state)
{
	static const char *const all[][SECTIONS + 1] = {
		{ "\"members\":[7]", "\"doings\":7", "\"stacks\":[7]", "\"frames\":[{}]",
		  "kind is missing" },
		{ "\"members\":[7]", "\"doings\":7", "\"stacks\":[7]", FRAMES,
		  "stacks has an element that is not an array" },
		{ "\"members\":[7]", "\"doings\":7", "\"stacks\":[[0],[0,2],[\"x\"]]", FRAMES,
		  "stacks names what does not exist" },
		{ "\"members\":[7]", "\"doings\":[{\"stack\":2,\"state\":\"S\"}]", STACKS, FRAMES,
		  "stack names what does not exist" },
		{ "\"members\":[7]", "\"doings\":7", STACKS, FRAMES, "doings is not an array" },
		{ "\"members\":[7]", DOINGS, STACKS, FRAMES,
		  "members has an element that is not an object" },
		{ MEMBER, "\"doings\":[]", STACKS, FRAMES, "threads_do names what does not exist" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		for (size_t first = 0; first < SECTIONS; first++) {
			char *text = rotated(all[i], first);

			assert_refused(text, strlen(text), all[i][SECTIONS]);
			free(text);
		}
}

/* Frames that were seen before, byte for byte or in another form, are there once. */
static void test_frames_seen(void **state)
{
	static const char *const frames[] = {
		FRAMES,
		FRAMES,
		"\"frames\":[ " FRAME " , {\"kind\":\"python\",\"function\":\"g\", \"line\":3}]",
		"\"frames\":[{\"kind\":\"native\",\"function\":\"h}{\"}," FRAME "]",
		"\"frames\":[" FRAME "," FRAME ",{\"kind\":\"native\",\"function\":\"h}{\"}]",
	};
	struct vt_job job;

	(void)state;
	vt_job_init(&job);
	for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
		const char *const sections[SECTIONS] = { MEMBER, DOINGS, STACKS, frames[i] };
		char *text = rotated(sections, 0);

		assert_null(vt_job_load_text(&job, text, strlen(text), ""));
		assert_int_equal(job.frames.n, i < 3 ? 2 : 3);
		free(text);
	}
	assert_string_equal(job.frames.data[2].function, "h}{");
	vt_job_deinit(&job);
}

/* Stacks and doings that were seen before, and what refers to frames that are no longer there. */
static void test_parts_seen(void **state)
{
	static const char *const frames[] = { FRAMES, FRAMES, FRAMES, "\"frames\":[" FRAME "]",
					      FRAMES };
	struct vt_job job;

	(void)state;
	vt_job_init(&job);
	for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
		const char *const sections[SECTIONS] = { MEMBER, DOINGS, STACKS, frames[i] };
		char *text = rotated(sections, 0);
		struct vt_error *err = vt_job_load_text(&job, text, strlen(text), "");

		assert_int_equal(!err, i != 3);
		if (err)
			assert_non_null(strstr(err->message, "stacks names what does not exist"));
		vt_error_destroy(err);
		free(text);
	}
	assert_int_equal(job.members.n, 4);
	assert_int_equal(job.frames.n, 2);
	assert_int_equal(job.stacks.n, 2);
	assert_int_equal(job.doings.n, 2);
	assert_memory_equal(job.members.data[0].threads.data, job.members.data[3].threads.data,
			    2 * sizeof(struct vt_job_thread));
	vt_job_deinit(&job);
}

/* A worker speaks of its own process, and of no other. */
static void test_one(void **state)
{
	const struct vt_label label = { .host = "a",
					.pid = 17,
					.name = "b",
					.command = "",
					.container = "",
					.pod = "",
					.job = "" };
	struct text none, one, two, ras;
	struct vt_job job;

	(void)state;
	vt_job_init(&job);
	none = to_json(&job);
	assert_true(vt_job_add(&job, &label, NULL, "gone"));
	one = to_json(&job);
	assert_true(vt_job_add(&job, &label, NULL, "gone"));
	two = to_json(&job);
	assert_int_equal(job.members.n, 2);
	assert_false(takes_one(&job, &none, 0));
	assert_false(takes_one(&job, &two, 17));
	assert_false(takes_one(&job, &two, 0));
	assert_false(takes_one(&job, &one, 16));
	assert_int_equal(job.members.n, 2);
	assert_int_equal(job.members.capacity, 2); /* nor is room left of what was refused */
	ras = damaged(&one, "\n \"ras\": []", "\n \"ras\": [{}]");
	assert_false(takes_one(&job, &ras, 17));
	assert_int_equal(job.ras.n, 0);
	assert_true(takes_one(&job, &one, 17));
	assert_true(takes_one(&job, &one, 0));
	assert_int_equal(job.members.n, 4);
	assert_int_equal(job.members.data[3].label.pid, 17);
	free(none.data);
	free(one.data);
	free(two.data);
	free(ras.data);
	vt_job_deinit(&job);
}

static void test_cut(void **state)
{
	struct text json;
	struct vt_job job;

	(void)state;
	build(&job, "retries", 2, 1);
	json = to_json(&job);
	vt_job_deinit(&job);
	for (size_t n = 0; n + 2 < json.n; n += n < 300 ? 1 : 97)
		assert_refused(json.data, n, "");
	free(json.data);
}

static const struct {
	const char *find, *replace, *why;
} damages[] = {
	{ "\"schema\": \"vramtap-triage\"", "\"schema\": \"vramtap-report\"",
	  "it is not the report of a job" },
	{ "\"schema_version\": 1", "\"schema_version\": 2",
	  "its schema version is 2, but this vramtap reads only version 1" },
	{ "\"pid\": 4000", "\"pid\": -1", "pid is not a number" },
	{ "\"pid\": 4000", "\"pid\": \"x\"", "pid is not a number" },
	{ "\"role\": \"rank\"", "\"role\": \"king\"", "role is an unknown word" },
	{ "\"rank\": 0", "\"rank\": 999999999999", "rank is not a number" },
	{ "\"reserved_bytes\": ", "\"reserved_bytes\": 999999",
	  "reserved_bytes is more than there is" },
	{ "\"stack\": 0", "\"stack\": 77", "stack names what does not exist" },
	{ "\"threads_do\": [0]", "\"threads_do\": [77]", "threads_do names what does not exist" },
	{ "\"threads_do\": [0]", "\"threads_do\": []", "threads_do is not as long as threads" },
	{ "\"threads_do\": [0]", "\"threads_do\": [-1]", "threads_do is not a number" },
	{ "\"state\": \"S\"", "\"state\": \"SS\"", "state is not a letter" },
	{ "\"stacks\": [\n  [0,", "\"stacks\": [\n  [7777,", "stacks names what does not exist" },
	{ "\"stacks\": [\n  [0,", "\"stacks\": [\n  7, [0,",
	  "stacks has an element that is not an array" },
	{ "\"frames\": [\n  {\"kind\": \"native\"", "\"frames\": [\n  {\"kind\": 7",
	  "kind is missing" },
	{ "\"in_job\": true", "\"in_job\": 1", "in_job is neither true nor false" },
	{ "\"completeness\": \"complete\",\n   \"error\"", "\"completeness\": \"\",\n   \"error\"",
	  "completeness is an unknown word" },
};

static void test_damaged(void **state)
{
	struct text json;
	struct vt_job job;

	(void)state;
	build(&job, "none", 2, 0);
	json = to_json(&job);
	vt_job_deinit(&job);
	for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
		struct text text = damaged(&json, damages[i].find, damages[i].replace);

		assert_refused(text.data, text.n, damages[i].why);
		free(text.data);
	}
	free(json.data);
}

/* ---- the summary ---- */

static void check_width(const struct text *text, int columns)
{
	for (const char *line = text->data, *end; *line; line = end + 1) {
		end = strchr(line, '\n');
		assert_non_null(end);
		if (vt_width(line, (size_t)(end - line)) > columns)
			fail_msg("wider than %d: %.*s", columns, (int)(end - line), line);
	}
}

static void add_on_system(struct vt_job *job, const char *system, int rank, uint64_t start_ticks,
			  bool in_job)
{
	struct vt_label label = {
		.host = "a",
		.system = system,
		.pid = 100,
		.start_ticks = start_ticks,
		.name = "",
		.command = "",
		.role = VT_ROLE_RANK,
		.rank = rank,
		.local_rank = -1,
		.world_size = -1,
		.worker = -1,
		.container = "",
		.pod = "",
		.job = "",
		.in_job = in_job,
	};

	assert_true(vt_job_add(job, &label, NULL, "gone"));
}

/*
 * Containers of one name, with the same numbers of processes, are not one process; nor is a process
 * that has its number later.
 */
static void test_same_process(void **state)
{
	struct vt_job job;

	(void)state;
	vt_job_init(&job);
	add_on_system(&job, "boot1 pid:[1]", 0, 5, true);
	add_on_system(&job, "boot1 pid:[2]", 1, 5, true);
	add_on_system(&job, "boot2 pid:[1]", 2, 5, true);
	add_on_system(&job, "boot1 pid:[1]", 3, 6, true);
	/*
	 * On another node of the batch system, which is the same machine, it was found as one that
	 * is not of the job, and has no rank.
	 */
	add_on_system(&job, "boot1 pid:[1]", -1, 5, false);
	vt_job_account(&job);
	assert_int_equal(job.members.n, 4);
	for (int rank = 0; rank < 4; rank++)
		assert_int_equal(job.members.data[rank].label.rank, rank);
	assert_string_equal(job.diags.data[0].code, "doubles");
	vt_job_deinit(&job);
}

/*
 * What is not of the job does not make it partial; a part that is missing does, also when it is put
 * together once more.
 */
static void test_parts_missing(void **state)
{
	struct vt_job job, again;
	struct text text, summary;
	struct vt_label label = { .host = "a",
				  .pid = 7,
				  .rank = -1,
				  .local_rank = -1,
				  .world_size = -1,
				  .worker = -1,
				  .in_job = false };
	struct vt_writer_options options = { .columns = 100 };

	(void)state;
	build(&job, "none", 2, 0);
	assert_true(vt_job_add(&job, &label, NULL, "gone"));
	vt_job_account(&job);
	assert_int_equal(job.completeness, VT_COMPLETE);
	vt_job_deinit(&job);
	build(&job, "none", 2, 0);
	vt_job_miss(&job, "cannot read node3/report.json");
	vt_job_account(&job);
	assert_int_equal(job.completeness, VT_PARTIAL);
	text = to_json(&job);
	vt_job_init(&again);
	assert_null(vt_job_load_text(&again, text.data, text.n, ""));
	vt_job_account(&again);
	assert_int_equal(again.completeness, VT_PARTIAL);
	summary = written(&again, vt_write_job_text, &options);
	assert_contains(summary.data, "! cannot read node3/report.json");
	assert_contains(summary.data, "Partial: some parts are missing.");
	free(text.data);
	free(summary.data);
	vt_job_deinit(&again);
	vt_job_deinit(&job);
}

static void test_summary(void **state)
{
	(void)state;
	for (size_t i = 0; job_model_hangs[i]; i++) {
		struct vt_job job;

		build(&job, job_model_hangs[i], 8, 3);
		for (int columns = 40; columns <= 160; columns += 40) {
			struct vt_writer_options options = { .columns = columns,
							     .ascii = columns == 120 };
			struct text text = written(&job, vt_write_job_text, &options);

			check_width(&text, columns);
			for (size_t k = 0; options.ascii && k < text.n; k++)
				assert_true(text.data[k] == '\n' ||
					    (text.data[k] >= ' ' && text.data[k] <= '~'));
			if (columns == 80 && !strcmp(job_model_hangs[i], "loop")) {
				assert_contains(text.data, "\n  0-7 [8]  ");
				assert_contains(text.data, "\n    3 [1]  ");
				assert_contains(text.data, "\n    0-2,4-7 [7]  ");
				assert_true(strstr(text.data, "What differs") <
					    strstr(text.data, "main threads"));
			}
			/* What tells most is not cut off. */
			if (columns >= 80 && !strcmp(job_model_hangs[i], "sequences"))
				assert_contains(text.data, "BFloat16\n");
			if (columns >= 80 && !strcmp(job_model_hangs[i], "loaders"))
				assert_contains(text.data, " waits for a DataLoader worker\n");
			free(text.data);
		}
		vt_job_deinit(&job);
	}
}

/* Of many devices that of the culprit is shown, and those of others first to last. */
static void test_many_devices(void **state)
{
	static const struct vt_writer_options options = { .columns = 100 };
	struct text text;
	struct vt_job job;

	(void)state;
	build(&job, "loop", 64, 43);
	job.members.data[0].label.command = "/opt/a/bin/python3 /home/user/train.py";
	text = written(&job, vt_write_job_text, &options);
	assert_contains(text.data, "slurm 4711 · python3 /home/user/train.py\n64 ranks of 64");
	assert_contains(text.data, "of\n  node5 GPU 3 ");
	assert_contains(text.data, "\n  node0 GPU 0 ");
	assert_contains(text.data, "\n  node1 GPU 6 ");
	assert_null(strstr(text.data, "\n  node1 GPU 7 "));
	assert_contains(text.data, "48 more in the JSON report");
	free(text.data);
	vt_job_deinit(&job);
}

static void test_hostile_names(void **state)
{
	struct vt_label label = { .host = "a\033[2J",
				  .pid = 1,
				  .name = "x\n",
				  .command = "\xff\033]0;t\a",
				  .role = VT_ROLE_OTHER,
				  .rank = -1,
				  .local_rank = -1,
				  .world_size = -1,
				  .worker = -1,
				  .container = "",
				  .pod = "",
				  .job = "\r",
				  .in_job = true };
	static const struct vt_writer_options options = { .columns = 80 };
	struct text text;
	struct vt_job job;

	(void)state;
	vt_job_init(&job);
	assert_true(vt_job_add(&job, &label, NULL, "gone\033[31m"));
	vt_job_account(&job);
	assert_int_equal(job.completeness, VT_NOTHING);
	text = written(&job, vt_write_job_text, &options);
	assert_null(strchr(text.data, '\033'));
	free(text.data);
	text = to_json(&job);
	assert_null(strchr(text.data, '\033'));
	free(text.data);
	vt_job_deinit(&job);
}

static void test_empty(void **state)
{
	static const struct vt_writer_options options = { .columns = 80 };
	struct text text;
	struct vt_job job;

	(void)state;
	vt_job_init(&job);
	vt_job_account(&job);
	assert_int_equal(job.completeness, VT_NOTHING);
	text = written(&job, vt_write_job_text, &options);
	free(text.data);
	text = to_json(&job);
	assert_null(vt_job_load_text(&job, text.data, text.n, ""));
	free(text.data);
	vt_job_deinit(&job);
}

static void test_skew(void **state)
{
	struct vt_job job;

	(void)state;
	build(&job, "none", 8, 0);
	assert_true(job.skew_ms > 1.7 && job.skew_ms < 1.9);
	vt_job_deinit(&job);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_gpu),
		cmocka_unit_test(test_different),
		cmocka_unit_test(test_equal),
		cmocka_unit_test(test_tree),
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_sets),
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_any_order),
		cmocka_unit_test(test_mistakes_in_any_order),
		cmocka_unit_test(test_frames_seen),
		cmocka_unit_test(test_parts_seen),
		cmocka_unit_test(test_summary),
		cmocka_unit_test(test_same_process),
		cmocka_unit_test(test_parts_missing),
		cmocka_unit_test(test_many_devices),
		cmocka_unit_test(test_hostile_names),
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_skew),
		cmocka_unit_test(test_many_places),
		cmocka_unit_test(test_one),
		cmocka_unit_test(test_accused),
		cmocka_unit_test(test_glanced),
		cmocka_unit_test(test_network_is_not_blamed),
		cmocka_unit_test(test_rank_of_others),
		cmocka_unit_test(test_not_compared),
		cmocka_unit_test(test_ranks_without_numbers),
		cmocka_unit_test(test_missing),
		cmocka_unit_test(test_devices),
		cmocka_unit_test(test_fewer_workers),
		cmocka_unit_test(test_zombies),
		cmocka_unit_test(test_ended_workers),
		cmocka_unit_test(test_process_groups),
		cmocka_unit_test(test_unsure_groups),
		cmocka_unit_test(test_not_all),
		cmocka_unit_test(test_waits_itself),
		cmocka_unit_test(test_different_in_one_group),
		cmocka_unit_test(test_details),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_traced_by_another_of_us),
		cmocka_unit_test(test_gpus),
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_core_of_before),
		cmocka_unit_test(test_cores_without_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
