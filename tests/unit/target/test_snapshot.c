/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of stacks whose contents are known, taken while the target stands and read after it has
 * moved on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "target/snapshot.h"
#include "target/arch/native.h"

#define N_THREADS 6
#define ARRAY 20000 /* bytes that each thread keeps on its stack */
#define STACK (256u * 1024)

struct shared {
	atomic_int ready;
	atomic_int go; /* the threads overwrite their arrays when this becomes 1 */
	atomic_int done;
	atomic_uintptr_t array[N_THREADS];
	atomic_int tid[N_THREADS];
};

static struct shared *shared;
static pid_t pid;

/* Fills an array on the stack with its own number, and with another when told so. */
static void *keep_array(void *arg)
{
	int index = (int)(intptr_t)arg;
	volatile uint8_t array[ARRAY];

	for (int i = 0; i < ARRAY; i++)
		array[i] = (uint8_t)(index + 1);
	atomic_store(&shared->array[index], (uintptr_t)array);
	atomic_store(&shared->tid[index], (int)syscall(SYS_gettid));
	atomic_fetch_add(&shared->ready, 1);
	while (!atomic_load(&shared->go))
		usleep(1000);
	for (int i = 0; i < ARRAY; i++)
		array[i] = 0xee;
	atomic_fetch_add(&shared->done, 1);
	pause();
	return NULL;
}

/* The last two threads have their stacks side by side in one mapping, as coroutines do. */
static void run_target(void)
{
	char *both =
		mmap(NULL, 2 * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int i = 0; i < N_THREADS; i++) {
		pthread_attr_t attr;
		pthread_t thread;

		pthread_attr_init(&attr);
		if (i >= N_THREADS - 2)
			pthread_attr_setstack(&attr, both + (size_t)(i - (N_THREADS - 2)) * STACK,
					      STACK);
		pthread_create(&thread, &attr, keep_array, (void *)(intptr_t)i);
	}
	for (;;)
		pause();
}

static int setup(void **state)
{
	(void)state;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	pid = fork();
	if (pid == 0)
		run_target();
	while (atomic_load(&shared->ready) < N_THREADS)
		usleep(500);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	munmap(shared, sizeof(*shared));
	return 0;
}

static void succeed(struct vt_error *err)
{
	if (err)
		fail_msg("%s", err->message);
}

static void let_them_overwrite(void)
{
	atomic_store(&shared->go, 1);
	while (atomic_load(&shared->done) < N_THREADS)
		usleep(500);
}

struct taken {
	struct vt_live *live;
	struct vt_maps maps;
	struct vt_session session;
	struct vt_snapshot *snapshot;
};

static void take(struct taken *taken, bool without_maps, size_t per_thread, size_t total)
{
	struct vt_snapshot_limits limits = { .per_thread = per_thread, .total = total };

	*taken = (struct taken){ 0 };
	succeed(vt_live_create(pid, &taken->live));
	if (!without_maps)
		succeed(vt_maps_init(&taken->maps, pid));
	succeed(vt_snapshot_create(taken->live, &limits, per_thread, &taken->snapshot));
	succeed(vt_session_stop_all(&taken->session, pid, taken->live, VT_NS_PER_S));
	succeed(vt_snapshot_take(taken->snapshot, &taken->session, &taken->maps));
	vt_session_resume(&taken->session);
}

static void release(struct taken *taken)
{
	vt_snapshot_destroy(taken->snapshot);
	vt_session_deinit(&taken->session);
	vt_live_destroy(taken->live);
	vt_maps_deinit(&taken->maps);
}

/*
 * How many bytes of the array of a thread still have their old value, from the lowest address on.
 */
static int old_bytes(struct vt_memsrc *src, int index)
{
	uint8_t buf[ARRAY];
	int n = 0;

	assert_int_equal(vt_mem_read(src, atomic_load(&shared->array[index]), buf, ARRAY), 0);
	while (n < ARRAY && buf[n] == index + 1)
		n++;
	for (int i = n; i < ARRAY; i++)
		assert_int_equal(buf[i], 0xee);
	return n;
}

static void stacks_are_as_they_were(void **state)
{
	struct taken taken;
	struct vt_memsrc *src;
	(void)state;

	take(&taken, false, 1 << 20, 64 << 20);
	let_them_overwrite();
	src = vt_snapshot_source(taken.snapshot);
	for (int i = 0; i < N_THREADS; i++) {
		uint64_t array = atomic_load(&shared->array[i]);
		const uint8_t *direct = vt_mem_direct(src, array, ARRAY);
		uint8_t now;

		assert_int_equal(old_bytes(src, i), ARRAY);
		assert_non_null(direct);
		assert_int_equal(direct[0], i + 1);
		assert_int_equal(direct[ARRAY - 1], i + 1);
		assert_int_equal(vt_mem_read(vt_live_source(taken.live), array, &now, 1), 0);
		assert_int_equal(now, 0xee);
	}
	for (size_t i = 0; i < taken.session.threads.n; i++) {
		const struct vt_regs *regs = &taken.session.threads.data[i].regs;
		uint8_t code[16];

		/* The red zone is there, code comes from the process, and nothing from nowhere. */
		assert_non_null(vt_mem_direct(src, vt_regs_sp(regs) - 128, 128));
		assert_null(vt_mem_direct(src, vt_regs_pc(regs), 1));
		assert_int_equal(vt_mem_read(src, vt_regs_pc(regs), code, sizeof(code)), 0);
	}
	assert_int_equal(vt_mem_read(src, 8, &(uint8_t){ 0 }, 1), -EFAULT);
	assert_int_equal(src->fault_addr, 8);
	assert_null(vt_mem_direct(src, UINT64_MAX - 1, 16));
	release(&taken);
}

/* What is above the limit is read from the process, in the same call. */
static void limit_for_each_thread(void **state)
{
	struct taken taken;
	(void)state;

	take(&taken, false, 8192, 64 << 20);
	let_them_overwrite();
	for (int i = 0; i < N_THREADS; i++) {
		int n = old_bytes(vt_snapshot_source(taken.snapshot), i);

		assert_in_range(n, 1000, 8192);
	}
	release(&taken);
}

static void limit_in_all(void **state)
{
	struct taken taken;
	(void)state;

	take(&taken, false, 1 << 20, 8192 * (N_THREADS + 1));
	let_them_overwrite();
	for (int i = 0; i < N_THREADS; i++)
		assert_in_range(old_bytes(vt_snapshot_source(taken.snapshot), i), 1000, 8192);
	release(&taken);

	/* No room at all is no error: everything is read from the process. */
	take(&taken, false, 1 << 20, 0);
	for (int i = 0; i < N_THREADS; i++)
		assert_int_equal(old_bytes(vt_snapshot_source(taken.snapshot), i), 0);
	release(&taken);
}

/* A map without the stacks in it: they are found by trying, and cut where they end. */
static void outdated_map(void **state)
{
	struct taken taken;
	(void)state;

	take(&taken, true, 1 << 20, 64 << 20);
	let_them_overwrite();
	for (int i = 0; i < N_THREADS; i++)
		assert_int_equal(old_bytes(vt_snapshot_source(taken.snapshot), i), ARRAY);
	release(&taken);
}

/* Stack pointers that are nonsense, and a map that says more than is there. */
static void hostile_stack_pointers(void **state)
{
	static const uint64_t pointers[] = { 0,
					     1,
					     127,
					     128,
					     4096,
					     UINT64_MAX,
					     UINT64_MAX - 64,
					     UINT64_C(1) << 63,
					     UINT64_C(0x7fffffffffff) };
	struct vt_snapshot_limits limits = { .per_thread = 1 << 20, .total = 64 << 20 };
	struct vt_session fake = { .pid = pid };
	struct taken taken;
	struct vt_snapshot *snapshot;
	(void)state;

	take(&taken, false, 1 << 20, 64 << 20);
	for (size_t i = 0; i < sizeof(pointers) / sizeof(pointers[0]); i++) {
		struct vt_session_thread *thread = vt_vec_append(&fake.threads);

		assert_non_null(thread);
		*thread = (struct vt_session_thread){ .stopped = true };
		thread->regs.r[VT_NATIVE->abi.sp] = pointers[i];
		/* And a good one between them, twice. */
		thread = vt_vec_append(&fake.threads);
		assert_non_null(thread);
		*thread = (struct vt_session_thread){ .stopped = true };
		thread->regs.r[VT_NATIVE->abi.sp] = atomic_load(&shared->array[1]);
	}
	for (size_t i = 0; i < taken.maps.entries.n; i++)
		if (taken.maps.entries.data[i].start <= pointers[8] &&
		    taken.maps.entries.data[i].end > pointers[8])
			fail();
	taken.maps.entries.data[taken.maps.entries.n - 1].end = UINT64_MAX;
	succeed(vt_snapshot_create(taken.live, &limits, 0, &snapshot));
	succeed(vt_snapshot_take(snapshot, &fake, &taken.maps));
	let_them_overwrite();
	assert_int_equal(old_bytes(vt_snapshot_source(snapshot), 1), ARRAY);
	assert_int_equal(vt_mem_read(vt_snapshot_source(snapshot), 0, &(uint8_t){ 0 }, 1), -EFAULT);
	vt_snapshot_destroy(snapshot);
	vt_snapshot_destroy(NULL);
	vt_vec_deinit(&fake.threads);
	release(&taken);
}

/* Ranges that overlap are one: none hides the end of another. */
static void overlapping_stacks(void **state)
{
	static const uint64_t offsets[] = { 3000, 0, 5000, 3000, 8000 };
	struct vt_snapshot_limits limits = { .per_thread = 4096, .total = 64 << 20 };
	struct vt_session fake = { .pid = pid };
	struct vt_snapshot *snapshot;
	struct taken taken;
	(void)state;

	take(&taken, false, 4096, 64 << 20);
	for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		struct vt_session_thread *thread = vt_vec_append(&fake.threads);

		assert_non_null(thread);
		*thread = (struct vt_session_thread){ .stopped = true };
		thread->regs.r[VT_NATIVE->abi.sp] = atomic_load(&shared->array[0]) + offsets[i];
	}
	succeed(vt_snapshot_create(taken.live, &limits, 0, &snapshot));
	succeed(vt_snapshot_take(snapshot, &fake, &taken.maps));
	let_them_overwrite();
	/* The highest one begins with the page of the highest stack pointer's red zone. */
	uint64_t array = atomic_load(&shared->array[0]);

	assert_int_equal(old_bytes(vt_snapshot_source(snapshot), 0),
			 (array + 8000 - 128) / 4096 * 4096 + 4096 - array);
	vt_snapshot_destroy(snapshot);
	vt_vec_deinit(&fake.threads);
	release(&taken);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(stacks_are_as_they_were, setup, teardown),
		cmocka_unit_test_setup_teardown(limit_for_each_thread, setup, teardown),
		cmocka_unit_test_setup_teardown(limit_in_all, setup, teardown),
		cmocka_unit_test_setup_teardown(outdated_map, setup, teardown),
		cmocka_unit_test_setup_teardown(hostile_stack_pointers, setup, teardown),
		cmocka_unit_test_setup_teardown(overlapping_stacks, setup, teardown),
	};

	return cmocka_run_group_tests_name("snapshot", tests, NULL, NULL);
}
