/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the helper does inside a target, done in this process: it walks a synthetic allocator whose
 * mutex is a real one, and asks a driver made of functions of this test.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "ops.h"
#include "unit/walk/torch/torch_image.h"

#define BLOCKS 900
#define ROOM_RECS 8192

/* ---- the walk ---- */

struct file {
	struct vt_helper_shared shared;
	struct vt_block_rec room[ROOM_RECS];
};

static struct file *file;
static int locks, unlocks; /* calls of the mutex functions */

static int count_trylock(void *mutex)
{
	int ret = pthread_mutex_trylock(mutex);

	locks += !ret;
	return ret;
}

static int count_unlock(void *mutex)
{
	unlocks++;
	return pthread_mutex_unlock(mutex);
}

static int setup(void **state)
{
	(void)state;
	file = calloc(1, sizeof(*file));
	locks = unlocks = 0;
	return !file;
}

static int teardown(void **state)
{
	(void)state;
	free(file);
	return 0;
}

static void make(struct image *image, enum image_release release)
{
	image_init(image, release, 3, BLOCKS, true);
	image_fill(image, 11, BLOCKS, 4);
	image_finish(image);
	file->shared.imports.mutex_trylock = (uint64_t)(uintptr_t)count_trylock;
	file->shared.imports.mutex_unlock = (uint64_t)(uintptr_t)count_unlock;
	file->shared.args.torch_walk = (struct vt_torch_walk_args){
		.allocator = image->allocator,
		.lock_deadline_ns = 20 * VT_NS_PER_MS,
		.walk_deadline_ns = 10 * VT_NS_PER_S,
		.max_blocks = 100000,
	};
	image_layout(image, &file->shared.args.torch_walk.layout);
}

static uint32_t run(uint64_t room_recs)
{
	return vt_helper_op_torch_walk(&file->shared, file->room,
				       room_recs * sizeof(struct vt_block_rec));
}

static int by_object(const void *a, const void *b)
{
	const struct vt_block_rec *x = a, *y = b;

	return (x->object > y->object) - (x->object < y->object);
}

/* All devices' records are those of the image. */
static void assert_all(const struct image *image)
{
	struct vt_block_rec *truth = calloc(image->n_blocks, sizeof(*truth));

	assert_int_equal(file->shared.torch.n_devices, image->n_devices);
	assert_int_equal(file->shared.torch.n_blocks, image->n_blocks);
	assert_int_equal(file->shared.torch.blocks_offset, offsetof(struct file, room));
	for (size_t i = 0; i < image->n_blocks; i++)
		truth[i] = image->blocks[i].rec;
	qsort(truth, image->n_blocks, sizeof(*truth), by_object);
	qsort(file->room, image->n_blocks, sizeof(*truth), by_object);
	assert_memory_equal(truth, file->room, image->n_blocks * sizeof(*truth));
	free(truth);
}

static void assert_free(const struct image *image)
{
	for (int i = 0; i < image->n_devices; i++)
		assert_int_equal(image_peek64(image, image->dcas[i]) |
					 (uint32_t)image_peek64(image, image->dcas[i] + 8),
				 0);
	assert_int_equal(locks, unlocks);
}

static void test_walk(void **state)
{
	(void)state;
	for (int release = 0; release < IMAGE_RELEASES; release++) {
		struct image image;

		make(&image, (enum image_release)release);
		assert_int_equal(run(ROOM_RECS), VT_HELPER_OK);
		for (int i = 0; i < 3; i++) {
			assert_int_equal(file->shared.torch.devices[i].result, VT_WALK_COMPLETE);
			assert_int_equal(file->shared.torch.devices[i].lock, VT_LOCK_TAKEN);
			assert_int_equal(file->shared.torch.devices[i].owner_tid, 0);
		}
		assert_all(&image);
		assert_free(&image);
		image_deinit(&image);
	}
	assert_int_equal(locks, 3 * IMAGE_RELEASES);
}

struct holder {
	pthread_t thread;
	pthread_barrier_t begin, end;
	pthread_mutex_t *mutex;
	uint64_t hold_ns; /* 0: until the end barrier */
	pid_t tid;
};

static void *hold(void *arg)
{
	struct holder *h = arg;

	h->tid = (pid_t)syscall(SYS_gettid);
	pthread_mutex_lock(h->mutex);
	pthread_barrier_wait(&h->begin);
	if (h->hold_ns)
		vt_sleep_ns(h->hold_ns);
	else
		pthread_barrier_wait(&h->end);
	pthread_mutex_unlock(h->mutex);
	return NULL;
}

static void start_holder(struct holder *h, uint64_t mutex, uint64_t hold_ns)
{
	*h = (struct holder){ .mutex = (pthread_mutex_t *)(uintptr_t)mutex, .hold_ns = hold_ns };
	pthread_barrier_init(&h->begin, NULL, 2);
	pthread_barrier_init(&h->end, NULL, 2);
	assert_int_equal(pthread_create(&h->thread, NULL, hold, h), 0);
	pthread_barrier_wait(&h->begin);
}

static void end_holder(struct holder *h)
{
	if (!h->hold_ns)
		pthread_barrier_wait(&h->end);
	pthread_join(h->thread, NULL);
	pthread_barrier_destroy(&h->begin);
	pthread_barrier_destroy(&h->end);
}

/* Another thread keeps the mutex: the blocks are there anyway, and the result names the holder. */
static void test_lock_kept(void **state)
{
	struct holder holder;
	struct image image;
	uint64_t start;

	(void)state;
	make(&image, IMAGE_2_11);
	start_holder(&holder, image.dcas[1], 0);
	start = vt_now_ns();
	assert_int_equal(run(ROOM_RECS), VT_HELPER_OK);
	assert_true(vt_now_ns() - start >= 20 * VT_NS_PER_MS);
	assert_int_equal(file->shared.torch.devices[0].lock, VT_LOCK_TAKEN);
	assert_int_equal(file->shared.torch.devices[1].lock, VT_LOCK_HELD_BY);
	assert_int_equal(file->shared.torch.devices[1].owner_tid, holder.tid);
	assert_int_equal(file->shared.torch.devices[1].result, VT_WALK_COMPLETE);
	assert_int_equal(file->shared.torch.devices[2].lock, VT_LOCK_TAKEN);
	assert_all(&image);
	end_holder(&holder);
	assert_free(&image);
	image_deinit(&image);
}

static void test_lock_comes_free(void **state)
{
	struct holder holder;
	struct image image;

	(void)state;
	make(&image, IMAGE_2_11);
	file->shared.args.torch_walk.lock_deadline_ns = 10 * VT_NS_PER_S;
	start_holder(&holder, image.dcas[0], 30 * VT_NS_PER_MS);
	assert_int_equal(run(ROOM_RECS), VT_HELPER_OK);
	assert_int_equal(file->shared.torch.devices[0].lock, VT_LOCK_TAKEN);
	assert_all(&image);
	end_holder(&holder);
	assert_free(&image);
	image_deinit(&image);
}

/* Nothing to lock with, or nothing that is a mutex: read without, and never touched. */
static void test_no_lock(void **state)
{
	struct image image;

	(void)state;
	make(&image, IMAGE_2_11);
	file->shared.imports.mutex_unlock = 0;
	assert_int_equal(run(ROOM_RECS), VT_HELPER_OK);
	assert_int_equal(file->shared.torch.devices[0].lock, VT_LOCK_NONE);
	assert_int_equal(file->shared.torch.devices[0].result, VT_WALK_COMPLETE);
	assert_all(&image);
	file->shared.imports.mutex_unlock = (uint64_t)(uintptr_t)count_unlock;
	image_poke64(&image, image.dcas[0] + 16, 0);
	assert_int_equal(run(ROOM_RECS), VT_HELPER_OK);
	assert_int_equal(file->shared.torch.devices[0].lock, VT_LOCK_NONE);
	assert_int_equal(locks, 2);
	assert_free(&image);
	image_deinit(&image);
}

static void test_room(void **state)
{
	struct image image;
	uint64_t needed;

	(void)state;
	make(&image, IMAGE_2_11);
	assert_int_equal(run(100), VT_HELPER_NO_ROOM);
	needed = file->shared.room_needed / sizeof(struct vt_block_rec);
	assert_true(needed >= BLOCKS && needed <= ROOM_RECS);
	assert_int_equal(locks, 0); /* no thread was kept waiting for that */
	assert_int_equal(run(needed), VT_HELPER_OK);
	assert_all(&image);
	image_deinit(&image);
}

static void test_bad_args(void **state)
{
	struct image image;

	(void)state;
	make(&image, IMAGE_2_11);
	file->shared.args.torch_walk.max_blocks = 10;
	assert_int_equal(run(ROOM_RECS), VT_HELPER_OK);
	assert_int_equal(file->shared.torch.devices[0].result, VT_WALK_TRUNCATED);
	file->shared.args.torch_walk.max_blocks = 0;
	assert_int_equal(run(ROOM_RECS), VT_HELPER_BAD_ARGS);
	file->shared.args.torch_walk.max_blocks = 100;
	file->shared.args.torch_walk.allocator = 3;
	assert_int_equal(run(ROOM_RECS), VT_HELPER_BAD_ARGS);
	file->shared.args.torch_walk.allocator = 0x100000;
	assert_int_equal(run(ROOM_RECS), VT_HELPER_FAILED);
	assert_string_not_equal(file->shared.why, "");
	assert_free(&image);
	image_deinit(&image);
}

/* A page that raises SIGBUS when it is touched: of a mapped file that became shorter. */
static uint64_t sigbus_page(void)
{
	int fd = memfd_create("short", MFD_CLOEXEC);
	void *page;

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 4096), 0);
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	assert_true(page != MAP_FAILED);
	assert_int_equal(ftruncate(fd, 0), 0);
	close(fd);
	return (uint64_t)(uintptr_t)page;
}

/*
 * Pointers into memory that must not be touched, with the mutex held: the process lives, the mutex
 * is free again.
 */
static void test_wild_pointers(void **state)
{
	uint64_t bus = sigbus_page();

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct image image;
		uint64_t wild[4] = { 0x123450, bus + 64, 0, UINT64_C(0x00fffffffffffff8) };
		uint64_t slot;

		make(&image, IMAGE_2_11);
		wild[2] = (uint64_t)(uintptr_t)image.base + image.size + 512; /* PROT_NONE */
		slot = image_peek64(&image, image.dcas[0] + 1264);
		while ((int8_t)image_peek64(&image, slot) < 0)
			slot += 16;
		image_poke64(&image, slot + 8, wild[i]);
		image_poke64(&image, image.dcas[1] + 1024 + 16, wild[i]); /* the root of a set */
		/* the slots of active_blocks */
		image_poke64(&image, image.dcas[2] + 1264, wild[i]);
		assert_int_equal(run(ROOM_RECS), VT_HELPER_OK);
		for (int d = 0; d < 3; d++) {
			assert_int_equal(file->shared.torch.devices[d].result, VT_WALK_REFUSED);
			assert_int_equal(file->shared.torch.devices[d].lock, VT_LOCK_TAKEN);
			assert_int_equal(file->shared.torch.devices[d].blocks, 0);
		}
		assert_int_equal(file->shared.torch.n_blocks, 0);
		assert_free(&image);
		image_deinit(&image);
	}
	munmap((void *)(uintptr_t)(bus & ~UINT64_C(4095)), 4096);
}

/* ---- the driver ---- */

static struct {
	int not_initialised, devices, active_mask;
	int runtime_error, push_error;
	int retained, released, pushed, popped, asked; /* calls */
	int current;                                   /* depth of the thread's context stack */
	int pool_error, pool_restless;
	int capture_mode, exchange_error;
	int own_pool; /* the process has set one */
	uint64_t pool_clock;
} fake;

static int fake_version(int *version)
{
	*version = 13000;
	return 0;
}

static int fake_count(int *n)
{
	*n = fake.devices;
	return fake.not_initialised ? 3 : 0;
}

static int fake_get(int *device, int ordinal)
{
	*device = 10 + ordinal;
	return 0;
}

static int fake_name(char *name, int size, int device)
{
	memset(name, 'x', (size_t)size); /* no end: a driver that is hostile */
	name[0] = (char)('a' + device - 10);
	return 0;
}

static int fake_uuid(void *uuid, int device)
{
	memset(uuid, device, 16);
	return 0;
}

static int fake_total(size_t *bytes, int device)
{
	*bytes = (size_t)device << 30;
	return 0;
}

static int fake_state(int device, unsigned int *flags, int *active)
{
	*flags = 0;
	*active = device - 10 < 8 ? fake.active_mask >> (device - 10) & 1 : 1;
	return 0;
}

static int fake_retain(void **context, int device)
{
	fake.retained++;
	*context = (void *)(uintptr_t)(0x1000 + device);
	return 0;
}

static int fake_release(int device)
{
	(void)device;
	fake.released++;
	return 0;
}

static int fake_push(void *context)
{
	assert_non_null(context);
	fake.pushed++;
	fake.current += !fake.push_error;
	return fake.push_error;
}

static int fake_pop(void **context)
{
	fake.popped++;
	fake.current--;
	*context = NULL;
	return 0;
}

static int fake_memory(size_t *free_bytes, size_t *total)
{
	/* never without a context of the target: that would create one */
	assert_int_equal(fake.current, 1);
	fake.asked++;
	*free_bytes = 111;
	*total = 222;
	return 0;
}

static int fake_runtime_memory(size_t *free_bytes, size_t *total)
{
	int ret = fake_memory(free_bytes, total);

	return fake.runtime_error ? fake.runtime_error : ret;
}

static int fake_default_pool(void **pool, int device)
{
	*pool = (void *)(uintptr_t)(0x100 + device);
	return 0;
}

static int fake_current_pool(void **pool, int device)
{
	*pool = (void *)(uintptr_t)((fake.own_pool ? 0x200 : 0x100) + device);
	return 0;
}

static int fake_exchange(int *mode)
{
	int old = fake.capture_mode;

	if (fake.exchange_error)
		return fake.exchange_error;
	fake.capture_mode = *mode;
	*mode = old;
	return 0;
}

static int fake_pool_attribute(void *pool, int attribute, uint64_t *value)
{
	assert_in_range(attribute, 5, 8);
	/* relaxed: else it would spoil a graph that a thread captures */
	assert_int_equal(fake.capture_mode, 2);
	fake.pool_clock += fake.pool_restless > 0;
	fake.pool_restless -= fake.pool_restless > 0;
	*value = (uint64_t)(uintptr_t)pool * 100 + (uint64_t)attribute + fake.pool_clock * 1000000;
	return fake.pool_error;
}

static void make_driver(int devices, int active_mask)
{
	struct vt_helper_imports *i = &file->shared.imports;

	memset(&fake, 0, sizeof(fake));
	fake.devices = devices;
	fake.active_mask = active_mask;
	i->cuDriverGetVersion = i->cudaRuntimeGetVersion = (uint64_t)(uintptr_t)fake_version;
	i->cuDeviceGetCount = (uint64_t)(uintptr_t)fake_count;
	i->cuDeviceGet = (uint64_t)(uintptr_t)fake_get;
	i->cuDeviceGetName = (uint64_t)(uintptr_t)fake_name;
	i->cuDeviceGetUuid = (uint64_t)(uintptr_t)fake_uuid;
	i->cuDeviceTotalMem = (uint64_t)(uintptr_t)fake_total;
	i->cuDevicePrimaryCtxGetState = (uint64_t)(uintptr_t)fake_state;
	i->cuDevicePrimaryCtxRetain = (uint64_t)(uintptr_t)fake_retain;
	i->cuDevicePrimaryCtxRelease = (uint64_t)(uintptr_t)fake_release;
	i->cuCtxPushCurrent = (uint64_t)(uintptr_t)fake_push;
	i->cuCtxPopCurrent = (uint64_t)(uintptr_t)fake_pop;
	i->cuMemGetInfo = (uint64_t)(uintptr_t)fake_memory;
	i->cudaMemGetInfo = (uint64_t)(uintptr_t)fake_runtime_memory;
	i->cuDeviceGetDefaultMemPool = (uint64_t)(uintptr_t)fake_default_pool;
	i->cuDeviceGetMemPool = (uint64_t)(uintptr_t)fake_current_pool;
	i->cuMemPoolGetAttribute = (uint64_t)(uintptr_t)fake_pool_attribute;
	i->cuThreadExchangeStreamCaptureMode = (uint64_t)(uintptr_t)fake_exchange;
}

static void assert_balanced(int times)
{
	assert_int_equal(fake.retained, times);
	assert_int_equal(fake.released, times);
	assert_int_equal(fake.current, 0);
}

static void test_cuda(void **state)
{
	const struct vt_cuda_answer *cuda = &file->shared.cuda;

	(void)state;
	make_driver(3, 1 << 1);
	assert_int_equal(vt_helper_op_cuda(&file->shared), VT_HELPER_OK);
	assert_int_equal(cuda->driver_version, 13000);
	assert_int_equal(cuda->runtime_version, 13000);
	assert_int_equal(cuda->n_devices, 3);
	assert_int_equal(cuda->error, 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(cuda->devices[i].ordinal, i);
		assert_int_equal(cuda->devices[i].name[0], 'a' + i);
		assert_int_equal(strlen(cuda->devices[i].name), sizeof(cuda->devices[i].name) - 1);
		assert_int_equal(cuda->devices[i].uuid[15], 10 + i);
		assert_int_equal(cuda->devices[i].context_active, i == 1);
		assert_int_equal(cuda->devices[i].have_memory, i == 1);
		assert_int_equal(cuda->devices[i].context, i == 1 ? 0x1000 + 11 : 0);
	}
	assert_int_equal(cuda->devices[0].total_bytes, UINT64_C(10) << 30);
	assert_int_equal(cuda->devices[1].free_bytes, 111);
	assert_int_equal(cuda->devices[1].total_bytes, 222);
	assert_int_equal(cuda->devices[1].memory_from, 0);
	assert_int_equal(fake.asked, 1);
	assert_balanced(1);
}

static void test_cuda_without_runtime(void **state)
{
	const struct vt_cuda_answer *cuda = &file->shared.cuda;

	(void)state;
	make_driver(1, 1);
	file->shared.imports.cudaMemGetInfo = 0;
	assert_int_equal(vt_helper_op_cuda(&file->shared), VT_HELPER_OK);
	assert_int_equal(cuda->devices[0].have_memory, 1);
	assert_int_equal(cuda->devices[0].memory_from, 1);
	assert_balanced(1);
	/* a runtime that says no */
	make_driver(1, 1);
	fake.runtime_error = 2;
	assert_int_equal(vt_helper_op_cuda(&file->shared), VT_HELPER_OK);
	assert_int_equal(cuda->devices[0].have_memory, 1);
	assert_int_equal(cuda->devices[0].memory_from, 1);
	assert_balanced(1);
}

static void test_cuda_errors(void **state)
{
	const struct vt_cuda_answer *cuda = &file->shared.cuda;

	(void)state;
	memset(&file->shared.imports, 0, sizeof(file->shared.imports));
	assert_int_equal(vt_helper_op_cuda(&file->shared), VT_HELPER_OK);
	assert_int_equal(cuda->n_devices, 0);
	make_driver(1, 1);
	fake.not_initialised = 1;
	assert_int_equal(vt_helper_op_cuda(&file->shared), VT_HELPER_OK);
	assert_int_equal(cuda->error, 3);
	assert_int_equal(cuda->n_devices, 0);
	make_driver(1, 1);
	fake.push_error = 201;
	assert_int_equal(vt_helper_op_cuda(&file->shared), VT_HELPER_OK);
	assert_int_equal(cuda->devices[0].error, 201);
	assert_int_equal(cuda->devices[0].have_memory, 0);
	assert_int_equal(fake.popped, 0);
	assert_balanced(1);
	make_driver(1000, -1);
	file->shared.imports.cuCtxPopCurrent = 0; /* what cannot be undone is not begun */
	assert_int_equal(vt_helper_op_cuda(&file->shared), VT_HELPER_OK);
	assert_int_equal(cuda->n_devices, VT_MAX_CUDA_DEVICES);
	assert_int_equal(fake.pushed, 0);
	assert_balanced(0);
}

static void assert_pool(const struct vt_cuda_pool *pool, uint64_t handle, uint64_t clock)
{
	assert_int_equal(pool->error, 0);
	assert_int_equal(pool->handle, handle);
	assert_int_equal(pool->reserved, handle * 100 + 5 + clock * 1000000);
	assert_int_equal(pool->reserved_high, handle * 100 + 6 + clock * 1000000);
	assert_int_equal(pool->used, handle * 100 + 7 + clock * 1000000);
	assert_int_equal(pool->used_high, handle * 100 + 8 + clock * 1000000);
}

static void test_pools(void **state)
{
	const struct vt_cuda_pools_answer *pools = &file->shared.pools;

	(void)state;
	make_driver(3, 1 << 1);
	assert_int_equal(vt_helper_op_cuda_pools(&file->shared), VT_HELPER_OK);
	assert_int_equal(pools->n_devices, 3);
	assert_int_equal(pools->pools[0][VT_POOL_DEFAULT].handle, 0); /* no context: not asked */
	assert_pool(&pools->pools[1][VT_POOL_DEFAULT], 0x100 + 11, 0);
	/* the same one is not told twice */
	assert_int_equal(pools->pools[1][VT_POOL_CURRENT].handle, 0);
	make_driver(1, 1);
	fake.own_pool = 1;
	fake.pool_restless = 6; /* changes in the middle of the first and of the second look */
	assert_int_equal(vt_helper_op_cuda_pools(&file->shared), VT_HELPER_OK);
	assert_pool(&pools->pools[0][VT_POOL_DEFAULT], 0x100 + 10, 6);
	assert_pool(&pools->pools[0][VT_POOL_CURRENT], 0x200 + 10, 6);
	make_driver(1, 1);
	fake.pool_restless = 1000;
	assert_int_equal(vt_helper_op_cuda_pools(&file->shared), VT_HELPER_OK);
	assert_int_equal(pools->pools[0][VT_POOL_DEFAULT].error, VT_POOL_CHANGES);
	assert_int_equal(pools->pools[0][VT_POOL_DEFAULT].handle, 0);
	make_driver(1, 1);
	fake.pool_error = 801;
	assert_int_equal(vt_helper_op_cuda_pools(&file->shared), VT_HELPER_OK);
	assert_int_equal(pools->pools[0][VT_POOL_DEFAULT].error, 801);
	assert_int_equal(pools->pools[0][VT_POOL_DEFAULT].handle, 0);
	make_driver(1, 1);
	fake.exchange_error = 1;
	assert_int_equal(vt_helper_op_cuda_pools(&file->shared), VT_HELPER_FAILED);
	assert_int_equal(pools->n_devices, 0);
	make_driver(1, 1);
	file->shared.imports.cuDeviceGetMemPool = 0; /* a driver before 11.2 */
	file->shared.imports.cuDeviceGetDefaultMemPool = 0;
	assert_int_equal(vt_helper_op_cuda_pools(&file->shared), VT_HELPER_OK);
	assert_int_equal(pools->pools[0][VT_POOL_DEFAULT].handle, 0);
	assert_int_equal(pools->pools[0][VT_POOL_DEFAULT].error, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_walk),          TEST(test_lock_kept), TEST(test_lock_comes_free),
		TEST(test_no_lock),       TEST(test_room),      TEST(test_bad_args),
		TEST(test_wild_pointers), TEST(test_cuda),      TEST(test_cuda_without_runtime),
		TEST(test_cuda_errors),   TEST(test_pools),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
