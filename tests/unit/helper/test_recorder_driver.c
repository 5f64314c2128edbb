/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the recorder keeps of the driver's calls, against a plain model of what is live; the sources
 * are those of the library, and what they call of its other parts is simple here. Built a second
 * time with ThreadSanitizer (recorder_tsan.sh).
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "recorder/driver.h"
#include "recorder/launch_names.h"

#if defined(__has_include)
#if __has_include(<cupti_driver_cbid.h>)
#include <cupti_driver_cbid.h>
#define HAVE_CBIDS 1
#endif
#endif

struct vt_recorder_head vt_recorder = { .max_memory = UINT64_C(1) << 30 };
const uint8_t vt_rec_entries_end[1];
void vt_rec_entry_allocate(void);

static int n_ooms;
static uint64_t last_oom;

/* ---- the other parts ---- */

bool vt_rec_is_on(void)
{
	return true;
}

bool vt_rec_enter(void)
{
	return true;
}

void vt_rec_leave(void)
{
}

bool vt_rec_is_inherited(void)
{
	return false;
}

uint32_t vt_rec_tid(void)
{
	return (uint32_t)syscall(SYS_gettid);
}

uint64_t vt_rec_now(void)
{
	return 5;
}

uint32_t vt_rec_stack_here(const struct vt_rec_regs *regs)
{
	return (uint32_t)regs->pc;
}

void vt_rec_native_capture(const struct vt_rec_regs *regs, struct vt_rec_frames *frames)
{
	frames->words[0] = frames->words[1] = regs->pc;
	frames->n_native = 2;
}

void vt_rec_out_of_memory(enum vt_recorder_oom_kind kind, uint64_t requested, int error,
			  const struct vt_rec_regs *regs)
{
	(void)regs;
	assert_int_equal(kind, VT_OOM_DRIVER);
	assert_int_equal(error, 2);
	last_oom = requested;
	n_ooms++;
}

void vt_rec_entry_allocate(void)
{
}

int vt_rec_cupti_in(const struct vt_recorder_cupti *cupti)
{
	(void)cupti;
	return 39;
}

void vt_rec_cupti_out(void)
{
}

static unsigned int n_forgotten; /* names of kernels, which end with their context */

void vt_rec_names_forget(void)
{
	n_forgotten++;
}

uint32_t vt_rec_got_in(const struct vt_recorder_got *got, uint64_t n, bool launches,
		       uint64_t dl_iterate_phdr)
{
	(void)got, (void)launches, (void)dl_iterate_phdr;
	return (uint32_t)n;
}

void vt_rec_got_out(uint64_t dl_iterate_phdr)
{
	(void)dl_iterate_phdr;
}

/* ---- */

static const struct vt_rec_regs regs = { .pc = 7 };

static int device_now;

static int get_device(int *device)
{
	*device = device_now;
	return 0;
}

static int start(void **state)
{
	(void)state;
	memset(&vt_recorder, 0, sizeof(vt_recorder));
	vt_recorder.max_memory = UINT64_C(1) << 30;
	vt_recorder.config.imports.cuCtxGetDevice = (uint64_t)(uintptr_t)get_device;
	device_now = n_ooms = 0;
	return !vt_rec_driver_table_init();
}

static int end(void **state)
{
	(void)state;
	vt_rec_driver_deinit();
	return vt_recorder.memory != 0;
}

static const struct vt_recorder_driver_block *look_up(uint64_t addr)
{
	const struct vt_recorder_driver_block *blocks =
		(const struct vt_recorder_driver_block *)(uintptr_t)vt_recorder.driver.table;
	const struct vt_recorder_driver_block *found = NULL;

	for (uint32_t i = 0; i < vt_recorder.driver.capacity; i++) {
		const struct vt_recorder_driver_block *b = &blocks[i];

		if (b->addr != addr)
			continue;
		assert_null(found); /* no address twice */
		found = b;
		assert_int_equal(b->check, vt_recorder_block_check(b->addr, b->size, b->time,
								   b->serial, b->stack, b->tid));
	}
	return found;
}

static void call_at(enum vt_recorder_call call, int result, uint32_t before, uint64_t a, uint64_t b,
		    uint64_t c, uint64_t d)
{
	const uint64_t args[] = { a, b, c, d };

	vt_rec_driver_call(call, args, result, before, &regs);
}

static void call(enum vt_recorder_call which, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	call_at(which, 0, vt_rec_driver_serial(), a, b, c, d);
}

static void allocate(uint64_t addr, uint64_t size)
{
	call(VT_CALL_cuMemAlloc_v2, (uint64_t)(uintptr_t)&addr, size, 0, 0);
}

#define PLACES 5000
#define PLACE(i) (UINT64_C(0x7f0000000000) + (uint64_t)(i) * (2 << 20))

static void test_model(void **state)
{
	static uint64_t sizes[PLACES];
	uint64_t random = 1, n = 0;

	(void)state;
	memset(sizes, 0, sizeof(sizes));
	for (int round = 0; round < 200000; round++) {
		random = random * UINT64_C(6364136223846793005) + 1442695040888963407;

		uint32_t i = (uint32_t)(random >> 33) % PLACES;

		/* Filled, emptied, filled: the table grows, and records move all the time. */
		if ((random >> 20 & 7) < (round / 50000 % 2 ? 3 : 5)) {
			n += !sizes[i];
			sizes[i] = 1 + (random >> 40);
			allocate(PLACE(i), sizes[i]);
		} else {
			n -= sizes[i] != 0;
			sizes[i] = 0;
			call(VT_CALL_cuMemFree_v2, PLACE(i), 0, 0, 0);
		}
		assert_int_equal(vt_recorder.driver.count, n);
	}
	assert_int_equal(vt_recorder.driver.resizes % 2, 0);
	for (uint32_t i = 0; i < PLACES; i++) {
		const struct vt_recorder_driver_block *b = look_up(PLACE(i));

		assert_int_equal(b ? b->size : 0, sizes[i]);
	}
	assert_int_equal(vt_recorder.driver_lost, 0);
}

static void test_address_that_is_used_again(void **state)
{
	uint32_t before;

	(void)state;
	allocate(PLACE(1), 100);
	before = vt_rec_driver_serial();
	/* Another thread got the address before the free was heard of. */
	allocate(PLACE(1), 200);
	call_at(VT_CALL_cuMemFree_v2, 0, before, PLACE(1), 0, 0, 0);
	assert_int_equal(look_up(PLACE(1))->size, 200);
	call(VT_CALL_cuMemFree_v2, PLACE(1), 0, 0, 0);
	assert_null(look_up(PLACE(1)));
	/* A free that failed, one of nothing, and one of something else. */
	allocate(PLACE(1), 100);
	call_at(VT_CALL_cuMemFree_v2, 1, vt_rec_driver_serial(), PLACE(1), 0, 0, 0);
	call(VT_CALL_cuMemFree_v2, 0, 0, 0, 0);
	call(VT_CALL_cuMemFree_v2, PLACE(2), 0, 0, 0);
	assert_non_null(look_up(PLACE(1)));
}

static void test_mappings(void **state)
{
	const int prop[8] = { 1, 0, 1, 3 };
	uint64_t handle = 77;

	(void)state;
	call(VT_CALL_cuMemCreate, (uint64_t)(uintptr_t)&handle, 2 << 20, (uint64_t)(uintptr_t)prop,
	     0);
	for (int i = 0; i < 6; i++)
		call(VT_CALL_cuMemMap, PLACE(i), 2 << 20, 0, handle);
	call(VT_CALL_cuMemRelease, handle, 0, 0, 0);
	call(VT_CALL_cuMemMap, PLACE(6), 2 << 20, 0, handle);
	allocate(PLACE(4) + 512, 100);
	assert_int_equal(look_up(PLACE(0))->device, 3);
	assert_int_equal(look_up(PLACE(5))->device, -1); /* the same memory at another address */
	assert_int_equal(look_up(PLACE(6))->device, -1);
	/* From the second on, with a hole in between. */
	call(VT_CALL_cuMemUnmap, PLACE(2), 2 << 20, 0, 0);
	call(VT_CALL_cuMemUnmap, PLACE(1), 4 * (2 << 20), 0, 0);
	assert_int_equal(vt_recorder.driver.count, 4);
	assert_non_null(look_up(PLACE(0)));
	assert_non_null(look_up(PLACE(5)));
	assert_non_null(look_up(PLACE(6)));
	assert_non_null(look_up(PLACE(4) + 512));
	/* What ends around the address space. */
	call(VT_CALL_cuMemUnmap, PLACE(5), UINT64_MAX, 0, 0);
	assert_non_null(look_up(PLACE(5)));
}

static void test_devices(void **state)
{
	(void)state;
	for (int i = 0; i < 1000; i++) {
		device_now = i % 3;
		allocate(PLACE(i), 100);
	}
	/* an int in the low half of its word */
	call(VT_CALL_cuDevicePrimaryCtxReset_v2, UINT64_C(0xdead00000001), 0, 0, 0);
	assert_int_equal(vt_recorder.driver.count, 667);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(look_up(PLACE(i)) != NULL, i % 3 != 1);
	call(VT_CALL_cuCtxDestroy_v2, 1, 0, 0, 0);
	assert_int_equal(n_forgotten, 2);
	assert_int_equal(vt_recorder.driver.count, 0);
}

static void test_arguments(void **state)
{
	uint64_t addr = PLACE(1), pitch = 512;

	(void)state;
	call(VT_CALL_cuMemAllocPitch_v2, (uint64_t)(uintptr_t)&addr, (uint64_t)(uintptr_t)&pitch,
	     300, 10);
	assert_int_equal(look_up(addr)->size, 5120);
	call(VT_CALL_cuMemAllocFromPoolAsync_ptsz, (uint64_t)(uintptr_t)&addr, 99, 1234, 5678);
	assert_int_equal(look_up(addr)->size, 99);
	assert_int_equal(look_up(addr)->stream, 5678);
	assert_int_equal(look_up(addr)->kind, VT_DRIVER_ASYNC);
	assert_int_equal(look_up(addr)->stack, 7);
	call(VT_CALL_cuMemHostAlloc, (uint64_t)(uintptr_t)&addr, 98, 0, 0);
	assert_int_equal(look_up(addr)->device, -1);
	call_at(VT_CALL_cuMemAllocPitch_v2, 2, 0, 0, 0, 300, 10);
	assert_int_equal(n_ooms, 1);
	assert_int_equal(last_oom, 3000);
	call_at(VT_CALL_cuMemFree_v2, 2, 0, 0, 0, 0, 0);
	call_at(VT_CALL_cuMemAlloc_v2, 1, 0, 0, 5, 0, 0);
	assert_int_equal(n_ooms, 1);
}

/* No room: what is not recorded is counted, and nothing that is recorded is wrong. */
static void test_bound(void **state)
{
	(void)state;
	vt_recorder.max_memory = vt_recorder.memory + 200000;
	for (int i = 0; i < 20000; i++)
		allocate(PLACE(i), (uint64_t)i + 1);
	assert_in_range(vt_recorder.driver.count, 1000, 4096);
	assert_int_equal(vt_recorder.driver.count + vt_recorder.driver_lost, 20000);
	for (uint32_t i = 0; i < vt_recorder.driver.count; i++)
		assert_int_equal(look_up(PLACE(i))->size, i + 1);
}

#define THREADS 4

static void *run_thread(void *arg)
{
	uint64_t mine = (uint64_t)(uintptr_t)arg;

	for (uint64_t i = 0; i < 3000; i++) {
		allocate(PLACE(mine * 10000 + i), i + 1);
		if (i % 3)
			call(VT_CALL_cuMemFree_v2, PLACE(mine * 10000 + i), 0, 0, 0);
	}
	return NULL;
}

static void test_threads(void **state)
{
	pthread_t threads[THREADS];

	(void)state;
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, run_thread, (void *)i), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(vt_recorder.driver.count, THREADS * 1000);
	for (uint64_t t = 0; t < THREADS; t++)
		for (uint64_t i = 0; i < 3000; i += 100)
			assert_int_equal(look_up(PLACE(t * 10000 + i)) != NULL, i % 3 == 0);
}

static void test_cbids(void **state)
{
	(void)state;
#ifdef HAVE_CBIDS
#define X(name) \
	assert_int_equal(vt_rec_driver_cbid(VT_CALL_##name), CUPTI_DRIVER_TRACE_CBID_##name);
	VT_RECORDER_DRIVER_CALLS(X)
#undef X
#else
	skip();
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_model, start, end),
		cmocka_unit_test_setup_teardown(test_address_that_is_used_again, start, end),
		cmocka_unit_test_setup_teardown(test_mappings, start, end),
		cmocka_unit_test_setup_teardown(test_devices, start, end),
		cmocka_unit_test_setup_teardown(test_arguments, start, end),
		cmocka_unit_test_setup_teardown(test_bound, start, end),
		cmocka_unit_test_setup_teardown(test_threads, start, end),
		cmocka_unit_test(test_cbids),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
