/* SPDX-License-Identifier: Apache-2.0 */
/* What two answers of a stream say together, and the blocks that were made for streams. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "model/awaiting.h"
#include "model/model.h"

static struct vt_model model;

static struct vt_model_stream *add(struct vt_model *to, int device, uint64_t handle,
				   enum vt_stream_doing first, enum vt_stream_doing second)
{
	struct vt_model_stream *stream = vt_vec_append(&to->streams.list);

	assert_non_null(stream);
	*stream = (struct vt_model_stream){
		.device = device,
		.handle = handle,
		.kind = handle ? VT_STREAM_IS_POOL : VT_STREAM_IS_DEFAULT,
		.doing = { first, second },
	};
	return stream;
}

static void test_states(void **unused)
{
	static const struct {
		enum vt_stream_doing first, second;
		enum vt_stream_state state;
	} cases[] = {
		{ VT_STREAM_DOES_NOT_ASKED, VT_STREAM_DOES_NOT_ASKED, VT_STREAM_UNKNOWN_STATE },
		{ VT_STREAM_DOES_IDLE, VT_STREAM_DOES_IDLE, VT_STREAM_IDLE_STATE },
		{ VT_STREAM_DOES_IDLE, VT_STREAM_DOES_NOT_ASKED, VT_STREAM_IDLE_STATE },
		{ VT_STREAM_DOES_BUSY, VT_STREAM_DOES_BUSY, VT_STREAM_BUSY_STATE },
		{ VT_STREAM_DOES_BUSY, VT_STREAM_DOES_NOT_ASKED, VT_STREAM_BUSY_ONCE_STATE },
		{ VT_STREAM_DOES_NOT_ASKED, VT_STREAM_DOES_BUSY, VT_STREAM_BUSY_ONCE_STATE },
		{ VT_STREAM_DOES_BUSY, VT_STREAM_DOES_IDLE, VT_STREAM_MOVING_STATE },
		{ VT_STREAM_DOES_IDLE, VT_STREAM_DOES_BUSY, VT_STREAM_MOVING_STATE },
		{ VT_STREAM_DOES_CAPTURING, VT_STREAM_DOES_IDLE, VT_STREAM_CAPTURING_STATE },
		{ VT_STREAM_DOES_BUSY, VT_STREAM_DOES_CAPTURING, VT_STREAM_CAPTURING_STATE },
		{ VT_STREAM_DOES_BUSY, VT_STREAM_DOES_FAILED, VT_STREAM_UNKNOWN_STATE },
		{ VT_STREAM_DOES_FAILED, VT_STREAM_DOES_CAPTURING, VT_STREAM_UNKNOWN_STATE },
	};

	(void)unused;
	vt_model_init(&model);
	model.streams.wanted = true;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		add(&model, 0, 0x1000 * (i + 1), cases[i].first, cases[i].second);
	assert_true(vt_model_streams_account(&model));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(vt_model_stream(&model, 0, 0x1000 * (i + 1))->state,
				 cases[i].state);
	assert_int_equal(vt_model_streams_count(&model, VT_STREAM_MOVING_STATE), 2);
	vt_model_deinit(&model);
}

/* The question after further looks; and launches that ended between them. */
static void test_later(void **unused)
{
	static const struct {
		enum vt_stream_doing doing[VT_STREAM_LOOKS];
		bool ended_known;
		uint64_t ended;
		enum vt_stream_state state;
	} cases[] = {
#define DOES(a) VT_STREAM_DOES_##a
		{ { DOES(BUSY), DOES(BUSY), DOES(BUSY) }, false, 0, VT_STREAM_BUSY_STATE },
		{ { DOES(BUSY), DOES(BUSY), DOES(NOT_ASKED) }, false, 0, VT_STREAM_BUSY_STATE },
		{ { DOES(BUSY), DOES(NOT_ASKED), DOES(BUSY) }, false, 0, VT_STREAM_BUSY_STATE },
		{ { DOES(NOT_ASKED), DOES(BUSY), DOES(NOT_ASKED) },
		  false,
		  0,
		  VT_STREAM_BUSY_ONCE_STATE },
		{ { DOES(BUSY), DOES(BUSY), DOES(IDLE) }, false, 0, VT_STREAM_MOVING_STATE },
		{ { DOES(BUSY), DOES(BUSY), DOES(CAPTURING) },
		  false,
		  0,
		  VT_STREAM_CAPTURING_STATE },
		{ { DOES(BUSY), DOES(BUSY), DOES(FAILED) }, false, 0, VT_STREAM_UNKNOWN_STATE },
		{ { DOES(BUSY), DOES(BUSY), DOES(BUSY) }, true, 0, VT_STREAM_BUSY_STATE },
		{ { DOES(BUSY), DOES(BUSY), DOES(BUSY) }, true, 7, VT_STREAM_MOVING_STATE },
		{ { DOES(BUSY), DOES(BUSY), DOES(NOT_ASKED) }, false, 7, VT_STREAM_BUSY_STATE },
		{ { DOES(IDLE), DOES(IDLE), DOES(IDLE) }, true, 7, VT_STREAM_IDLE_STATE },
#undef DOES
	};
	struct vt_model_streams *streams = &model.streams;

	(void)unused;
	vt_model_init(&model);
	streams->looks[0].when_ns = 1000;
	streams->looks[VT_STREAM_LATER].when_ns = 5000;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct vt_model_stream *stream = add(&model, 0, i + 1, 0, 0);

		memcpy(stream->doing, cases[i].doing, sizeof(stream->doing));
		stream->ended_known = cases[i].ended_known;
		stream->ended = cases[i].ended;
	}
	vt_model_streams_judge(streams);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(streams->list.data[i].state, cases[i].state);
	assert_int_equal(streams->n_asked, 2);
	assert_int_equal(streams->apart_ns, 4000);
	assert_int_equal(vt_model_streams_looks(streams), 2);
	streams->looks[VT_STREAM_LATER].look = VT_STREAMS_NOT_INSIDE;
	assert_int_equal(vt_model_streams_looks(streams), 3);
	vt_model_deinit(&model);
}

static void add_group(struct vt_model *to, uint64_t stream, uint8_t state, uint64_t bytes)
{
	struct vt_model_group *group = vt_vec_append(&to->groups);

	assert_non_null(group);
	*group = (struct vt_model_group){
		.stream = stream, .state = state, .size = bytes / 2, .blocks = 2, .bytes = bytes
	};
}

/* Streams that only blocks know are listed, behind the others, and were not asked. */
static void test_blocks(void **unused)
{
	const struct vt_model_stream *list;

	(void)unused;
	vt_model_init(&model);
	model.streams.wanted = true;
	add(&model, 0, 0x5000, VT_STREAM_DOES_IDLE, VT_STREAM_DOES_IDLE);
	add(&model, 0, 0, VT_STREAM_DOES_IDLE, VT_STREAM_DOES_BUSY);
	add_group(&model, 0x9000, VT_BLOCK_ALLOCATED, 64);
	add_group(&model, 1, VT_BLOCK_ALLOCATED, 32); /* cudaStreamLegacy */
	add_group(&model, 0, VT_BLOCK_ALLOCATED, 8);
	add_group(&model, 0x5000, VT_BLOCK_CACHED, 16);
	assert_true(vt_model_streams_account(&model));
	list = model.streams.list.data;
	assert_int_equal(model.streams.list.n, 3);
	assert_int_equal(list[0].handle, 0);
	assert_int_equal(list[0].bytes, 40);
	assert_int_equal(list[0].blocks, 4);
	assert_int_equal(list[1].handle, 0x5000);
	assert_int_equal(list[1].bytes, 0);
	assert_int_equal(list[2].handle, 0x9000);
	assert_int_equal(list[2].kind, VT_STREAM_IS_EXTERNAL);
	assert_int_equal(list[2].state, VT_STREAM_UNKNOWN_STATE);
	assert_null(vt_model_stream(&model, 1, 0));
	vt_model_deinit(&model);
}

static struct vt_model_allocator *add_allocator(struct vt_model *to)
{
	struct vt_model_allocator *a = vt_vec_append(&to->allocators);

	assert_non_null(a);
	*a = (struct vt_model_allocator){ .exact = true,
					  .awaiting_bytes = 4096,
					  .awaiting_blocks = 4 };
	a->result.waits = (struct vt_torch_waits){
		.state = VT_TORCH_WAITS_KNOWN,
		.n = 3,
		.eventless_blocks = 1,
		.eventless_bytes = 512,
		.list = { { .kind = VT_TORCH_STREAM_POOL,
			    .priority = -1,
			    .number = 7,
			    .blocks = 3,
			    .bytes = 3584 },
			  { .kind = VT_TORCH_STREAM_DEFAULT, .blocks = 2, .bytes = 1024 },
			  { .kind = VT_TORCH_STREAM_OTHER,
			    .handle = 0x9000,
			    .device = 1,
			    .blocks = 1,
			    .bytes = 512 } },
	};
	return a;
}

/* Blocks that were freed are counted for the streams that they wait for. */
static void test_waits(void **unused)
{
	const struct vt_model_stream *stream;
	struct vt_model_allocator *a;

	(void)unused;
	vt_model_init(&model);
	model.streams.wanted = true;
	add(&model, 0, 0, VT_STREAM_DOES_IDLE, VT_STREAM_DOES_IDLE);
	add(&model, 0, 0x5000, VT_STREAM_DOES_BUSY, VT_STREAM_DOES_BUSY)->number = 7;
	stream = add(&model, 0, 0x6000, VT_STREAM_DOES_BUSY, VT_STREAM_DOES_BUSY);
	((struct vt_model_stream *)stream)->number = 7;
	((struct vt_model_stream *)stream)->priority = -1;
	a = add_allocator(&model);
	vt_account_waits(a);
	assert_int_equal(a->result.waits.state, VT_TORCH_WAITS_KNOWN);
	assert_true(vt_model_streams_account(&model));
	assert_true(model.streams.waits_known);
	assert_int_equal(model.streams.list.n, 4);
	assert_int_equal(vt_model_stream(&model, 0, 0x5000)->awaiting_blocks, 0);
	assert_int_equal(vt_model_stream(&model, 0, 0x6000)->awaiting_blocks, 3);
	assert_int_equal(vt_model_stream(&model, 0, 0x6000)->awaiting_bytes, 3584);
	assert_int_equal(vt_model_stream(&model, 0, 0)->awaiting_bytes, 1024);
	assert_int_equal(vt_model_stream(&model, 1, 0x9000)->awaiting_bytes, 512);
	assert_int_equal(vt_model_stream(&model, 1, 0x9000)->kind, VT_STREAM_IS_EXTERNAL);
	vt_model_deinit(&model);

	/* Of one device it is not known: then of no stream, and what is known stays. */
	vt_model_init(&model);
	model.streams.wanted = true;
	add_allocator(&model);
	add_allocator(&model)->result.waits.state = VT_TORCH_WAITS_CHANGED;
	vt_account_waits(&model.allocators.data[1]);
	assert_int_equal(model.allocators.data[1].result.waits.n, 0);
	assert_true(vt_model_streams_account(&model));
	assert_false(model.streams.waits_known);
	assert_int_equal(model.allocators.data[0].result.waits.n, 3);
	vt_model_deinit(&model);
}

/* From inside the process anything may come. */
static void test_impossible_waits(void **unused)
{
	(void)unused;
	for (int i = 0; i < 14; i++) {
		struct vt_model_allocator *a;
		struct vt_torch_waits *waits;
		unsigned int expected = VT_TORCH_WAITS_MISMATCH;

		vt_model_init(&model);
		a = add_allocator(&model);
		waits = &a->result.waits;
		if (i == 0)
			waits->n = VT_TORCH_MAX_WAITS + 1;
		if (i == 1)
			waits->n = UINT32_MAX;
		if (i == 2)
			waits->list[0].blocks = 5;
		if (i == 3)
			waits->list[0].bytes = UINT64_MAX;
		if (i == 4)
			waits->list[1].blocks = 0;
		if (i == 5)
			waits->list[1].device = -1;
		if (i == 6)
			waits->list[1].device = VT_TORCH_MAX_DEVICES;
		if (i == 7)
			waits->list[1].kind = 17;
		if (i == 8)
			waits->list[1].handle = 0x77;
		if (i == 9)
			waits->list[2] = waits->list[1];
		if (i == 10)
			waits->eventless_blocks = 5;
		if (i == 11)
			waits->n = 0; /* nobody waits for anything */
		if (i == 12) {
			waits->state = 4711;
			expected = VT_TORCH_WAITS_UNREAD;
		}
		if (i == 13) {
			a->exact = false;
			expected = VT_TORCH_WAITS_UNREAD;
		}
		vt_account_waits(a);
		if (waits->state != expected || waits->n || waits->eventless_blocks)
			fail_msg("case %d: %u", i, waits->state);
		vt_model_deinit(&model);
	}
}

/* What the recorder of launches keeps of a stream says whether it is NCCL's. */
static void test_nccl(void **unused)
{
	static const char nccl[] =
		"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
	static const struct {
		const char *names[3];
		size_t n;
		enum vt_launched_kind second;
		int device;
		pid_t tid;
		bool known, is;
	} cases[] = {
		{ { nccl, nccl }, 2, VT_LAUNCHED_KERNEL, 0, 0, true, true },
		{ { nccl, nccl }, 2, VT_LAUNCHED_KERNEL, -1, 0, true, true },
		{ { nccl, NULL }, 2, VT_LAUNCHED_RECORD_EVENT, 0, 0, true, true },
		{ { nccl, "myncclDevKernel_f" }, 2, VT_LAUNCHED_KERNEL, 0, 0, true, false },
		{ { "f(int)", NULL }, 2, VT_LAUNCHED_KERNEL, 0, 0, true, false },
		{ { nccl, NULL }, 2, VT_LAUNCHED_KERNEL, 0, 0, false, false },
		{ { NULL, NULL }, 0, VT_LAUNCHED_KERNEL, 0, 0, false, false },
		{ { nccl, nccl }, 2, VT_LAUNCHED_KERNEL, 1, 0, false, false },
		{ { nccl, nccl }, 2, VT_LAUNCHED_KERNEL, 0, 7, false, false },
	};

	(void)unused;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct vt_model_launch launches[2] = {
			{ .kind = VT_LAUNCHED_KERNEL, .name = cases[i].names[0] },
			{ .kind = cases[i].second, .name = cases[i].names[1] },
		};
		struct vt_model_launch_stream *stream;
		const struct vt_model_stream *found;

		vt_model_init(&model);
		model.streams.wanted = true;
		add(&model, 0, 0x5000, VT_STREAM_DOES_IDLE, VT_STREAM_DOES_IDLE);
		stream = vt_vec_append(&model.launches.streams);
		assert_non_null(stream);
		*stream = (struct vt_model_launch_stream){ .device = cases[i].device,
							   .handle = 0x5000,
							   .tid = cases[i].tid,
							   .launches = launches,
							   .n = cases[i].n };
		assert_true(vt_model_streams_account(&model));
		found = vt_model_stream(&model, 0, 0x5000);
		if (found->nccl_known != cases[i].known || found->nccl != cases[i].is)
			fail_msg("case %zu: %d %d", i, found->nccl_known, found->nccl);
		vt_model_deinit(&model);
	}
}

static void test_not_wanted(void **unused)
{
	(void)unused;
	vt_model_init(&model);
	add_group(&model, 0x9000, VT_BLOCK_ALLOCATED, 64);
	assert_true(vt_model_streams_account(&model));
	assert_int_equal(model.streams.list.n, 0);
	vt_model_deinit(&model);
}

/* ---- headlines ---- */

static const char *headline(const char *code)
{
	for (size_t i = 0; i < model.headlines.n; i++)
		if (!strcmp(model.headlines.data[i].code, code))
			return model.headlines.data[i].text;
	return NULL;
}

/* One device, the default stream and one of a pool; the main thread computes in Python. */
static void begin(enum vt_stream_doing of_default, enum vt_stream_doing of_pool)
{
	static struct vt_model_frame frames[] = {
		{ .kind = VT_FRAME_PYTHON, .function = "step", .file = "/job/train.py", .line = 7 }
	};
	struct vt_model_thread *t;
	struct vt_model_gpu *gpu;

	vt_model_init(&model);
	model.streams.wanted = true;
	add(&model, 0, 0, of_default, of_default);
	add(&model, 0, 0x5000, of_pool, of_pool)->number = 3;
	t = vt_vec_append(&model.threads);
	gpu = vt_vec_append(&model.usage.gpus);
	assert_true(t && gpu);
	*t = (struct vt_model_thread){
		.tid = 1,
		.name = "python",
		.is_main = true,
		.has_python = true,
		.state = 'R',
		.gil = 1,
		.stack = { .frames = frames, .n_frames = 1, .has_python = true }
	};
	*gpu = (struct vt_model_gpu){ .uuid = "",
				      .pci = "",
				      .name = "",
				      .parent = -1,
				      .processes_known = true,
				      .health = { .known = VT_HEALTH_UTILISATION } };
	model.usage.state = VT_COUNTED_READ;
	model.usage.why = "";
}

static void main_waits(const char *function)
{
	struct vt_model_thread *t = &model.threads.data[0];

	t->state = 'S';
	t->syscall = "futex";
	t->verdict = (struct vt_verdict){ .code = VT_VERDICT_IN_FUNCTION, .function = function };
}

static void add_process(bool ours)
{
	struct vt_model_counted *process = vt_vec_append(&model.usage.processes);

	assert_non_null(process);
	*process = (struct vt_model_counted){ .pid = ours ? 1 : 2,
					      .ours = ours,
					      .name = "",
					      .command = "",
					      .user = "",
					      .container = "",
					      .pod = "" };
	model.usage.gpus.data[0].n++;
}

static void add_kernel(const char *name)
{
	struct vt_model_kernel *kernel = vt_vec_append(&model.kernels.kernels);

	assert_non_null(kernel);
	*kernel = (struct vt_model_kernel){ .name = name, .status = "Active" };
	model.kernels.state = VT_KERNELS_TOLD;
}

static void end(void)
{
	vt_model_deinit(&model);
}

#define IDLE VT_STREAM_DOES_IDLE
#define BUSY VT_STREAM_DOES_BUSY

/* What the main thread waits for, as far as it is known. */
static void test_awaited_stream(void **unused)
{
	(void)unused;
	begin(IDLE, BUSY);
	main_waits("cudaDeviceSynchronize");
	assert_true(vt_model_account(&model));
	assert_non_null(
		strstr(headline("main-thread"), "; PyTorch stream 3 of GPU 0 has unfinished work"));
	end();

	begin(BUSY, BUSY);
	main_waits("cudaDeviceSynchronize");
	assert_true(vt_model_account(&model));
	assert_non_null(strstr(headline("main-thread"), "; 2 streams have unfinished work"));
	end();

	begin(IDLE, BUSY);
	main_waits("cudaDeviceSynchronize");
	add_kernel("spin_until");
	assert_true(vt_model_account(&model));
	assert_non_null(strstr(
		headline("main-thread"),
		"; spin_until runs on GPU 0; PyTorch stream 3 of GPU 0 has unfinished work"));
	end();

	/* Which of two kernels is in the stream is not known. */
	begin(IDLE, BUSY);
	main_waits("cudaDeviceSynchronize");
	add_kernel("spin_until");
	add_kernel("another");
	assert_true(vt_model_account(&model));
	assert_null(strstr(headline("main-thread"), "stream"));
	end();

	/* One that does not wait for the device. */
	begin(IDLE, BUSY);
	assert_true(vt_model_account(&model));
	assert_true(!headline("main-thread") || !strstr(headline("main-thread"), "stream"));
	end();
}

static void test_host_bound(void **unused)
{
	(void)unused;
	begin(IDLE, IDLE);
	assert_true(vt_model_account(&model));
	assert_non_null(strstr(headline("host-bound"), "GPU 0 has nothing to do"));
	assert_non_null(strstr(headline("host-bound"), "train.py:7"));
	end();

	/* Each of these is a process that is well, or of which too little is known. */
	for (int i = 0; i < 7; i++) {
		struct vt_model_gpu *gpu;

		begin(IDLE, i == 0 ? BUSY : IDLE);
		gpu = &model.usage.gpus.data[0];
		if (i == 1)
			gpu->health.busy_percent = 20;
		if (i == 2)
			gpu->health.known = 0;
		if (i == 3)
			main_waits("cudaStreamSynchronize");
		if (i == 4)
			model.streams.pool_unknown = true;
		if (i == 5)
			model.streams.list.data[1].doing[1] = VT_STREAM_DOES_NOT_ASKED;
		if (i == 6)
			model.threads.data[0].state = 'S';
		assert_true(vt_model_account(&model));
		assert_null(headline("host-bound"));
		end();
	}
}

static void test_busy_with_others(void **unused)
{
	(void)unused;
	for (int i = 0; i < 5; i++) {
		begin(IDLE, i == 1 ? BUSY : IDLE);
		add_process(true);
		if (i != 2)
			add_process(false);
		if (i != 3)
			model.threads.data[0].state = 'S';
		model.usage.gpus.data[0].health.busy_percent = i == 4 ? 30 : 97;
		assert_true(vt_model_account(&model));
		if (i == 0)
			assert_non_null(strstr(headline("busy-with-others"),
					       "others use it, or a stream that is not known"));
		else
			assert_null(headline("busy-with-others"));
		end();
	}
}

static void test_collective_kernel(void **unused)
{
	struct vt_model_process_group *group;

	(void)unused;
	begin(IDLE, BUSY);
	add_kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL");
	assert_true(vt_model_account(&model));
	assert_non_null(strstr(headline("collective-kernel"), "waits for other ranks"));
	for (size_t i = 0; i < model.headlines.n; i++)
		assert_false(model.headlines.data[i].alarm);
	end();

	begin(IDLE, BUSY);
	add_kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL");
	group = vt_vec_append(&model.collectives.groups);
	assert_non_null(group);
	*group = (struct vt_model_process_group){
		.backend = "nccl",
		.name = "0",
		.description = "default_pg",
		.n_pending = 2,
		.oldest = { .name = "all_reduce", .started = -1, .age_ms = 31000 }
	};
	assert_true(vt_model_account(&model));
	assert_non_null(strstr(headline("collective-kernel"),
			       "all_reduce of group default_pg, called 31.0 s before"));
	end();

	begin(IDLE, BUSY);
	add_kernel("spin_until");
	assert_true(vt_model_account(&model));
	assert_null(headline("collective-kernel"));
	end();
}

/* An error of a stream after which nothing works is that of the context; others are not. */
static void test_lost_context(void **unused)
{
	static const struct {
		int error;
		bool lost;
	} cases[] = { { 710, true }, { 700, true }, { 709, false }, { 400, false } };

	(void)unused;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		begin(VT_STREAM_DOES_FAILED, VT_STREAM_DOES_FAILED);
		model.streams.list.data[0].error = cases[i].error;
		assert_true(vt_model_account(&model));
		assert_int_equal(vt_model_has_lost_context(&model), cases[i].lost);
		end();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_states),
		cmocka_unit_test(test_later),
		cmocka_unit_test(test_blocks),
		cmocka_unit_test(test_waits),
		cmocka_unit_test(test_impossible_waits),
		cmocka_unit_test(test_nccl),
		cmocka_unit_test(test_not_wanted),
		cmocka_unit_test(test_awaited_stream),
		cmocka_unit_test(test_host_bound),
		cmocka_unit_test(test_busy_with_others),
		cmocka_unit_test(test_collective_kernel),
		cmocka_unit_test(test_lost_context),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
