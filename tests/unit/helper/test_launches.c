/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder's launches: rings that wrap, streams beyond the table, what has ended, captures,
 * names of handles that are used again, threads that launch while it is switched on and off. The
 * sources are those of the library; what the driver answers is given here. Built a second time with
 * ThreadSanitizer (recorder_tsan.sh).
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "recorder/driver.h"
#include "unit/helper/recorder_fakes.h"

vt_recorder_control_fn vt_recorder_control;

/* ---- the driver ---- */

static _Thread_local uint64_t context_now = 0x100;
static _Thread_local int device_now;
static uint64_t capturing; /* this stream does */
static unsigned int n_names;
static const char *name_now = "a_kernel";

static int get_context(uint64_t *context)
{
	*context = context_now;
	return 0;
}

static int get_device(int *device)
{
	*device = device_now;
	return 0;
}

static int is_capturing(uint64_t stream, int *status)
{
	*status = stream == __atomic_load_n(&capturing, __ATOMIC_RELAXED);
	return 0;
}

static int no_name(const char **name, uint64_t handle)
{
	(void)name, (void)handle;
	return 400;
}

static int get_name(const char **name, uint64_t handle)
{
	(void)handle;
	__atomic_fetch_add(&n_names, 1, __ATOMIC_RELAXED);
	*name = name_now;
	return 0;
}

static struct vt_recorder_config config(void)
{
	struct vt_recorder_config c = fake_config();

	c.launches = 1;
	c.imports.cuCtxGetCurrent = (uintptr_t)get_context;
	c.imports.cuCtxGetDevice = (uintptr_t)get_device;
	c.imports.cuStreamIsCapturing = (uintptr_t)is_capturing;
	c.imports.cuFuncGetName = (uintptr_t)no_name;
	c.imports.cuKernelGetName = (uintptr_t)get_name;
	return c;
}

static void on(void)
{
	struct vt_recorder_config c = config();

	assert_int_equal(vt_recorder_control(VT_RECORD_ON, &c), VT_RECORDER_OK);
}

static void off(void)
{
	assert_int_equal(vt_recorder_control(VT_RECORD_OFF, NULL), VT_RECORDER_OK);
	assert_int_equal(vt_recorder.memory, 0);
}

/* ---- calls ---- */

static void begin(enum vt_recorder_call call, uint64_t a, uint64_t b, uint64_t c,
		  uint64_t stream_word, struct vt_rec_launch *launch)
{
	const uint64_t args[6] = { a, b, c, UINT64_C(2) << 32 | 7, 3, 0 };
	const uint64_t more[6] = { 99, stream_word, 0, 0, 0, 0 };

	vt_rec_launch_begins(call, args, more, launch);
}

/* By the runtime: function, grid (x | y << 32, z), block, arguments, then on the stack. */
static void launch_on(uint64_t stream, uint64_t function, int result)
{
	struct vt_rec_launch launch;

	begin(VT_CALL_cudaLaunchKernel, function, UINT64_C(5) << 32 | 4, 6, stream, &launch);
	vt_rec_launch_ended(VT_CALL_cudaLaunchKernel, result, &launch);
}

static void by_handle(uint64_t stream, uint64_t function)
{
	struct vt_rec_launch launch;

	begin(VT_CALL___cudaLaunchKernel, function, 1, 1, stream, &launch);
	vt_rec_launch_ended(VT_CALL___cudaLaunchKernel, 0, &launch);
}

static void call_on(enum vt_recorder_call call, uint64_t stream, int result)
{
	struct vt_rec_launch launch;

	begin(call, stream, 0, 0, 0, &launch);
	vt_rec_launch_ended(call, result, &launch);
}

static const struct vt_recorder_launch_stream *stream_of(uint64_t handle, int device)
{
	const struct vt_recorder_launch_stream *streams =
		(const void *)(uintptr_t)vt_recorder.launches.streams;

	for (unsigned int i = 0; i < VT_LAUNCH_STREAMS; i++)
		if (streams[i].ready && streams[i].handle == handle && streams[i].device == device)
			return &streams[i];
	return NULL;
}

static const struct vt_recorder_launch *record_of(uint64_t handle, uint64_t number)
{
	const struct vt_recorder_launch_stream *s = stream_of(handle, 0);

	assert_non_null(s);
	return (const struct vt_recorder_launch *)(uintptr_t)s->ring +
	       (number - 1) % VT_LAUNCH_RING;
}

static const char *name_of(const struct vt_recorder_launch *record)
{
	return record->name ?
		       (const char *)(uintptr_t)vt_recorder.launches.names + record->name - 1 :
		       NULL;
}

static bool is_whole(const struct vt_recorder_launch *record, uint64_t number)
{
	return record->number_state >> VT_LAUNCH_STATE_BITS == number &&
	       record->check == vt_recorder_launch_check(record);
}

/* ---- tests ---- */

static void test_record(void **state)
{
	const struct vt_recorder_launch *record;

	(void)state;
	on();
	launch_on(0x1000, 0x7777, 0);
	launch_on(0x1000, 0x8888, 9);
	record = record_of(0x1000, 1);
	assert_true(is_whole(record, 1));
	assert_int_equal(record->number_state & 3, VT_LAUNCH_SUBMITTED);
	assert_int_equal(record->what, 0x7777);
	assert_int_equal(record->kind, VT_LAUNCH_STUB);
	assert_int_equal(record->grid[0], 4);
	assert_int_equal(record->grid[1], 5);
	assert_int_equal(record->grid[2], 6);
	assert_int_equal(record->block[0], 7);
	assert_int_equal(record->block[1], 2);
	assert_int_equal(record->block[2], 3);
	assert_int_equal(record->shared, 99);
	assert_int_equal(record->tid, gettid());
	assert_int_equal(record_of(0x1000, 2)->number_state & 3, VT_LAUNCH_FAILED);
	off();
	launch_on(0x1000, 0x7777, 0);
	assert_int_equal(vt_recorder.launches.streams, 0);
}

static void test_wrap(void **state)
{
	(void)state;
	on();
	for (uint64_t i = 1; i <= 3 * VT_LAUNCH_RING + 5; i++)
		launch_on(0x1000, i, 0);
	assert_int_equal(vt_recorder_stream_launches(stream_of(0x1000, 0)), 3 * VT_LAUNCH_RING + 5);
	for (uint64_t i = 2 * VT_LAUNCH_RING + 6; i <= 3 * VT_LAUNCH_RING + 5; i++) {
		assert_true(is_whole(record_of(0x1000, i), i));
		assert_int_equal(record_of(0x1000, i)->what, i);
	}
	off();
}

static void test_many_streams(void **state)
{
	uint64_t seen = 0;

	(void)state;
	on();
	for (uint64_t i = 0; i < 2 * VT_LAUNCH_STREAMS; i++)
		launch_on(0x1000 + 16 * i, 1, 0);
	for (uint64_t i = 0; i < 2 * VT_LAUNCH_STREAMS; i++)
		seen += stream_of(0x1000 + 16 * i, 0) != NULL;
	assert_int_equal(seen, VT_LAUNCH_STREAMS);
	assert_int_equal(vt_recorder.launches.lost, VT_LAUNCH_STREAMS);
	off();
}

/* Default streams are of a context, and those of threads of a thread; 1 is another word for 0. */
static void test_default_streams(void **state)
{
	struct vt_rec_launch launch;

	(void)state;
	on();
	launch_on(0, 1, 0);
	launch_on(1, 1, 0);
	launch_on(2, 1, 0);
	begin(VT_CALL_cudaLaunchKernel_ptsz, 1, 1, 1, 0, &launch);
	vt_rec_launch_ended(VT_CALL_cudaLaunchKernel_ptsz, 0, &launch);
	device_now = 1;
	context_now = 0x200;
	launch_on(0, 1, 0);
	device_now = 0;
	context_now = 0x100;
	assert_int_equal(vt_recorder_stream_launches(stream_of(0, 0)), 2);
	assert_int_equal(vt_recorder_stream_launches(stream_of(0, 1)), 1);
	assert_int_equal(vt_recorder_stream_launches(stream_of(2, 0)), 2);
	assert_int_equal(stream_of(2, 0)->tid, gettid());
	call_on(VT_CALL_cudaDeviceSynchronize, 0, 0);
	assert_int_equal(stream_of(0, 0)->done, 2);
	assert_int_equal(stream_of(2, 0)->done, 2);
	assert_int_equal(stream_of(0, 1)->done, 0);
	off();
}

/* The first call of a thread: the runtime gives it its context meanwhile. */
static void test_first_call(void **state)
{
	const uint64_t args[6] = { 7, 1, 1, 1, 1, 0 }, more[6] = { 0 };
	struct vt_rec_launch launch;

	(void)state;
	on();
	context_now = 0;
	vt_rec_launch_begins(VT_CALL_cudaLaunchKernel, args, more, &launch);
	context_now = 0x100;
	assert_int_equal(launch.where, VT_REC_LAUNCH_LATER);
	vt_rec_launch_late(VT_CALL_cudaLaunchKernel, args, more, 0);
	launch_on(0, 1, 0);
	assert_int_equal(stream_of(0, 0)->launches_open, 2);
	assert_int_equal(record_of(0, 1)->what, 7);
	call_on(VT_CALL_cudaStreamSynchronize, 0, 0);
	assert_int_equal(stream_of(0, 0)->done, 2);
	assert_int_equal(vt_recorder.launches.lost, 0);
	off();
}

static void test_waits(void **state)
{
	struct vt_rec_launch wait, launch;

	(void)state;
	on();
	launch_on(0x1000, 1, 0);
	call_on(VT_CALL_cudaStreamQuery, 0x1000, 600);
	assert_int_equal(stream_of(0x1000, 0)->done, 0);
	call_on(VT_CALL_cudaStreamSynchronize, 0x2000, 0);
	assert_int_equal(stream_of(0x1000, 0)->done, 0);
	/* What is launched while one waits has not ended when that returns. */
	begin(VT_CALL_cudaStreamSynchronize, 0x1000, 0, 0, 0, &wait);
	launch_on(0x1000, 2, 0);
	vt_rec_launch_ended(VT_CALL_cudaStreamSynchronize, 0, &wait);
	assert_int_equal(stream_of(0x1000, 0)->done, 1);
	/* Nothing is known while a thread may not have submitted yet. */
	begin(VT_CALL_cudaLaunchKernel, 3, 1, 1, 0x1000, &launch);
	call_on(VT_CALL_cudaStreamSynchronize, 0x1000, 0);
	call_on(VT_CALL_cudaDeviceSynchronize, 0, 0);
	assert_int_equal(stream_of(0x1000, 0)->done, 1);
	assert_int_equal(record_of(0x1000, 3)->number_state & 3, VT_LAUNCH_CALLING);
	vt_rec_launch_ended(VT_CALL_cudaLaunchKernel, 0, &launch);
	call_on(VT_CALL_cuStreamQuery, 0x1000, 0);
	assert_int_equal(stream_of(0x1000, 0)->done, 3);
	off();
}

/* A call that began in another recording says nothing about this one. */
static void test_across_recordings(void **state)
{
	struct vt_rec_launch launch, wait, device;

	(void)state;
	on();
	launch_on(0x1000, 1, 0);
	begin(VT_CALL_cudaStreamSynchronize, 0x1000, 0, 0, 0, &wait);
	begin(VT_CALL_cudaDeviceSynchronize, 0, 0, 0, 0, &device);
	begin(VT_CALL_cudaLaunchKernel, 3, 1, 1, 0x1000, &launch);
	off();
	on();
	launch_on(0x1000, 1, 0);
	vt_rec_launch_ended(VT_CALL_cudaLaunchKernel, 0, &launch);
	vt_rec_launch_ended(VT_CALL_cudaStreamSynchronize, 0, &wait);
	vt_rec_launch_ended(VT_CALL_cudaDeviceSynchronize, 0, &device);
	assert_int_equal(stream_of(0x1000, 0)->done, 0);
	assert_true(stream_of(0x1000, 0)->launches_open < VT_LAUNCH_OPEN);
	off();
	vt_rec_launch_ended(VT_CALL_cudaLaunchKernel, 0, &launch);
}

static void test_captures(void **state)
{
	(void)state;
	capturing = 0x1000;
	on();
	launch_on(0x1000, 1, 0); /* began before the recording */
	launch_on(0x2000, 1, 0);
	assert_int_equal(record_of(0x1000, 1)->flags, VT_LAUNCH_CAPTURED);
	assert_int_equal(record_of(0x2000, 1)->flags, 0);
	assert_int_equal(vt_recorder.launches.captures, 1);
	capturing = 0;
	call_on(VT_CALL_cudaStreamEndCapture, 0x1000, 0);
	assert_int_equal(vt_recorder.launches.captures, 0);
	launch_on(0x1000, 1, 0);
	assert_int_equal(record_of(0x1000, 2)->flags, 0);
	call_on(VT_CALL_cudaStreamBeginCapture, 0x2000, 0);
	capturing = 0x2000;
	launch_on(0x2000, 1, 0);
	assert_int_equal(record_of(0x2000, 2)->flags, VT_LAUNCH_CAPTURED);
	call_on(VT_CALL_cuStreamEndCapture, 0x2000, 0);
	call_on(VT_CALL_cudaStreamBeginCapture, 0x2000, 1);
	assert_int_equal(vt_recorder.launches.captures, 0);
	capturing = 0;
	off();
}

/* Errors that leave a capture as it is, and captures into a graph that is there already. */
static void test_other_captures(void **state)
{
	(void)state;
	capturing = 0;
	on();
	launch_on(0x1000, 1, 0);
	call_on(VT_CALL_cuStreamBeginCaptureToGraph, 0x1000, 0);
	capturing = 0x1000;
	call_on(VT_CALL_cudaStreamEndCapture, 0x2000, 401); /* that one does not capture */
	launch_on(0x1000, 1, 0);
	assert_int_equal(record_of(0x1000, 2)->flags, VT_LAUNCH_CAPTURED);
	call_on(VT_CALL_cudaStreamEndCapture, 0x1000, 901);
	capturing = 0;
	assert_int_equal(vt_recorder.launches.captures, 0);
	off();
}

/* With the wait for its event a stream joins a capture. */
static void test_joined_capture(void **state)
{
	struct vt_rec_launch wait;

	(void)state;
	on();
	launch_on(0x1000, 1, 0);
	call_on(VT_CALL_cudaStreamBeginCapture, 0x2000, 0);
	for (unsigned int joins = 0; joins < 2; joins++) {
		capturing = 0x2000;
		begin(VT_CALL_cudaStreamWaitEvent, 0x1000, 0x7000, 0, 0, &wait);
		capturing = joins ? 0x1000 : 0x2000;
		vt_rec_launch_ended(VT_CALL_cudaStreamWaitEvent, 0, &wait);
		assert_true(is_whole(record_of(0x1000, 2 + joins), 2 + joins));
		assert_int_equal(record_of(0x1000, 2 + joins)->flags,
				 joins ? VT_LAUNCH_CAPTURED : 0);
		assert_int_equal(record_of(0x1000, 2 + joins)->what, 0x7000);
		assert_int_equal(record_of(0x1000, 2 + joins)->number_state & 3,
				 VT_LAUNCH_SUBMITTED);
	}
	capturing = 0;
	off();
}

/* What does not tell the context of a stream must not make a wait for that context count. */
static void test_other_devices_streams(void **state)
{
	static const enum vt_recorder_call any[] = { VT_CALL_cudaLaunchHostFunc,
						     VT_CALL_cuLaunchHostFunc };

	(void)state;
	on();
	for (unsigned int i = 0; i < 2; i++)
		call_on(any[i], 0x1000, 0);
	launch_on(0x1000, 1, 400); /* it is of another device */
	assert_null(stream_of(0x1000, 0));
	assert_non_null(stream_of(0x1000, -1));
	call_on(VT_CALL_cudaDeviceSynchronize, 0, 0);
	assert_int_equal(stream_of(0x1000, -1)->done, 0);
	device_now = 1;
	context_now = 0x200;
	launch_on(0x1000, 1, 0);
	device_now = 0;
	context_now = 0x100;
	call_on(VT_CALL_cudaDeviceSynchronize, 0, 0);
	assert_int_equal(stream_of(0x1000, 1)->done, 0);
	off();
}

static void test_values(void **state)
{
	struct vt_rec_launch launch;

	(void)state;
	on();
	launch_on(0x1000, 1, 0);
	begin(VT_CALL_cuStreamWaitValue32_v2, 0x1000, 0x7000, UINT64_C(0xdead00000007), 0, &launch);
	begin(VT_CALL_cuStreamWaitValue64_v2, 0x1000, 0x7000, UINT64_C(0xdead00000007), 0, &launch);
	assert_int_equal(record_of(0x1000, 2)->grid[0], 7);
	assert_int_equal(record_of(0x1000, 2)->grid[1], 0);
	assert_int_equal(record_of(0x1000, 3)->grid[1], 0xdead);
	off();
}

/* The words of a call; what its flags say beyond the comparison is left out. */
static void value_on(enum vt_recorder_call call, uint64_t stream, uint64_t b, uint64_t c,
		     uint64_t flags, int result)
{
	const uint64_t args[6] = { stream, b, c, flags, 0, 0 }, more[6] = { 0 };
	struct vt_rec_launch launch;

	vt_rec_launch_begins(call, args, more, &launch);
	vt_rec_launch_ended(call, result, &launch);
}

static void check_value(uint64_t number, uint8_t kind, uint64_t what, uint64_t value,
			uint16_t compare, uint16_t bits)
{
	const struct vt_recorder_launch *record = record_of(0x1000, number);

	assert_true(is_whole(record, number));
	assert_int_equal(record->number_state & 3, VT_LAUNCH_SUBMITTED);
	assert_int_equal(record->kind, kind);
	assert_int_equal(record->what, what);
	assert_int_equal((uint64_t)record->grid[1] << 32 | record->grid[0], value);
	assert_int_equal(record->block[0], compare);
	assert_int_equal(record->block[1], bits);
}

static void test_comparisons(void **state)
{
	(void)state;
	on();
	launch_on(0x1000, 1, 0);
	value_on(VT_CALL_cuStreamWaitValue32_v2, 0x1000, 0x7000, UINT64_C(0xdead00000007),
		 1 << 30 | VT_COMPARE_NOR, 0);
	value_on(VT_CALL_cuStreamWriteValue64_v2, 0x1000, 0x7008, UINT64_C(0xdead00000007), 1, 0);
	check_value(2, VT_LAUNCH_WAIT_VALUE, 0x7000, 7, VT_COMPARE_NOR, 32);
	check_value(3, VT_LAUNCH_WRITE_VALUE, 0x7008, UINT64_C(0xdead00000007), 0, 64);
	off();
}

static void test_batches(void **state)
{
	/* CUstreamBatchMemOpParams: 1, 4 wait, 2, 5 write, 3 flushes, 6 is a barrier */
	uint64_t ops[256][6] = {
		{ 4, 0x7000, UINT64_C(0xdead00000007), VT_COMPARE_EQ },
		{ 3 },
		{ 2, 0x7008, 8, 0 },
		{ 6 },
		{ 1, 0x7010, 9, VT_COMPARE_AND },
		{ 5, 0x7018, 10, 0 },
	};
	struct vt_rec_launch wait;

	(void)state;
	on();
	launch_on(0x1000, 1, 0);
	value_on(VT_CALL_cuStreamBatchMemOp_v2, 0x1000, UINT64_C(0xbad) << 32 | 6, (uintptr_t)ops,
		 0, 0);
	check_value(2, VT_LAUNCH_WAIT_VALUE, 0x7000, UINT64_C(0xdead00000007), VT_COMPARE_EQ, 64);
	check_value(3, VT_LAUNCH_WRITE_VALUE, 0x7008, 8, 0, 32);
	check_value(4, VT_LAUNCH_WAIT_VALUE, 0x7010, 9, VT_COMPARE_AND, 32);
	check_value(5, VT_LAUNCH_WRITE_VALUE, 0x7018, 10, 0, 64);
	assert_int_equal(stream_of(0x1000, 0)->launches_open, 5);
	/* One that fails has been no launch, each of them. */
	value_on(VT_CALL_cuStreamBatchMemOp_v2, 0x1000, 6, (uintptr_t)ops, 0, 1);
	for (uint64_t i = 6; i < 10; i++)
		assert_int_equal(record_of(0x1000, i)->number_state & 3, VT_LAUNCH_FAILED);
	/* None, no list, only what is no launch, and more than the driver takes. */
	value_on(VT_CALL_cuStreamBatchMemOp_v2, 0x1000, 0, (uintptr_t)ops, 0, 0);
	value_on(VT_CALL_cuStreamBatchMemOp_v2, 0x1000, 6, 0, 0, 1);
	value_on(VT_CALL_cuStreamBatchMemOp_v2, 0x1000, 1, (uintptr_t)ops[1], 0, 0);
	value_on(VT_CALL_cuStreamBatchMemOp_v2, 0x1000, 256, (uintptr_t)ops, 0, 1);
	assert_int_equal(stream_of(0x1000, 0)->launches_open, 9);
	for (unsigned int i = 0; i < 255; i++)
		ops[i][0] = 2;
	value_on(VT_CALL_cuStreamBatchMemOp_v2, 0x1000, 255, (uintptr_t)ops, 0, 0);
	check_value(264, VT_LAUNCH_WRITE_VALUE, 0, 0, 0, 32);
	begin(VT_CALL_cudaStreamSynchronize, 0x1000, 0, 0, 0, &wait);
	vt_rec_launch_ended(VT_CALL_cudaStreamSynchronize, 0, &wait);
	assert_int_equal(stream_of(0x1000, 0)->done, 264);
	off();
}

static void test_names(void **state)
{
	static char long_name[2000];

	(void)state;
	on();
	n_names = 0;
	name_now = "first";
	for (uint64_t i = 0; i < 100; i++)
		by_handle(0x1000, 0x5000);
	assert_int_equal(n_names, 1);
	assert_string_equal(name_of(record_of(0x1000, 100)), "first");
	call_on(VT_CALL___cudaUnregisterFatBinary, 0, 0);
	name_now = "second";
	by_handle(0x1000, 0x5000);
	assert_string_equal(name_of(record_of(0x1000, 101)), "second");
	assert_string_equal(name_of(record_of(0x1000, 100)), "first");
	/* One text is kept once, and one that is too long is cut. */
	for (uint64_t i = 0; i < 20000; i++)
		by_handle(0x2000, 0x100000 + i * 64);
	assert_int_equal(vt_recorder.launches.names_n, sizeof("first") + sizeof("second"));
	/* The driver is not asked with each launch, however many there are. */
	for (uint64_t i = 0; i < 200000; i++)
		by_handle(0x2000, 0x100000 + i * 64);
	n_names = 0;
	for (uint64_t i = 0; i < 200000; i++)
		by_handle(0x2000, 0x100000 + i * 64);
	assert_int_equal(n_names, 0);
	call_on(VT_CALL_cuModuleUnload, 0, 0);
	memset(long_name, 'x', sizeof(long_name) - 1);
	name_now = long_name;
	by_handle(0x1000, 0x6000);
	assert_int_equal(strlen(name_of(record_of(0x1000, 102))), 511);
	/* Until there is no room. */
	name_now = long_name + 1500;
	for (uint64_t i = 0; i < 3000; i++) {
		char text[600];

		snprintf(text, sizeof(text), "%llu%s", (unsigned long long)i, long_name + 1600);
		name_now = text;
		by_handle(0x3000, 0x800000 + i * 64);
		if (name_of(record_of(0x3000, i + 1)))
			assert_string_equal(name_of(record_of(0x3000, i + 1)), text);
	}
	assert_null(name_of(record_of(0x3000, 3000)));
	assert_true(vt_recorder.launches.names_n <= vt_recorder.launches.names_room);
	off();
}

static void test_python(void **state)
{
	(void)state;
	on();
	fake_stack.n = 20;
	for (unsigned int i = 0; i < 20; i++)
		fake_stack.words[i] = (uint64_t)i << 16 | i;
	launch_on(0x1000, 1, 0);
	fake_stack.n = 0;
	launch_on(0x1000, 1, 0);
	assert_int_not_equal(record_of(0x1000, 1)->stack, VT_RECORDER_NO_STACK);
	assert_int_equal(record_of(0x1000, 2)->stack, VT_RECORDER_NO_STACK);
	assert_int_equal(((const struct vt_recorder_stack *)(uintptr_t)vt_recorder.stacks.addr +
			  record_of(0x1000, 1)->stack)
				 ->n_python,
			 5);
	off();
}

static void test_fork(void **state)
{
	int status;
	pid_t child;

	(void)state;
	on();
	launch_on(0x1000, 1, 0);
	child = fork();
	if (!child) {
		launch_on(0x1000, 1, 0);
		call_on(VT_CALL_cudaStreamSynchronize, 0x1000, 0);
		call_on(VT_CALL_cudaDeviceSynchronize, 0x1000, 0);
		_exit(vt_recorder_control(VT_RECORD_OFF, NULL) != VT_RECORDER_OK ||
		      vt_recorder.memory != 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(vt_recorder_stream_launches(stream_of(0x1000, 0)), 1);
	off();
}

static void test_little_memory(void **state)
{
	struct vt_recorder_config c = config();

	(void)state;
	c.max_memory = UINT64_C(1) << 20;
	assert_int_equal(vt_recorder_control(VT_RECORD_ON, &c), VT_RECORDER_OK);
	for (uint64_t i = 0; i < 100; i++)
		launch_on(0x1000 + 16 * i, 1, 0);
	assert_int_equal(vt_recorder_stream_launches(stream_of(0x1000 + 16 * 99, 0)), 1);
	assert_int_equal(stream_of(0x1000 + 16 * 99, 0)->ring, 0);
	off();
	c.max_memory = 100000;
	assert_int_equal(vt_recorder_control(VT_RECORD_ON, &c), VT_RECORDER_NO_MEMORY);
	assert_int_equal(vt_recorder.memory, 0);
}

/* ---- threads ---- */

#define N_THREADS 8
static bool stop_now;

static void *launch_always(void *arg)
{
	uint64_t mine = (uint64_t)(uintptr_t)arg;

	for (uint64_t i = 0; !__atomic_load_n(&stop_now, __ATOMIC_RELAXED); i++) {
		launch_on(0x1000 + 16 * (i % 3), mine << 32 | i, 0);
		if (i % 5 == 0)
			by_handle(0x1000, 0x5000 + 64 * (i % 7));
		if (i % 32 == 0)
			call_on(VT_CALL_cudaStreamSynchronize, 0x1000 + 16 * (i % 3), 0);
		if (i % 64 == 0)
			call_on(VT_CALL_cudaDeviceSynchronize, 0, 0);
		if (i % 128 == 0)
			call_on(VT_CALL_cuModuleUnload, 0, 0);
		if (i % 256 == 0) {
			call_on(VT_CALL_cudaStreamBeginCapture, 0x1000, 0);
			call_on(VT_CALL_cudaStreamEndCapture, 0x1000, 0);
		}
	}
	return NULL;
}

static void test_on_and_off_under_load(void **state)
{
	pthread_t threads[N_THREADS];

	(void)state;
	name_now = "raced";
	stop_now = false;
	for (uintptr_t i = 0; i < N_THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, launch_always, (void *)i), 0);
	for (int i = 0; i < 100; i++) {
		on();
		usleep(2000);
		/* Of a busy machine a thread may be inside for long: then the next one ends it. */
		while (vt_recorder_control(VT_RECORD_OFF, NULL) != VT_RECORDER_OK)
			;
	}
	on();
	usleep(50000);
	__atomic_store_n(&stop_now, true, __ATOMIC_RELAXED);
	for (unsigned int i = 0; i < N_THREADS; i++)
		pthread_join(threads[i], NULL);
	call_on(VT_CALL_cudaDeviceSynchronize, 0, 0);
	for (unsigned int i = 0; i < 3; i++) {
		const struct vt_recorder_launch_stream *s = stream_of(0x1000 + 16 * i, 0);

		if (!s)
			continue;
		assert_int_equal(s->done, s->launches_open);
	}
	off();
}

/* One that failed must not make the others fail. */
static int after(void **state)
{
	(void)state;
	fake_stack.n = 0;
	vt_recorder_control(VT_RECORD_OFF, NULL);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_record, after),
		cmocka_unit_test_teardown(test_wrap, after),
		cmocka_unit_test_teardown(test_many_streams, after),
		cmocka_unit_test_teardown(test_default_streams, after),
		cmocka_unit_test_teardown(test_first_call, after),
		cmocka_unit_test_teardown(test_waits, after),
		cmocka_unit_test_teardown(test_across_recordings, after),
		cmocka_unit_test_teardown(test_captures, after),
		cmocka_unit_test_teardown(test_other_captures, after),
		cmocka_unit_test_teardown(test_joined_capture, after),
		cmocka_unit_test_teardown(test_other_devices_streams, after),
		cmocka_unit_test_teardown(test_values, after),
		cmocka_unit_test_teardown(test_comparisons, after),
		cmocka_unit_test_teardown(test_batches, after),
		cmocka_unit_test_teardown(test_names, after),
		cmocka_unit_test_teardown(test_python, after),
		cmocka_unit_test_teardown(test_fork, after),
		cmocka_unit_test_teardown(test_little_memory, after),
		cmocka_unit_test_teardown(test_on_and_off_under_load, after),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
