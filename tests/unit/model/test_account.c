/* SPDX-License-Identifier: Apache-2.0 */
/* What vt_model_account() derives, and that it refuses what does not add up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "model/notices.h"
#include "unit/report/report_models.h"

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define GIB (1024 * MIB)

static bool has_diag(const struct vt_model *model, enum vt_diag_level level, const char *code)
{
	for (size_t i = 0; i < model->diags.n; i++)
		if (model->diags.data[i].level == level && !strcmp(model->diags.data[i].code, code))
			return true;
	return false;
}

static bool has_headline(const struct vt_model *model, const char *code, const char *part)
{
	for (size_t i = 0; i < model->headlines.n; i++)
		if (!strcmp(model->headlines.data[i].code, code) &&
		    strstr(model->headlines.data[i].text, part))
			return true;
	return false;
}

static bool is_alarm(const struct vt_model *model, const char *code)
{
	for (size_t i = 0; i < model->headlines.n; i++)
		if (!strcmp(model->headlines.data[i].code, code))
			return model->headlines.data[i].alarm;
	return false;
}

/* ---- allocators ---- */

/* Two segments with every state, one of them private, one expandable. */
static void build_small(struct vt_model *model)
{
	vt_model_init(model);
	report_add_device(model, 0, 10 * GIB, 80 * GIB);
	report_add_allocator(model, 0);
	report_add_segment(model, 0, 0, 0);
	report_add_block(model, VT_BLOCK_ALLOCATED, 2 * MIB, 2 * MIB - 100);
	report_add_block(model, VT_BLOCK_ALLOCATED, 2 * MIB, 2 * MIB - 100);
	report_add_block(model, VT_BLOCK_CACHED, 6 * MIB, 0);
	report_add_block(model, VT_BLOCK_AWAITING_FREE, 4 * MIB, 4 * MIB);
	report_add_segment(model, VT_BLOCK_PRIVATE_POOL, 0xabc0, UINT64_C(1) << 32);
	report_add_block(model, VT_BLOCK_ALLOCATED, 1 * MIB, 1 * MIB);
	report_add_block(model, VT_BLOCK_CACHED, 3 * MIB, 0);
	report_add_segment(model, VT_BLOCK_EXPANDABLE, 0, 0);
	report_add_block(model, VT_BLOCK_ALLOCATED, 20 * MIB, 20 * MIB);
}

/* An expandable segment's unmapped range: a run of its own, as the walk emits it. */
static void add_unmapped(struct vt_model *model, uint64_t size)
{
	struct vt_block_rec *b = report_add_block(model, VT_BLOCK_UNMAPPED, size, 0);

	b->flags |= VT_BLOCK_SEGMENT_START;
}

static void test_sums(void **state)
{
	struct vt_model model;
	struct vt_model_allocator *a;

	(void)state;
	build_small(&model);
	add_unmapped(&model, 100 * GIB);
	assert_true(vt_model_account(&model));
	a = &model.allocators.data[0];
	assert_true(a->exact);
	assert_int_equal(a->allocated_bytes, 25 * MIB);
	assert_int_equal(a->allocated_blocks, 4);
	assert_int_equal(a->awaiting_bytes, 4 * MIB);
	assert_int_equal(a->cached_bytes, 9 * MIB);
	assert_int_equal(a->cached_blocks, 2);
	assert_int_equal(a->reserved_bytes, 38 * MIB);
	assert_int_equal(a->largest_cached, 6 * MIB);
	assert_int_equal(a->private_bytes, 4 * MIB);
	assert_int_equal(a->private_allocated_bytes, 1 * MIB);
	assert_int_equal(a->private_cached_bytes, 3 * MIB);
	assert_true(a->requested_known);
	assert_int_equal(a->requested_bytes, 25 * MIB - 200);
	assert_int_equal(a->rounding_bytes, 200);
	assert_true(a->other_known);
	assert_int_equal(a->other_bytes, 10 * GIB - 38 * MIB);
	assert_int_equal(model.completeness, VT_COMPLETE);
	assert_int_equal(model.diags.n, 0);
	vt_model_deinit(&model);
}

/* PyTorch before 2.0 does not record requested sizes: then the text has no line about rounding. */
static void test_requested_unknown(void **state)
{
	struct vt_model model;

	(void)state;
	build_small(&model);
	model.blocks[1].requested = 0;
	assert_true(vt_model_account(&model));
	assert_true(model.allocators.data[0].exact);
	assert_false(model.allocators.data[0].requested_known);
	assert_int_equal(model.allocators.data[0].rounding_bytes, 0);
	vt_model_deinit(&model);
}

static void test_groups(void **state)
{
	struct vt_model model;
	uint64_t bytes = 0, blocks = 0, last = UINT64_MAX;

	(void)state;
	assert_true(report_model_build(&model, "training"));
	for (size_t i = 0; i < model.groups.n; i++) {
		const struct vt_model_group *g = &model.groups.data[i];
		uint64_t found = 0;

		/* The truth, the slow way. */
		for (size_t k = 0; k < model.n_blocks; k++) {
			const struct vt_block_rec *b = &model.blocks[k];

			found += b->state == g->state && b->size == g->size &&
				 b->stream == g->stream && b->pool == g->pool &&
				 !(b->flags & VT_BLOCK_SMALL_POOL) == !g->small_pool &&
				 !(b->flags & VT_BLOCK_PRIVATE_POOL) == !g->private_pool;
		}
		assert_int_equal(found, g->blocks);
		assert_int_equal(g->bytes, g->blocks * g->size);
		assert_true(g->bytes <= last);
		last = g->bytes;
		bytes += g->bytes;
		blocks += g->blocks;
	}
	assert_int_equal(bytes, model.allocators.data[0].reserved_bytes);
	assert_int_equal(blocks, model.n_blocks);
	vt_model_deinit(&model);
}

/* Each of these lies in its own way; first is the block that is changed. */
/* clang-format off */
static void break_state(struct vt_model *m) { m->blocks[1].state = 9; }
static void break_device(struct vt_model *m) { m->blocks[1].device = 1; }
static void break_size(struct vt_model *m) { m->blocks[1].size = 0; }
static void break_address(struct vt_model *m) { m->blocks[1].addr = UINT64_MAX - 5; }
static void break_requested(struct vt_model *m) { m->blocks[1].requested = 2 * MIB + 1; }
static void break_gap(struct vt_model *m) { m->blocks[1].addr += 512; }
static void break_stream(struct vt_model *m) { m->blocks[1].stream = 1; }
static void break_pool(struct vt_model *m) { m->blocks[1].flags |= VT_BLOCK_SMALL_POOL; }
static void break_start(struct vt_model *m)
{
	m->blocks[0].flags &= (uint8_t)~VT_BLOCK_SEGMENT_START;
}
static void break_segments(struct vt_model *m) { m->allocators.data[0].result.segments++; }
static void break_blocks(struct vt_model *m) { m->allocators.data[0].result.blocks++; }
static void break_bytes_0(struct vt_model *m) { m->allocators.data[0].result.bytes[0]++; }
static void break_bytes_1(struct vt_model *m) { m->allocators.data[0].result.bytes[1]--; }
static void break_bytes_2(struct vt_model *m) { m->allocators.data[0].result.bytes[2]++; }
static void break_bytes_3(struct vt_model *m) { m->allocators.data[0].result.bytes[3]++; }
static void break_first(struct vt_model *m) { m->allocators.data[0].first_block = SIZE_MAX; }
static void break_count(struct vt_model *m) { m->allocators.data[0].n_blocks = SIZE_MAX; }
static void break_result(struct vt_model *m) { m->allocators.data[0].result.result = 77; }
/* clang-format on */

static void break_overflow(struct vt_model *m)
{
	m->blocks[0].addr = 0;
	m->blocks[0].size = UINT64_MAX - 10;
	m->blocks[1].addr = 0;
	m->blocks[1].size = UINT64_MAX - 10;
}

static void test_refused(void **state)
{
	static void (*const breaks[])(struct vt_model * model) = {
		break_state,  break_device,  break_size,    break_address,  break_requested,
		break_gap,    break_stream,  break_pool,    break_start,    break_segments,
		break_blocks, break_bytes_0, break_bytes_1, break_bytes_2,  break_bytes_3,
		break_first,  break_count,   break_result,  break_overflow,
	};

	(void)state;
	for (size_t i = 0; i < sizeof(breaks) / sizeof(breaks[0]); i++) {
		struct vt_model model;
		const struct vt_model_allocator *a;

		build_small(&model);
		breaks[i](&model);
		assert_true(vt_model_account(&model));
		a = &model.allocators.data[0];
		if (a->exact || a->result.result != VT_WALK_REFUSED || a->n_blocks ||
		    a->allocated_bytes || a->other_known)
			fail_msg("break %zu was believed", i);
		assert_int_equal(model.groups.n, 0);
		assert_true(has_diag(&model, VT_DIAG_MISSING, "walk-refused"));
		assert_int_equal(model.completeness, VT_PARTIAL);
		assert_false(has_headline(&model, "memory", ""));
		vt_model_deinit(&model);
	}
}

static void test_inexact(void **state)
{
	static const struct {
		uint8_t result;
		const char *code;
	} cases[] = { { VT_WALK_UNSTABLE, "walk-unstable" },
		      { VT_WALK_TRUNCATED, "walk-truncated" } };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct vt_model model;

		build_small(&model);
		model.allocators.data[0].result.result = cases[i].result;
		assert_true(vt_model_account(&model));
		assert_false(model.allocators.data[0].exact);
		assert_int_equal(model.allocators.data[0].reserved_bytes, 0);
		assert_int_equal(model.allocators.data[0].n_blocks, 7);
		assert_int_equal(model.groups.n, 0);
		assert_true(has_diag(&model, VT_DIAG_MISSING, cases[i].code));
		assert_int_equal(model.completeness, VT_PARTIAL);
		vt_model_deinit(&model);
	}
}

static void test_used_less_than_reserved(void **state)
{
	struct vt_model model;

	(void)state;
	build_small(&model);
	model.devices.data[0].used_bytes = 38 * MIB - 1;
	model.devices.data[0].free_bytes = 80 * GIB - 38 * MIB + 1;
	assert_true(vt_model_account(&model));
	assert_true(model.allocators.data[0].exact);
	assert_false(model.allocators.data[0].other_known);
	assert_true(has_diag(&model, VT_DIAG_MISSING, "does-not-add-up"));
	vt_model_deinit(&model);
}

/* The device's numbers and PyTorch's are of two moments: their difference is not printed. */
static void test_memory_moved(void **state)
{
	struct vt_model model;

	(void)state;
	build_small(&model);
	model.devices.data[0].memory_moved = true;
	assert_true(vt_model_account(&model));
	assert_true(model.allocators.data[0].exact);
	assert_false(model.allocators.data[0].other_known);
	assert_true(has_diag(&model, VT_DIAG_MISSING, "memory-moved"));
	assert_int_equal(model.completeness, VT_PARTIAL);
	vt_model_deinit(&model);
}

static void test_device_nonsense(void **state)
{
	struct vt_model model;

	(void)state;
	build_small(&model);
	model.devices.data[0].free_bytes = 81 * GIB;
	assert_true(vt_model_account(&model));
	assert_false(model.devices.data[0].have_memory);
	assert_non_null(model.devices.data[0].why_no_memory);
	assert_true(has_diag(&model, VT_DIAG_MISSING, "memory-nonsense"));
	vt_model_deinit(&model);
}

/* ---- threads ---- */

static struct vt_model_thread *add_simple(struct vt_model *model, pid_t tid, const char *function)
{
	struct vt_model_thread *t = report_add_thread(model, tid, "t");

	report_add_native(model, t, function, "libx.so", 0x100 + (uint64_t)tid);
	report_add_native(model, t, "start", "libx.so", 0x10);
	return t;
}

static void test_thread_groups(void **state)
{
	struct vt_model model;
	const struct vt_model_thread *t;

	(void)state;
	vt_model_init(&model);
	add_simple(&model, 1, "wait")->is_main = true;
	for (int i = 2; i < 12; i++)
		add_simple(&model, i, "wait")->idle = true;
	add_simple(&model, 12, "wait");
	add_simple(&model, 13, "work");
	add_simple(&model, 14, "work"); /* another place of the same function: the same group */
	report_does(&model, add_simple(&model, 15, "work"), "in cudaMalloc", NULL);
	report_add_python(&model, add_simple(&model, 16, "work"), "f", "f.py", 3);
	report_add_python(&model, add_simple(&model, 17, "work"), "f", "f.py", 4);
	add_simple(&model, 18, "wait")->gil = 1;
	t = add_simple(&model, 19, "wait");
	model.threads.data[model.threads.n - 1].idle = true;
	/* hangs in the kernel: not idle, whatever the stack says */
	model.threads.data[model.threads.n - 1].state = 'D';
	(void)t;
	assert_true(vt_model_account(&model));

	static const struct {
		pid_t first;
		size_t n;
		bool idle;
	} want[] = {
		{ 1, 1, false },  { 18, 1, false }, { 15, 1, false },
		{ 19, 1, false }, { 16, 1, false }, { 17, 1, false },
		{ 12, 1, false }, { 13, 2, false }, { 2, 10, true },
	};

	assert_int_equal(model.thread_groups.n, sizeof(want) / sizeof(want[0]));
	for (size_t i = 0; i < model.thread_groups.n; i++) {
		const struct vt_model_thread_group *g = &model.thread_groups.data[i];
		size_t n = 0;

		assert_int_equal(model.threads.data[g->first_thread].tid, want[i].first);
		assert_int_equal(g->n_threads, want[i].n);
		assert_int_equal(g->idle, want[i].idle);
		for (size_t k = g->first_thread; k != VT_NO_THREAD;
		     k = model.threads.data[k].next_in_group, n++)
			assert_int_equal(model.threads.data[k].group, i);
		assert_int_equal(n, g->n_threads);
	}
	vt_model_deinit(&model);
}

/* A group is shown with the variables of one of its threads: they must be those of all. */
static void test_groups_by_locals(void **state)
{
	static const struct vt_model_local one[] = { { "rank", "1" } },
					   same[] = { { "rank", "1" } },
					   two[] = { { "rank", "2" } };
	static const struct vt_model_local *const locals[] = { one, same, two, NULL };
	struct vt_model model;

	(void)state;
	vt_model_init(&model);
	for (int i = 0; i < 4; i++) {
		struct vt_model_thread *t = add_simple(&model, i + 1, "work");
		struct vt_model_frame *frame;

		report_add_python(&model, t, "f", "f.py", 3);
		frame = &t->stack.frames[t->stack.n_frames - 1];
		frame->locals = locals[i];
		frame->n_locals = locals[i] ? 1 : 0;
	}
	assert_true(vt_model_account(&model));
	assert_int_equal(model.thread_groups.n, 3);
	assert_int_equal(model.threads.data[0].group, model.threads.data[1].group);
	assert_true(model.threads.data[0].stack.hash == model.threads.data[2].stack.hash);
	vt_model_deinit(&model);
}

/* Threads without a name for their frames are told apart by where they are. */
static void test_nameless_frames(void **state)
{
	struct vt_model_thread *t;
	struct vt_model model;

	(void)state;
	vt_model_init(&model);
	add_simple(&model, 1, NULL);
	add_simple(&model, 2, NULL);
	t = report_add_thread(&model, 3, "t"); /* the others may have moved */
	report_copy_stack(t, &model.threads.data[0]);
	assert_true(vt_model_account(&model));
	assert_int_equal(model.thread_groups.n, 2);
	assert_int_equal(model.threads.data[2].group, model.threads.data[0].group);
	assert_true(model.threads.data[0].stack.hash == model.threads.data[2].stack.hash);
	assert_true(model.threads.data[0].stack.hash != model.threads.data[1].stack.hash);
	vt_model_deinit(&model);
}

/* ---- headlines, diagnostics, completeness ---- */

/* What hangs need not be the main thread; and where it is in the program, not in a library. */
static void test_other_thread_hangs(void **state)
{
	struct vt_model model;
	struct vt_model_thread *t;

	(void)state;
	vt_model_init(&model);
	t = report_add_thread(&model, 7, "python3");
	t->is_main = true;
	report_does(&model, t, NULL, "running on CPU 3");
	report_add_python(&model, t, "main", "/home/me/train.py", 9);
	t = report_add_thread(&model, 8, "loader");
	report_does(&model, t, "in cudaFree, for the caching allocator", NULL);
	report_add_python(&model, t, "empty_cache",
			  "/usr/lib/python3/dist-packages/torch/cuda/memory.py", 224);
	report_add_python(&model, t, "prefetch", "/home/me/train.py", 41);
	t = report_add_thread(&model, 9, "pt_autograd_0");
	report_does(&model, t, "idle autograd thread", NULL);
	t->idle = true;
	assert_true(vt_model_account(&model));
	assert_true(has_headline(&model, "main-thread",
				 "main thread is running on CPU 3 (train.py:9 main)"));
	assert_true(has_headline(
		&model, "device-wait",
		"thread 8 (loader) is in cudaFree, for the caching allocator (train.py:41 prefetch)"));
	assert_int_equal(model.headlines.n, 2);
	vt_model_deinit(&model);
}

static void test_gil_headline(void **state)
{
	static const struct {
		bool main_holds;
		int waiters;
		const char *text; /* NULL: none */
	} cases[] = {
		{ true, 0, NULL },
		{ true, 1, "main thread holds the GIL; 1 thread waits for it" },
		{ false, 0, "the GIL is held by thread 8 (loader), which is in malloc" },
		{ false, 2,
		  "the GIL is held by thread 8 (loader), which is in malloc; 2 threads wait for it" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct vt_model_thread *t;
		struct vt_model model;

		vt_model_init(&model);
		t = report_add_thread(&model, 7, "python");
		t->is_main = true;
		t->gil = cases[i].main_holds;
		t = report_add_thread(&model, 8, "loader");
		t->gil = !cases[i].main_holds;
		report_does(&model, t, "in malloc", NULL);
		for (int k = 0; k < cases[i].waiters; k++) {
			t = report_add_thread(&model, 20 + k, "python");
			report_does(&model, t, "waits for the GIL held by somebody", NULL);
			t->waits_for = cases[i].main_holds ? 7 : 8;
		}
		assert_true(vt_model_account(&model));
		assert_int_equal(has_headline(&model, "gil-held", ""), cases[i].text != NULL);
		assert_true(!cases[i].text || has_headline(&model, "gil-held", cases[i].text));
		vt_model_deinit(&model);
	}
}

static void test_headlines(void **state)
{
	struct vt_model model;

	(void)state;
	assert_true(report_model_build(&model, "held"));
	assert_true(has_headline(&model, "main-thread",
				 "is in cudaStreamSynchronize (train.py:88 Trainer.train_step)"));
	assert_true(has_headline(&model, "lock-held",
				 "of GPU 0 is held by thread 41530 (pt_nccl_watchdg), which is in "
				 "cudaMalloc"));
	assert_true(has_headline(&model, "memory", "GPU 0: 529 MiB free"));
	assert_true(has_headline(&model, "out-of-memory", "2 out-of-memory errors on GPU 0"));
	assert_true(has_headline(&model, "gil-held", "41530"));
	assert_true(is_alarm(&model, "lock-held"));
	vt_model_deinit(&model);

	/* A thread that allocates has the lock for a moment: nothing is wrong. */
	assert_true(report_model_build(&model, "held"));
	model.headlines.n = 0;
	for (size_t i = 0; i < model.threads.n; i++)
		model.threads.data[i].state = 'R';
	assert_true(vt_model_account(&model));
	assert_true(has_headline(&model, "lock-held", "of GPU 0"));
	assert_false(is_alarm(&model, "lock-held"));
	vt_model_deinit(&model);

	assert_true(report_model_build(&model, "many-devices"));
	/* The fullest ones, and not all of them. */
	assert_true(has_headline(&model, "memory", "GPU 39: 40.0 GiB free"));
	assert_true(has_headline(&model, "memory", "GPU 38: 41.0 GiB free"));
	assert_int_equal(model.headlines.n, 2);
	vt_model_deinit(&model);

	vt_model_init(&model);
	model.process.pid = 7;
	model.process.state = 'T';
	assert_true(vt_model_account(&model));
	assert_true(has_headline(&model, "stopped", "kill -CONT 7"));
	vt_model_deinit(&model);
}

/* ---- pinned host memory ---- */

static void build_pinned(struct vt_model *model)
{
	vt_model_init(model);
	report_add_pinned(model);
}

/* ---- out of memory ---- */

/*
 * 5 GiB allocated, holes of 1 GiB and of 512 MiB in two segments, another of 2 GiB in a private
 * pool.
 */
static void build_caught(struct vt_model *model, uint64_t requested, uint64_t free_bytes,
			 uint64_t total)
{
	struct vt_model_oom *oom;

	vt_model_init(model);
	report_add_device(model, 0, total - free_bytes, total);
	report_add_allocator(model, 0);
	report_add_segment(model, 0, 0, 0);
	report_add_block(model, VT_BLOCK_ALLOCATED, 3 * GIB, 3 * GIB);
	report_add_block(model, VT_BLOCK_CACHED, GIB, 0);
	report_add_segment(model, 0, 0xabc0, 0);
	report_add_block(model, VT_BLOCK_ALLOCATED, 2 * GIB, 2 * GIB);
	report_add_block(model, VT_BLOCK_CACHED, 512 * MIB, 0);
	report_add_segment(model, VT_BLOCK_PRIVATE_POOL, 0, UINT64_C(1) << 32);
	report_add_block(model, VT_BLOCK_CACHED, 2 * GIB, 0);
	oom = vt_vec_append(&model->ooms);
	assert_non_null(oom);
	*oom = (struct vt_model_oom){
		.number = 7,
		.of_pytorch = true,
		.requested = requested,
		.free_bytes = free_bytes,
		.total_bytes = total,
		.device = 0,
		.tid = 4711,
		.trace = VT_UNTRACED(VT_UNTRACED_NO_STACK),
	};
	model->caught.first = 7;
	model->caught.last = 8;
}

/* What PyTorch may use is known by its message alone. */
static void check_limit(const char *message, uint64_t limit, const char *headline)
{
	struct vt_model model;

	build_caught(&model, 4 * GIB, 5 * GIB, 80 * GIB);
	model.caught.message = message;
	assert_true(vt_model_account(&model));
	assert_int_equal(model.caught.limit_bytes, limit);
	assert_true(has_headline(&model, "limited", headline));
	vt_model_deinit(&model);
}

static void test_limit(void **state)
{
	(void)state;
	check_limit("GPU 0 has. 9.50 GiB allowed; Of the", 19 * GIB / 2, "may use 9.50 GiB of");
	check_limit("512 bytes allowed;", 512, "may use 512 B of");
	check_limit("96.50 MiB allowed;", 193 * MIB / 2, "PyTorch may use 96.5 MiB of");
	check_limit("(GPU 0; 80.00 GiB total; 1.00 KiB allowed; x", 1024, "may use 1.00 KiB of");
	check_limit("CUDA out of memory.", 0, "PyTorch has no limit of its own: the driver");
	for (size_t i = 0; i < 8; i++)
		check_limit((const char *[]){ " allowed;", "MiB allowed;", " MiB allowed;",
					      "x MiB allowed;", "1 XiB allowed;",
					      "1e999 GiB allowed;", "99999999999 GiB allowed;",
					      "1. allowed;" }[i],
			    0, "the driver refused");
	check_limit(NULL, 0, "or the driver refused it");
}

static void check_verdict(uint64_t requested, uint64_t free_bytes, uint64_t total,
			  enum vt_oom_verdict verdict)
{
	struct vt_model model;

	build_caught(&model, requested, free_bytes, total);
	assert_true(vt_model_account(&model));
	assert_int_equal(model.caught.verdict, verdict);
	assert_ptr_equal(model.caught.oom, &model.ooms.data[0]);
	assert_int_equal(model.caught.holes.bytes, requested > MIB ? 1536 * MIB : 0);
	assert_int_equal(model.caught.hole_segments, requested > MIB ? 2 : 0);
	assert_int_equal(model.caught.largest_hole, requested > MIB ? GIB : 0);
	assert_int_equal(model.caught.held_bytes, 5 * GIB);
	assert_true(model.caught.others_known);
	assert_int_equal(model.caught.others_bytes, total - free_bytes - 8704 * MIB);
	assert_string_equal(model.headlines.data[0].code, "caught");
	assert_true(has_headline(&model, "caught", "1 more request failed"));
	assert_true(has_headline(&model, vt_oom_verdict_name(verdict), ""));
	vt_model_deinit(&model);
}

static void test_caught(void **state)
{
	struct vt_model model;

	(void)state;
	check_verdict(100 * GIB, GIB, 80 * GIB, VT_OOM_TOO_LARGE);
	check_verdict(UINT64_MAX, GIB, 80 * GIB, VT_OOM_TOO_LARGE);
	check_verdict(3 * GIB, 4 * GIB, 80 * GIB, VT_OOM_LIMITED);
	check_verdict(GIB, 0, 80 * GIB, VT_OOM_ELSEWHERE);           /* of another stream */
	check_verdict(GIB + GIB / 2, 0, 80 * GIB, VT_OOM_ELSEWHERE); /* in the private pool */
	check_verdict(5 * GIB / 2, 2 * GIB, 80 * GIB, VT_OOM_FRAGMENTED);
	check_verdict(5 * GIB / 2, GIB / 2, 80 * GIB, VT_OOM_FULL);
	/* Nothing of the small pool is cached. A new segment of it has 2 MiB. */
	check_verdict(MIB, 3 * MIB, 80 * GIB, VT_OOM_LIMITED);

	/* What is not known is not told. */
	build_caught(&model, GIB, 0, 80 * GIB);
	model.allocators.data[0].device = 1;
	assert_true(vt_model_account(&model));
	assert_int_equal(model.caught.verdict, VT_OOM_UNDECIDED);
	assert_string_equal(model.headlines.data[0].code, "caught");
	vt_model_deinit(&model);
	/* The recorder's own list could not be read. */
	build_caught(&model, GIB, 0, 80 * GIB);
	model.caught.event = model.ooms.data[0];
	model.ooms.n = 0;
	assert_true(vt_model_account(&model));
	assert_ptr_equal(model.caught.oom, &model.caught.event);
	assert_int_equal(model.caught.verdict, VT_OOM_ELSEWHERE);
	vt_model_deinit(&model);
}

static void test_pinned(void **state)
{
	struct vt_model model;
	const struct vt_model_pinned *p = &model.pinned;

	(void)state;
	build_pinned(&model);
	assert_true(vt_model_account(&model));
	assert_true(p->exact && p->sum_known);
	assert_int_equal(p->total.bytes, 6 * GIB + 256 * KIB);
	assert_int_equal(p->total.blocks, 7);
	assert_int_equal(p->states[VT_BLOCK_ALLOCATED].bytes, 2 * GIB);
	assert_int_equal(p->states[VT_BLOCK_AWAITING_FREE].bytes, 256 * KIB);
	assert_int_equal(p->states[VT_BLOCK_CACHED].bytes, 4 * GIB);
	assert_int_equal(p->states[VT_BLOCK_CACHED].blocks, 4);
	assert_int_equal(p->private_pools.blocks, 1);
	assert_int_equal(p->largest_cached, 2 * GIB);
	assert_true(has_headline(&model, "pinned-cached", "4.00 GiB of host memory"));
	assert_int_equal(model.completeness, VT_COMPLETE);
	vt_model_deinit(&model);
	/* little of it is not worth a line */
	build_pinned(&model);
	model.pinned.n_blocks = 3;
	assert_true(vt_model_account(&model));
	assert_true(p->exact);
	assert_false(has_headline(&model, "pinned-cached", ""));
	vt_model_deinit(&model);
}

static void pinned_state(struct vt_model *m)
{
	m->pinned.blocks[2].state = VT_BLOCK_UNMAPPED;
}
static void pinned_size(struct vt_model *m)
{
	m->pinned.blocks[2].size = 0;
}
static void pinned_overlap(struct vt_model *m)
{
	m->pinned.blocks[2].size = 512 * KIB;
}
static void pinned_order(struct vt_model *m)
{
	m->pinned.blocks[2].addr = 4096;
}
static void pinned_overflow(struct vt_model *m)
{
	m->pinned.blocks[6].size = UINT64_MAX - 5;
}
static void pinned_refused(struct vt_model *m)
{
	m->pinned.result = VT_WALK_REFUSED;
}

static void test_pinned_refused(void **state)
{
	static void (*const breaks[])(struct vt_model *
				      model) = { pinned_state, pinned_size,     pinned_overlap,
						 pinned_order, pinned_overflow, pinned_refused };

	(void)state;
	for (size_t i = 0; i < sizeof(breaks) / sizeof(breaks[0]); i++) {
		struct vt_model model;

		build_pinned(&model);
		breaks[i](&model);
		assert_true(vt_model_account(&model));
		assert_false(model.pinned.exact || model.pinned.sum_known || model.pinned.n_blocks);
		assert_int_equal(model.pinned.total.bytes, 0);
		assert_true(has_diag(&model, VT_DIAG_MISSING, "pinned-refused"));
		assert_false(has_headline(&model, "pinned-cached", ""));
		vt_model_deinit(&model);
	}
}

static void test_pinned_unstable(void **state)
{
	(void)state;
	for (int same = 0; same < 2; same++) {
		struct vt_model model;

		build_pinned(&model);
		model.pinned.result = VT_WALK_UNSTABLE;
		model.pinned.same_blocks = same;
		assert_true(vt_model_account(&model));
		assert_false(model.pinned.exact);
		assert_int_equal(model.pinned.sum_known, same);
		assert_int_equal(model.pinned.n_blocks, 7);
		assert_true(has_diag(&model, VT_DIAG_MISSING, "pinned-unstable"));
		assert_false(has_headline(&model, "pinned-cached", ""));
		vt_model_deinit(&model);
	}
}

static void test_diags(void **state)
{
	struct vt_model model;

	(void)state;
	vt_model_init(&model);
	vt_model_diag(&model, VT_DIAG_NOTE, VT_STAGE_STACKS, "x", "%s %d", "text", 1);
	vt_model_diag(&model, VT_DIAG_NOTE, VT_STAGE_STACKS, "x", "%s %d", "text", 1);
	assert_int_equal(model.diags.n, 1);
	vt_model_diag(&model, VT_DIAG_NOTE, VT_STAGE_STACKS, "x", "text 2");
	assert_int_equal(model.diags.n, 2);
	assert_string_equal(model.diags.data[0].text, "text 1");
	assert_true(vt_model_account(&model));
	assert_int_equal(model.completeness, VT_COMPLETE);
	vt_model_deinit(&model);
}

static void test_completeness(void **state)
{
	struct vt_model model;

	(void)state;
	assert_true(report_model_build(&model, "nothing"));
	assert_int_equal(model.completeness, VT_NOTHING);
	vt_model_deinit(&model);
	assert_true(report_model_build(&model, "no-cuda"));
	assert_int_equal(model.completeness, VT_COMPLETE);
	vt_model_deinit(&model);
	assert_true(report_model_build(&model, "unstable"));
	assert_int_equal(model.completeness, VT_PARTIAL);
	vt_model_deinit(&model);

	/* A diagnostic that was lost for want of memory. */
	build_small(&model);
	model.completeness = VT_PARTIAL;
	assert_true(vt_model_account(&model));
	assert_int_equal(model.completeness, VT_PARTIAL);
	vt_model_deinit(&model);
}

static void test_names(void **state)
{
	(void)state;
	assert_string_equal(vt_completeness_name(VT_NOTHING), "nothing");
	assert_string_equal(vt_method_name(VT_METHOD_INSIDE), "inside");
	assert_string_equal(vt_block_state_name(VT_BLOCK_AWAITING_FREE), "awaiting-free");
	assert_string_equal(vt_block_state_name(200), "unknown");
	assert_string_equal(vt_walk_result_name(VT_WALK_REFUSED), "refused");
	assert_string_equal(vt_walk_lock_name(VT_LOCK_HELD_BY), "held");
}

/* ---- sites ---- */

static const struct vt_model_frame site_frames[] = {
	{ .kind = VT_FRAME_PYTHON, .function = "forward", .file = "/home/a/net.py", .line = 5 },
	{ .kind = VT_FRAME_PYTHON,
	  .function = "linear",
	  .file = "/x/site-packages/torch/nn/functional.py",
	  .line = 7 },
	{ .kind = VT_FRAME_PYTHON, .function = "main", .file = "/home/a/train.py", .line = 9 },
	{ .kind = VT_FRAME_NATIVE, .function = "at::_ops::mm::call", .module = "libtorch_cpu.so" },
	{ .kind = VT_FRAME_NATIVE, .function = "c10::cuda::malloc", .module = "libc10_cuda.so" },
	/* Another place of the same line. */
	{ .kind = VT_FRAME_PYTHON, .function = "forward", .file = "/home/a/net.py", .line = 5 },
};

static void build_sites(struct vt_model *model)
{
	static const uint32_t a[] = { 4, 1, 0, 2, UINT32_MAX }, b[] = { 5, 2, UINT32_MAX },
			      c[] = { 4, 3, UINT32_MAX }, d[] = { UINT32_MAX };
	static const uint32_t *const traces[] = { a, b, c, d };

	build_small(model);
	report_add_traces(model, site_frames, sizeof(site_frames) / sizeof(site_frames[0]), traces,
			  4);
}

static void test_sites(void **state)
{
	struct vt_model model;
	uint64_t bytes = 0, blocks = 0;

	(void)state;
	build_sites(&model);
	assert_true(vt_model_account(&model));
	/* Blocks in use: number 0 of trace a, 1 of b, 4 of a; number 6 has none. */
	assert_int_equal(model.sites.n, 1);
	assert_ptr_equal(model.sites.data[0].title->file, site_frames[0].file);
	assert_int_equal(model.sites.data[0].bytes, 5 * MIB);
	assert_int_equal(model.sites.data[0].blocks, 3);
	assert_int_equal(model.sites.data[0].largest, 2 * MIB);
	assert_int_equal(model.sites.data[0].n_traces, 2);
	assert_int_equal(model.sites.data[0].first_trace, 0);
	assert_int_equal(model.traces.data[0].title, 2);
	assert_int_equal(model.traces.data[0].bytes, 3 * MIB);
	assert_int_equal(model.traces.data[0].next_in_site, 1);
	assert_int_equal(model.traces.data[1].next_in_site, VT_NO_TRACE);
	assert_int_equal(model.traces.data[2].site, VT_NO_SITE);
	assert_int_equal(model.traces.data[2].title, 1);
	assert_int_equal(model.traces.data[3].title, 0);
	assert_int_equal(model.untraced[VT_UNTRACED_NOT_RECORDED].bytes, 20 * MIB);
	for (size_t i = 0; i < VT_N_UNTRACED; i++) {
		bytes += model.untraced[i].bytes;
		blocks += model.untraced[i].blocks;
	}
	assert_int_equal(bytes + model.sites.data[0].bytes,
			 model.allocators.data[0].allocated_bytes);
	assert_int_equal(blocks + model.sites.data[0].blocks,
			 model.allocators.data[0].allocated_blocks);
	assert_ptr_equal(vt_model_block_trace(&model, 1), &model.traces.data[1]);
	assert_null(vt_model_block_trace(&model, 6));
	assert_int_equal(model.completeness, VT_COMPLETE);
	vt_model_deinit(&model);
}

static void test_ages(void **state)
{
	static const char *const threads[] = { "a" };
	struct vt_model model;
	struct vt_model_record *records;

	(void)state;
	build_sites(&model);
	report_add_recorder(&model, threads, 1);
	records = (struct vt_model_record *)(uintptr_t)model.block_records;
	records[0].age_ns = VT_NO_AGE;
	records[1].age_ns = 5;
	records[4].age_ns = 3;
	assert_true(vt_model_account(&model));
	assert_int_equal(model.traces.data[0].ages.oldest_ns, 3);
	assert_int_equal(model.traces.data[1].ages.oldest_ns, 5);
	assert_int_equal(model.traces.data[3].ages.oldest_ns, VT_NO_AGE);
	assert_int_equal(model.sites.data[0].ages.oldest_ns, 5);
	assert_int_equal(model.sites.data[0].ages.newest_ns, 3);
	assert_null(vt_model_block_record(&model, 0));
	assert_int_equal(vt_model_block_record(&model, 1)->age_ns, 5);
	vt_model_deinit(&model);
}

/* What is not PyTorch's is in exactly one group; memory of devices comes first. */
static void test_driver_groups(void **state)
{
	static const char *const threads[] = { "a" };
	uint64_t bytes = 0, blocks = 0;
	struct vt_model model;

	(void)state;
	build_sites(&model);
	report_add_recorder(&model, threads, 1);
	assert_true(vt_model_account(&model));
	for (size_t i = 0; i < model.driver_blocks.n; i++)
		bytes += model.driver_blocks.data[i].of_pytorch ? 0 :
								  model.driver_blocks.data[i].size;
	for (size_t i = 0; i < model.driver_groups.n; i++) {
		const struct vt_model_driver_group *g = &model.driver_groups.data[i];

		assert_true(i == 0 || g[-1].on_device >= g->on_device);
		assert_true(g->on_device ==
			    (g->kind != VT_DRIVER_KIND_HOST && g->kind != VT_DRIVER_KIND_MANAGED));
		assert_true(!g->library || !strcmp(g->library, "libtorch_cpu.so") ||
			    !strcmp(g->library, "libc10_cuda.so"));
		bytes -= g->bytes;
		blocks += g->blocks;
	}
	assert_int_equal(bytes, 0);
	assert_int_equal(blocks, 14);
	vt_model_deinit(&model);
}

/*
 * What does not add up, or points nowhere, is not shown; nor are sums of an allocator that has
 * none.
 */
static void test_sites_refused(void **state)
{
	static const uint32_t nowhere[] = { 0, 17, UINT32_MAX };
	struct vt_model model;

	(void)state;
	build_sites(&model);
	model.traces.data[2].frames = nowhere;
	assert_true(vt_model_account(&model));
	assert_null(model.block_traces);
	assert_int_equal(model.traces.n, 0);
	assert_true(has_diag(&model, VT_DIAG_MISSING, "does-not-add-up"));
	vt_model_deinit(&model);

	build_sites(&model);
	((uint32_t *)(uintptr_t)model.block_traces)[1] = 17;
	assert_true(vt_model_account(&model));
	assert_null(model.block_traces);
	assert_int_equal(model.sites.n, 0);
	assert_int_equal(model.untraced[0].bytes, 0);
	assert_true(has_diag(&model, VT_DIAG_MISSING, "does-not-add-up"));
	vt_model_deinit(&model);

	build_sites(&model);
	model.allocators.data[0].result.result = VT_WALK_UNSTABLE;
	assert_true(vt_model_account(&model));
	assert_int_equal(model.sites.n, 0);
	assert_int_equal(model.untraced[0].blocks, 0);
	assert_non_null(vt_model_block_trace(&model, 0));
	vt_model_deinit(&model);
}

/* What is a headline, and which of them is an alarm. */
static void test_notices(void **state)
{
	static const struct {
		struct vt_model_notice notice;
		bool alarm;
		const char *text;
	} cases[] = {
		{ { .code = VT_NOTICE_EXCEPTION,
		    .count = 1,
		    .name = "sys.last_value",
		    .type = "ValueError",
		    .certain = true,
		    .other = "big in load (b.py:4)" },
		  true,
		  "48.0 MiB are held by nothing but an exception's traceback: sys.last_value (ValueError) "
		  "keeps big in load (b.py:4); delete the sys.last_* variables to free them" },
		{ { .code = VT_NOTICE_EXCEPTION, .count = 2, .name = "e in main (a.py:3)" },
		  false, /* not all references were found */
		  "48.0 MiB are held by nothing but the tracebacks of 2 exceptions: e in main (a.py:3) "
		  "keeps 1.00 MiB; drop these or their __traceback__ to free them "
		  "(probably)" },
		{ { .code = VT_NOTICE_EXCEPTION,
		    .why = VT_WHY_HANDLED,
		    .count = 1,
		    .name = "e",
		    .certain = true },
		  false,
		  "48.0 MiB are held by nothing but an exception's traceback: e keeps it; it is being "
		  "handled at the moment" },
		{ { .code = VT_NOTICE_GARBAGE,
		    .why = VT_WHY_OFF,
		    .name = "garbage: Node.x",
		    .certain = true },
		  true,
		  "48.0 MiB are garbage (the largest is Node.x) that Python's collector has not freed: it "
		  "is off (gc.disable()); gc.collect() would free them" },
		{ { .code = VT_NOTICE_GARBAGE, .why = VT_WHY_YOUNG, .name = "", .certain = true },
		  false,
		  "48.0 MiB are garbage that Python's collector has not freed yet: it will come to it soon" },
		{ { .code = VT_NOTICE_GARBAGE, .name = "", .certain = true },
		  true,
		  "48.0 MiB are garbage that Python's collector has not freed, as gc.collect() would" },
		{ { .code = VT_NOTICE_KEPT_GRAPHS, .count = 6, .name = "losses", .certain = true },
		  false,
		  "losses (6 items) keeps 48.0 MiB alive, 1.00 MiB of it for the graphs that made its items" },
		{ { .code = VT_NOTICE_KEPT_GRAPHS,
		    .why = VT_WHY_OUTDATED,
		    .count = 6,
		    .versions = 1,
		    .name = "losses",
		    .certain = true },
		  false,
		  "losses (6 items) keeps 48.0 MiB alive, 1.00 MiB of it for the graphs that made its "
		  "items; a tensor they saved has changed since, so backward() cannot use them all: "
		  ".detach() would free them" },
		{ { .code = VT_NOTICE_KEPT_GRAPHS,
		    .why = VT_WHY_GROWS,
		    .count = 6,
		    .versions = 5,
		    .name = "losses",
		    .certain = true },
		  true,
		  "losses (6 items) keeps 48.0 MiB alive, 1.00 MiB of it for the graphs that made its "
		  "items; a tensor they saved changed in between (5 versions), so backward() can use the "
		  "latest at most: store .detach() or .item() instead" },
		{ { .code = VT_NOTICE_LEFT_PARAMETERS,
		    .count = 1,
		    .name = "optimizer",
		    .certain = true },
		  true,
		  "optimizer holds 1 parameter that nothing else holds, 48.0 MiB with gradients and state: "
		  "was it made for another model? Without it they are free" },
		{ { .code = VT_NOTICE_LOST_GRADIENTS,
		    .count = 1,
		    .name = "m in f (a.py:3)",
		    .other = "m.w in f (a.py:3)",
		    .certain = true },
		  false,
		  "48.0 MiB are gradients of 1 parameter of m in f (a.py:3) that no optimizer has, such as "
		  "m.w: if nothing else uses them, requires_grad_(False) avoids them" },
		{ { .code = VT_NOTICE_FROZEN_STATE,
		    .count = 2,
		    .name = "opt in f (a.py:3)",
		    .other = "m.w in f (a.py:3)",
		    .certain = true },
		  false,
		  "48.0 MiB in opt in f (a.py:3) are state of 2 frozen parameters (requires_grad is "
		  "False), such as m.w: an optimizer without them has none" },
		{ { .code = VT_NOTICE_EQUAL_MODELS,
		    .count = 3,
		    .name = "m",
		    .other = "ema",
		    .certain = true },
		  false,
		  "m and ema and 1 more are models of one class with the same shapes, 48.0 MiB each: fine "
		  "if each is needed (an EMA, a teacher)" },
		{ { .code = VT_NOTICE_STATE_COPY,
		    .name = "best in f (a.py:3)",
		    .other = "m in f (a.py:3)",
		    .certain = true },
		  false,
		  "best holds a copy of the parameters of m in f (a.py:3), 48.0 MiB: on the CPU it needs "
		  "none of the device's memory" },
		{ { .code = VT_NOTICE_DATASET,
		    .name = "images",
		    .type = "Images",
		    .certain = true },
		  false,
		  "48.0 MiB are held by a data set, images (Images): in host memory it leaves the device "
		  "to the rest" },
		{ { .code = VT_NOTICE_KEPT_GRADIENTS,
		    .count = 2,
		    .name = "forward()",
		    .certain = true },
		  false,
		  "48.0 MiB of gradients are kept while forward() runs: zero_grad() before it would free "
		  "them, unless they are accumulated" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct vt_model model;
		struct vt_model_notice *notice;

		vt_model_init(&model);
		notice = vt_vec_append(&model.owners.notices);
		assert_non_null(notice);
		*notice = cases[i].notice;
		notice->bytes = 48 * MIB;
		notice->part_bytes = MIB;
		notice->other = notice->other ? notice->other : "";
		notice->type = notice->type ? notice->type : "";
		assert_true(vt_model_account(&model));
		assert_int_equal(model.headlines.n, 1);
		assert_string_equal(model.headlines.data[0].text, cases[i].text);
		assert_int_equal(model.headlines.data[0].alarm, cases[i].alarm);
		vt_model_deinit(&model);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sums),
		cmocka_unit_test(test_requested_unknown),
		cmocka_unit_test(test_groups),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_inexact),
		cmocka_unit_test(test_used_less_than_reserved),
		cmocka_unit_test(test_memory_moved),
		cmocka_unit_test(test_device_nonsense),
		cmocka_unit_test(test_thread_groups),
		cmocka_unit_test(test_groups_by_locals),
		cmocka_unit_test(test_nameless_frames),
		cmocka_unit_test(test_other_thread_hangs),
		cmocka_unit_test(test_gil_headline),
		cmocka_unit_test(test_headlines),
		cmocka_unit_test(test_caught),
		cmocka_unit_test(test_limit),
		cmocka_unit_test(test_pinned),
		cmocka_unit_test(test_pinned_refused),
		cmocka_unit_test(test_pinned_unstable),
		cmocka_unit_test(test_diags),
		cmocka_unit_test(test_completeness),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_sites),
		cmocka_unit_test(test_ages),
		cmocka_unit_test(test_driver_groups),
		cmocka_unit_test(test_sites_refused),
		cmocka_unit_test(test_notices),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
