/* SPDX-License-Identifier: Apache-2.0 */
/* What follows from further looks at a process: which waits are an alarm, and which are not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "model/account.h"
#include "model/model.h"

#define MAIN 100
#define OTHER 101

static struct vt_model model;
static uint64_t span_ns = VT_NS_PER_S;

/* A thread that was seen twice, doing the same. */
static struct vt_model_again_thread *add(pid_t tid, enum vt_again_moved moved, double cpu_ms,
					 enum vt_verdict_code verdict, const char *function,
					 enum vt_waits_code waits, const char *call)
{
	struct vt_model_thread *seen = vt_vec_append(&model.threads);
	struct vt_model_again_thread *t = vt_vec_append(&model.again.threads);

	assert_non_null(seen);
	assert_non_null(t);
	*seen = (struct vt_model_thread){
		.tid = tid,
		.name = "python3",
		.state = 'S',
		.is_main = tid == MAIN,
		.verdict = { .code = verdict, .function = function },
		.waits = { .code = waits, .call = call },
		.idle = vt_verdict_is_idle(verdict),
		.syscall = call,
	};
	*t = (struct vt_model_again_thread){
		.tid = tid,
		.name = "python3",
		.is_main = seen->is_main,
		.idle = seen->idle,
		.moved = moved,
		.cpu_known = true,
		.cpu_ns = (uint64_t)(cpu_ms * (double)VT_NS_PER_MS),
	};
	assert_true(vt_again_add_place(t, seen, &model.arena));
	assert_true(vt_again_add_place(t, seen, &model.arena));
	assert_int_equal(t->n_places, 1);
	assert_int_equal(t->places[0].looks, 2);
	return t;
}

static void begin(void)
{
	vt_model_init(&model);
	model.again.looks = 2;
	model.again.span_ns = span_ns;
}

static const char *judge(void)
{
	assert_true(vt_again_account(&model));
	return vt_again_verdict_name(model.again.verdict);
}

static void expect(const char *verdict)
{
	bool alarm = !strcmp(verdict, "stuck");

	assert_string_equal(judge(), verdict);
	assert_int_equal(model.again.alarm, alarm);
	assert_int_equal(model.headlines.n, 1);
	assert_int_equal(model.headlines.data[0].alarm, alarm);
	vt_model_deinit(&model);
}

/* The main thread alone, asleep throughout. */
static void expect_alone(enum vt_verdict_code code, const char *function, enum vt_waits_code waits,
			 const char *call, const char *verdict)
{
	begin();
	add(MAIN, VT_AGAIN_STILL, 0, code, function, waits, call);
	expect(verdict);
}

static void test_waits(void **state)
{
	(void)state;
	/* a step, a checkpoint elsewhere, a large copy: half a minute is an alarm */
	for (int i = 0; i < 2; i++) {
		const char *verdict = i ? "stuck" : "stands";

		span_ns = i ? 29 * VT_NS_PER_S : 28 * VT_NS_PER_S;
		expect_alone(VT_VERDICT_IN_FUNCTION, "cudaStreamSynchronize", VT_WAITS_FUTEX,
			     "futex", verdict);
		expect_alone(VT_VERDICT_IN_FUNCTION, "ncclAllReduce", VT_WAITS_FUTEX, "futex",
			     verdict);
		expect_alone(VT_VERDICT_COLLECTIVE_GLOO, NULL, VT_WAITS_CONDITION, "futex",
			     verdict);
		expect_alone(VT_VERDICT_NFS, NULL, VT_WAITS_NONE, "read", verdict);
	}
	span_ns = VT_NS_PER_S;
	/* what should end soon */
	expect_alone(VT_VERDICT_PYTHON_LOCK, NULL, VT_WAITS_SEMAPHORE, "futex", "stuck");
	expect_alone(VT_VERDICT_NONE, NULL, VT_WAITS_LOCK_HELD, "futex", "stuck");
	/* what waits for something to do */
	expect_alone(VT_VERDICT_ASYNCIO, NULL, VT_WAITS_CALL, "epoll", "idle");
	expect_alone(VT_VERDICT_PYTHON_QUEUE, NULL, VT_WAITS_SEMAPHORE, "futex", "idle");
	expect_alone(VT_VERDICT_NONE, NULL, VT_WAITS_CALL, "accept4", "idle");
	expect_alone(VT_VERDICT_NONE, NULL, VT_WAITS_CALL, "poll", "idle");
	expect_alone(VT_VERDICT_NONE, NULL, VT_WAITS_SLEEP, "nanosleep", "idle");
	expect_alone(VT_VERDICT_IDLE_STORE, NULL, VT_WAITS_CALL, "poll", "idle");
	/* what may take long */
	expect_alone(VT_VERDICT_NONE, NULL, VT_WAITS_CALL, "recvfrom", "stands");
	expect_alone(VT_VERDICT_NONE, NULL, VT_WAITS_CONDITION, "futex", "stands");
	expect_alone(VT_VERDICT_NONE, NULL, VT_WAITS_FUTEX, "futex", "stands");
	expect_alone(VT_VERDICT_LOADER, NULL, VT_WAITS_CALL, "poll", "stands");
	expect_alone(VT_VERDICT_CHILD, NULL, VT_WAITS_CHILD, "wait4", "stands");
	expect_alone(VT_VERDICT_STORE, NULL, VT_WAITS_CALL, "recvfrom", "stands");
	expect_alone(VT_VERDICT_IN_FUNCTION, "ncclCommInitRank", VT_WAITS_CALL, "recvfrom",
		     "stands");
	expect_alone(VT_VERDICT_IN_FUNCTION, "nvrtcCompileProgram", VT_WAITS_NONE, NULL, "stands");
}

/* Every verdict and wait leads to some answer, and to an alarm only with "stuck". */
static void test_all_codes(void **state)
{
	(void)state;
	for (int code = 0; code < VT_N_VERDICTS; code++) {
		begin();
		add(MAIN, VT_AGAIN_STILL, 0, (enum vt_verdict_code)code,
		    code == VT_VERDICT_IN_FUNCTION ? "cuCtxSynchronize" : NULL, VT_WAITS_NONE,
		    NULL);
		assert_non_null(judge());
		assert_int_equal(model.again.alarm, model.again.verdict == VT_AGAIN_IS_STUCK);
		vt_model_deinit(&model);
	}
}

static void test_another_thread(void **state)
{
	(void)state;
	/* The main thread serves; its worker hangs in the GPU, or works there. */
	begin();
	add(MAIN, VT_AGAIN_STILL, 0, VT_VERDICT_ASYNCIO, NULL, VT_WAITS_CALL, "epoll");
	add(OTHER, VT_AGAIN_STILL, 0, VT_VERDICT_IN_FUNCTION, "cudaEventSynchronize",
	    VT_WAITS_FUTEX, "futex");
	assert_string_equal(judge(), "stands");
	assert_int_equal(model.again.subject, OTHER);
	assert_false(model.again.alarm);
	assert_string_equal(
		model.headlines.data[0].text,
		"thread 101 (python3) has not moved for 1.0 s, 0 ms of processor: it is in "
		"cudaEventSynchronize");
	vt_model_deinit(&model);
	begin();
	model.again.span_ns = 30 * VT_NS_PER_S;
	add(MAIN, VT_AGAIN_STILL, 0, VT_VERDICT_ASYNCIO, NULL, VT_WAITS_CALL, "epoll");
	add(OTHER, VT_AGAIN_STILL, 0, VT_VERDICT_IN_FUNCTION, "cudaEventSynchronize",
	    VT_WAITS_FUTEX, "futex");
	assert_string_equal(judge(), "stuck");
	assert_int_equal(model.again.subject, OTHER);
	assert_non_null(strstr(model.headlines.data[0].text, "thread 101 (python3)"));
	vt_model_deinit(&model);
	/* The main thread waits for the GPU, but another one computes: no alarm. */
	begin();
	add(MAIN, VT_AGAIN_STILL, 0, VT_VERDICT_IN_FUNCTION, "cudaStreamSynchronize",
	    VT_WAITS_FUTEX, "futex");
	add(OTHER, VT_AGAIN_MOVED, 300, VT_VERDICT_NONE, NULL, VT_WAITS_RUNNING, NULL);
	expect("others-work");
	/* Threads that come and go between two looks are counted with the process. */
	begin();
	model.again.process_cpu_ns = VT_NS_PER_S / 10;
	add(MAIN, VT_AGAIN_STILL, 0, VT_VERDICT_PYTHON_LOCK, NULL, VT_WAITS_SEMAPHORE, "futex");
	expect("others-work");
	begin();
	model.again.process_cpu_ns = VT_NS_PER_S / 50;
	add(MAIN, VT_AGAIN_STILL, 0, VT_VERDICT_PYTHON_LOCK, NULL, VT_WAITS_SEMAPHORE, "futex");
	expect("stuck");
	/* A thread that wakes up for a moment does not work. */
	begin();
	add(MAIN, VT_AGAIN_STILL, 0, VT_VERDICT_PYTHON_LOCK, NULL, VT_WAITS_SEMAPHORE, "futex");
	add(OTHER, VT_AGAIN_MOVED, 0.4, VT_VERDICT_NONE, NULL, VT_WAITS_SLEEP, "nanosleep");
	expect("stuck");
	/* A main thread that moved is not stuck, whatever others do. */
	begin();
	add(MAIN, VT_AGAIN_MOVED, 2, VT_VERDICT_NONE, NULL, VT_WAITS_RUNNING, NULL);
	add(OTHER, VT_AGAIN_STILL, 0, VT_VERDICT_PYTHON_LOCK, NULL, VT_WAITS_SEMAPHORE, "futex");
	expect("moves");
}

static void test_running(void **state)
{
	(void)state;
	begin();
	add(MAIN, VT_AGAIN_SAME, 980, VT_VERDICT_NONE, NULL, VT_WAITS_RUNNING, NULL);
	expect("spins");
	/* In a function of CUDA, too: it may be called again and again. */
	begin();
	add(MAIN, VT_AGAIN_SAME, 980, VT_VERDICT_IN_FUNCTION, "cudaStreamSynchronize",
	    VT_WAITS_RUNNING, NULL);
	expect("spins");
	begin();
	model.again.span_ns = 60 * VT_NS_PER_S;
	add(MAIN, VT_AGAIN_SAME, 59000, VT_VERDICT_IN_FUNCTION, "cudaStreamSynchronize",
	    VT_WAITS_RUNNING, NULL);
	expect("spins");
	begin();
	add(MAIN, VT_AGAIN_SAME, 1, VT_VERDICT_NONE, NULL, VT_WAITS_FUTEX, "futex");
	expect("polls");
	begin();
	add(MAIN, VT_AGAIN_SAME, 1, VT_VERDICT_NONE, NULL, VT_WAITS_SLEEP, "nanosleep");
	expect("idle");
	begin();
	add(MAIN, VT_AGAIN_UNKNOWN, 500, VT_VERDICT_NONE, NULL, VT_WAITS_RUNNING, NULL);
	expect("unknown");
	/* It may be what the main thread waits for, and that ran. */
	begin();
	add(MAIN, VT_AGAIN_UNKNOWN, 500, VT_VERDICT_NONE, NULL, VT_WAITS_RUNNING, NULL);
	add(OTHER, VT_AGAIN_STILL, 0, VT_VERDICT_IN_FUNCTION, "cuCtxSynchronize", VT_WAITS_FUTEX,
	    "futex");
	expect("unknown");
}

/* PyTorch's counters move: no alarm, whatever the looks have seen. That they do not is no proof. */
static void test_pytorch(void **state)
{
	(void)state;
	for (uint64_t count = 0; count < 2; count++) {
		begin();
		model.again.torch_known = true;
		model.again.torch_count = count;
		add(MAIN, VT_AGAIN_SAME, 980, VT_VERDICT_IN_FUNCTION, "cudaStreamSynchronize",
		    VT_WAITS_RUNNING, NULL);
		expect(count ? "moves" : "spins");
		begin();
		model.again.torch_known = true;
		model.again.torch_count = count;
		add(MAIN, VT_AGAIN_STILL, 0, VT_VERDICT_PYTHON_LOCK, NULL, VT_WAITS_SEMAPHORE,
		    "futex");
		expect(count ? "others-work" : "stuck");
		/* It is the main thread that allocates, between two sleeps. */
		begin();
		model.again.torch_known = true;
		model.again.torch_count = count;
		add(MAIN, VT_AGAIN_SAME, 5, VT_VERDICT_NONE, NULL, VT_WAITS_SLEEP, "nanosleep");
		expect(count ? "moves" : "idle");
	}
}

/* It stood in each look, and went on when its streams had become idle. */
static void test_went_on(void **state)
{
	struct vt_model_again_thread *t;

	(void)state;
	span_ns = VT_AGAIN_LONG_NS;
	begin();
	t = add(MAIN, VT_AGAIN_MOVED, 0, VT_VERDICT_IN_FUNCTION, "cudaStreamSynchronize",
		VT_WAITS_FUTEX, "futex");
	t->went_on = true;
	assert_string_equal(judge(), "moves");
	assert_non_null(strstr(model.headlines.data[0].text,
			       "not stuck: main thread went on after 29.0 s"));
	vt_model_deinit(&model);
	span_ns = VT_NS_PER_S;
}

/* So do launches that the recorder saw end. */
static void test_launches(void **state)
{
	(void)state;
	for (uint64_t ended = 0; ended < 2; ended++) {
		begin();
		model.again.launches_known = true;
		model.again.launches_ended = ended;
		add(MAIN, VT_AGAIN_SAME, 980, VT_VERDICT_IN_FUNCTION, "cudaStreamSynchronize",
		    VT_WAITS_RUNNING, NULL);
		expect(ended ? "moves" : "spins");
		begin();
		model.again.launches_known = true;
		model.again.launches_ended = ended;
		add(MAIN, VT_AGAIN_STILL, 0, VT_VERDICT_PYTHON_LOCK, NULL, VT_WAITS_SEMAPHORE,
		    "futex");
		assert_string_equal(judge(), ended ? "others-work" : "stuck");
		assert_int_equal(strstr(model.headlines.data[0].text,
					"1 launch on the GPU ended") != NULL,
				 ended);
		vt_model_deinit(&model);
	}
}

/* The holder sleeps with the GIL; those that wait for it wake up every 5 ms. */
static void test_gil(void **state)
{
	(void)state;
	begin();
	add(MAIN, VT_AGAIN_SAME, 3, VT_VERDICT_GIL, NULL, VT_WAITS_CONDITION, "futex");
	model.threads.data[0].waits_for = OTHER;
	add(OTHER, VT_AGAIN_STILL, 0, VT_VERDICT_NONE, NULL, VT_WAITS_CALL, "recvfrom");
	expect("stuck");
	/* It holds the GIL while it waits for the device. */
	begin();
	add(MAIN, VT_AGAIN_SAME, 3, VT_VERDICT_GIL, NULL, VT_WAITS_CONDITION, "futex");
	model.threads.data[0].waits_for = OTHER;
	add(OTHER, VT_AGAIN_STILL, 0, VT_VERDICT_IN_FUNCTION, "cuCtxSynchronize", VT_WAITS_FUTEX,
	    "futex");
	expect("polls");
	begin();
	add(MAIN, VT_AGAIN_SAME, 3, VT_VERDICT_GIL, NULL, VT_WAITS_CONDITION, "futex");
	model.threads.data[0].waits_for = OTHER;
	add(OTHER, VT_AGAIN_SAME, 990, VT_VERDICT_NONE, NULL, VT_WAITS_RUNNING, NULL);
	expect("others-work");
}

static void test_deadlock(void **state)
{
	(void)state;
	begin();
	add(MAIN, VT_AGAIN_MOVED, 900, VT_VERDICT_NONE, NULL, VT_WAITS_RUNNING, NULL);
	add(OTHER, VT_AGAIN_STILL, 0, VT_VERDICT_NONE, NULL, VT_WAITS_LOCK_HELD, "futex")
		->deadlock = true;
	assert_string_equal(judge(), "stuck");
	assert_int_equal(model.again.subject, OTHER);
	assert_memory_equal(model.headlines.data[0].text, "stuck: ", 7);
	vt_model_deinit(&model);
}

/* A tenth of a second is no reason for an alarm, and neither is what ended. */
static void test_too_short(void **state)
{
	(void)state;
	begin();
	model.again.span_ns = 100 * VT_NS_PER_MS;
	add(MAIN, VT_AGAIN_STILL, 0, VT_VERDICT_PYTHON_LOCK, NULL, VT_WAITS_SEMAPHORE, "futex");
	expect("stands");
	begin();
	model.again.looks = 1;
	add(MAIN, VT_AGAIN_STILL, 0, VT_VERDICT_PYTHON_LOCK, NULL, VT_WAITS_SEMAPHORE, "futex");
	assert_true(vt_again_account(&model));
	assert_int_equal(model.again.verdict, VT_AGAIN_IS_NONE);
	assert_int_equal(model.headlines.n, 0);
	vt_model_deinit(&model);
	begin();
	model.again.looks = 1;
	model.again.verdict = VT_AGAIN_IS_ENDED;
	add(MAIN, VT_AGAIN_STILL, 0, VT_VERDICT_PYTHON_LOCK, NULL, VT_WAITS_SEMAPHORE, "futex");
	expect("ended");
	/* Without a main thread, and without any. */
	begin();
	expect("unknown");
	begin();
	add(OTHER, VT_AGAIN_ENDED, 0, VT_VERDICT_PYTHON_LOCK, NULL, VT_WAITS_SEMAPHORE, "futex");
	expect("unknown");
}

/* Places are counted, the most frequent one first; what is beyond the room is counted alone. */
static void test_places(void **state)
{
	struct vt_model_frame frame = { .kind = VT_FRAME_PYTHON,
					.function = "step",
					.file = "/a/t.py" };
	struct vt_model_thread seen = { .tid = MAIN,
					.state = 'R',
					.stack = { .frames = &frame, .n_frames = 1 } };
	struct vt_model_again_thread t = { .tid = MAIN, .is_main = true };
	struct vt_str text = { 0 };

	(void)state;
	begin();
	for (int i = 0; i < 40; i++) {
		frame.line = i % 4 == 0 ? 1 + i : 7;
		assert_true(vt_again_add_place(&t, &seen, &model.arena));
	}
	assert_int_equal(t.looks, 40);
	assert_int_equal(t.places[0].looks, 30);
	assert_int_equal(t.places[0].line, 7);
	assert_int_equal(t.n_places, 11);
	vt_again_say_place(&text, &t.places[0], true);
	assert_string_equal(vt_str_get(&text), "is running (t.py:7 step)");
	vt_str_deinit(&text);
	for (int i = 0; i < 40; i++) {
		frame.line = 100 + i;
		assert_true(vt_again_add_place(&t, &seen, &model.arena));
	}
	assert_int_equal(t.n_places, VT_AGAIN_MAX_PLACES);
	assert_int_equal(t.more_places, 40 - (VT_AGAIN_MAX_PLACES - 11));
	vt_model_deinit(&model);
}

/* An alarm is before what the main thread does, the rest after it. */
static void test_order(void **state)
{
	static const char *const codes[] = { "deadlock", "main-thread", "memory" };

	(void)state;
	for (int alarm = 0; alarm < 2; alarm++) {
		begin();
		for (size_t i = 0; i < 3; i++) {
			struct vt_model_headline *h = vt_vec_append(&model.headlines);

			assert_non_null(h);
			*h = (struct vt_model_headline){ .code = codes[i], .text = "" };
		}
		add(MAIN, VT_AGAIN_STILL, 0, alarm ? VT_VERDICT_PYTHON_LOCK : VT_VERDICT_ASYNCIO,
		    NULL, VT_WAITS_NONE, NULL);
		assert_true(vt_again_account(&model));
		assert_int_equal(model.headlines.n, 4);
		assert_string_equal(model.headlines.data[alarm ? 1 : 2].code, "again");
		assert_string_equal(model.headlines.data[alarm ? 2 : 1].code, "main-thread");
		assert_string_equal(model.headlines.data[3].code, "memory");
		vt_model_deinit(&model);
	}
}

static bool has_headline(const char *code)
{
	for (size_t i = 0; i < model.headlines.n; i++)
		if (!strcmp(model.headlines.data[i].code, code))
			return true;
	return false;
}

/* Streams that wait for each other: 0 and 1, 2 and 3; how each is seen to go on. */
static void add_rings(const enum vt_stream_state *states)
{
	static struct vt_model_launch wait = { .kind = VT_LAUNCHED_WAIT_VALUE },
				      write = { .kind = VT_LAUNCHED_WRITE_VALUE };

	for (unsigned int i = 0; i < 4; i++) {
		struct vt_model_stream *stream = vt_vec_append(&model.streams.list);
		struct vt_model_launch_stream *s = vt_vec_append(&model.launches.streams);

		assert_non_null(stream);
		assert_non_null(s);
		*stream = (struct vt_model_stream){ .handle = 0x1000 + i, .state = states[i] };
		*s = (struct vt_model_launch_stream){
			.handle = 0x1000 + i, .stuck = &wait, .ends_it = &write, .waits_for = i ^ 1
		};
	}
}

/* What a first look calls a deadlock is none if a later one shows a stream of it that went on. */
static void test_deadlock_of_streams_withdrawn(void **state)
{
	const enum vt_stream_state stands = VT_STREAM_BUSY_STATE, goes_on = VT_STREAM_MOVING_STATE;
	const enum vt_stream_state seen[3][4] = {
		{ stands, stands, stands, stands },
		{ stands, stands, stands, goes_on },
		{ goes_on, stands, goes_on, goes_on },
	};

	(void)state;
	for (unsigned int i = 0; i < 3; i++) {
		begin();
		add_rings(seen[i]);
		assert_true(vt_make_headlines(&model));
		assert_true(has_headline("stream-deadlock"));
		add(MAIN, VT_AGAIN_STILL, 0, VT_VERDICT_ASYNCIO, NULL, VT_WAITS_NONE, NULL);
		assert_true(vt_again_account(&model));
		assert_int_equal(has_headline("stream-deadlock"), i < 2);
		for (size_t k = 0; k < 4; k++)
			assert_int_equal(!!model.launches.streams.data[k].stuck, k < 4 - 2 * i);
		assert_true(has_headline("again"));
		vt_model_deinit(&model);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_deadlock_of_streams_withdrawn),
		cmocka_unit_test(test_waits),
		cmocka_unit_test(test_all_codes),
		cmocka_unit_test(test_another_thread),
		cmocka_unit_test(test_running),
		cmocka_unit_test(test_pytorch),
		cmocka_unit_test(test_gil),
		cmocka_unit_test(test_launches),
		cmocka_unit_test(test_went_on),
		cmocka_unit_test(test_deadlock),
		cmocka_unit_test(test_too_short),
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
