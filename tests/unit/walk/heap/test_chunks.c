/* SPDX-License-Identifier: Apache-2.0 */
/* The truth is our own malloc(): a child has the same memory as we had at the fork. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "target/live.h"
#include "target/maps.h"
#include "target/resident.h"
#include "walk/heap/chunks.h"

#define N_THREADS 4
#define PER_THREAD 20000

/* Made with mmap(), so that the lists change no heap. */
struct made {
	size_t n;
	struct {
		uint8_t *p;
		size_t usable;
		bool freed;
	} all[PER_THREAD];
};

static struct made *made;
static pthread_barrier_t barrier;
static pid_t child;
static struct vt_live *live;
static struct vt_maps maps;
static struct vt_resident resident;
static struct vt_chunks chunks;

static void succeed(struct vt_error *err)
{
	if (err)
		fail_msg("%s", err->message);
}

static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525 + 1013904223;
	return *state >> 8;
}

/* glibc's own, because the sanitizers put theirs before them. */
static struct {
	void *(*malloc)(size_t size);
	void *(*memalign)(size_t alignment, size_t size);
	void (*free)(void *p);
	size_t (*usable)(void *p);
} libc;

static void find_libc(void)
{
	void *handle = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);

	assert_non_null(handle);
	*(void **)&libc.malloc = dlsym(handle, "malloc");
	*(void **)&libc.memalign = dlsym(handle, "memalign");
	*(void **)&libc.free = dlsym(handle, "free");
	*(void **)&libc.usable = dlsym(handle, "malloc_usable_size");
	assert_true(libc.malloc && libc.memalign && libc.free && libc.usable);
}

static void allocate(struct made *list, uint32_t seed)
{
	while (list->n < PER_THREAD) {
		uint32_t r = next_random(&seed);
		/* Mostly what caches and fast bins keep, some larger ones, few with a mapping. */
		size_t size = r % 100 < 60 ? r % 128 :
			      r % 100 < 95 ? r % 2000 :
			      r % 2000 > 0 ? r % 30000 :
					     300000 + r % 100000;
		size_t alignment = r % 50 == 7 ? 64 : r % 500 == 9 ? 4096 : 16;
		void *p = alignment == 16 ? libc.malloc(size) : libc.memalign(alignment, size);

		if (!p)
			abort();
		memset(p, 0xa5, size);
		list->all[list->n].p = p;
		list->all[list->n++].usable = libc.usable(p);
	}
	/* Threads may share an arena: what one frees is not to be another's. */
	pthread_barrier_wait(&barrier);
	for (size_t i = 0; i < list->n; i++) {
		if (next_random(&seed) % 3)
			continue;
		libc.free(list->all[i].p);
		list->all[i].freed = true;
	}
}

static void *allocate_in_thread(void *arg)
{
	struct made *list = arg;

	allocate(list, (uint32_t)(list - made) + 1);
	pthread_barrier_wait(&barrier);
	for (;;)
		pause();
	return NULL;
}

/* Changes the main heap without end. */
static void churn(void)
{
	void *some[1000] = { NULL };

	for (uint32_t seed = 1;;) {
		size_t i = next_random(&seed) % 1000;

		libc.free(some[i]);
		some[i] = libc.malloc(next_random(&seed) % 5000);
		if (some[i])
			memset(some[i], (int)seed, 16);
	}
}

static int setup(void **state)
{
	(void)state;
	find_libc();
	made = mmap(NULL, (N_THREADS + 1) * sizeof(*made), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(made, MAP_FAILED);
	/* A program of its own, so that threads end with it. */
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pthread_barrier_init(&barrier, NULL, N_THREADS + 1);
		for (size_t i = 1; i <= N_THREADS; i++) {
			pthread_t thread;

			if (pthread_create(&thread, NULL, allocate_in_thread, &made[i]))
				_exit(1);
		}
		allocate(&made[0], 99);
		pthread_barrier_wait(&barrier);
		raise(SIGSTOP);
		churn();
	}

	int status;

	assert_int_equal(waitpid(child, &status, WUNTRACED), child);
	assert_true(WIFSTOPPED(status));
	succeed(vt_live_create(child, &live));
	vt_live_set_coherent(live, true);
	succeed(vt_maps_init(&maps, child));
	succeed(vt_resident_init(&resident, child, &maps, UINT64_C(1) << 30));
	succeed(vt_chunks_init(&chunks, vt_live_source(live), &maps, &resident, 1 << 20));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	vt_chunks_deinit(&chunks);
	vt_resident_deinit(&resident);
	vt_maps_deinit(&maps);
	vt_live_destroy(live);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	munmap(made, (N_THREADS + 1) * sizeof(*made));
	return 0;
}

#define FOR_EACH_MADE(list, i)                                           \
	for (struct made *list = made; list <= &made[N_THREADS]; list++) \
		for (size_t i = 0; i < list->n; i++)

static void what_is_allocated_is_a_chunk_of_its_size(void **state)
{
	size_t n = 0;

	(void)state;
	FOR_EACH_MADE(list, i)
	{
		uint64_t addr = (uintptr_t)list->all[i].p;

		if (list->all[i].freed)
			continue;
		if (vt_chunks_bytes(&chunks, addr) != list->all[i].usable)
			fail_msg("thread %zu, %zu: %#lx is %zu bytes, not %zu", list - made, i,
				 (unsigned long)addr, (size_t)vt_chunks_bytes(&chunks, addr),
				 list->all[i].usable);
		n++;
	}
	assert_true(n > N_THREADS * PER_THREAD / 2);
	assert_false(chunks.full);
}

static void what_was_freed_is_no_chunk(void **state)
{
	(void)state;
	FOR_EACH_MADE(list, i)
	{
		uint64_t addr = (uintptr_t)list->all[i].p;

		if (list->all[i].freed)
			assert_null(vt_chunks_at(&chunks, addr));
	}
	/* Most of it shows in headers only by the lists of caches and fast bins. */
	assert_true(chunks.n_freed > 100);
	assert_true(chunks.main_arena);
}

static void any_address_of_a_chunk_finds_it(void **state)
{
	(void)state;
	FOR_EACH_MADE(list, i)
	{
		uint64_t addr = (uintptr_t)list->all[i].p;
		const struct vt_chunk *chunk = vt_chunks_at(&chunks, addr);

		if (list->all[i].freed)
			continue;
		assert_non_null(chunk);
		assert_int_equal(chunk->addr, addr);
		assert_ptr_equal(vt_chunks_at(&chunks, addr + chunk->bytes - 1), chunk);
		assert_ptr_not_equal(vt_chunks_at(&chunks, addr + chunk->bytes), chunk);
		assert_ptr_not_equal(vt_chunks_at(&chunks, addr - 1), chunk);
		assert_non_null(vt_chunks_heap(&chunks, addr));
	}
	assert_null(vt_chunks_at(&chunks, (uintptr_t)made));
	assert_null(vt_chunks_at(&chunks, 0));
	assert_null(vt_chunks_at(&chunks, UINT64_MAX));
}

static void heaps_are_whole_and_sorted(void **state)
{
	size_t arenas = 0;

	(void)state;
	for (size_t i = 0; i < chunks.heaps.n; i++) {
		assert_true(chunks.heaps.data[i].whole);
		if (i)
			assert_true(chunks.heaps.data[i].start >= chunks.heaps.data[i - 1].end);
		arenas += chunks.heaps.data[i].start % (64 << 20) == 0;
	}
	assert_true(arenas >= 1);
	for (size_t i = 1; i < chunks.chunks.n; i++)
		assert_true(chunks.chunks.data[i].addr >=
			    chunks.chunks.data[i - 1].addr + chunks.chunks.data[i - 1].bytes);
}

static void without_the_resident_pages_only_some_mapped_ones_are_missing(void **state)
{
	struct vt_chunks fewer;
	size_t missing = 0;

	(void)state;
	succeed(vt_chunks_init(&fewer, vt_live_source(live), &maps, NULL, 1 << 20));
	FOR_EACH_MADE(list, i)
	{
		uint64_t addr = (uintptr_t)list->all[i].p;

		if (list->all[i].freed || vt_chunks_bytes(&fewer, addr) == list->all[i].usable)
			continue;
		assert_true(list->all[i].usable >= 128 << 10);
		missing++;
	}
	assert_true(missing < 1000);
	vt_chunks_deinit(&fewer);
}

static void the_bound_is_kept(void **state)
{
	struct vt_chunks few;

	(void)state;
	succeed(vt_chunks_init(&few, vt_live_source(live), &maps, &resident, 1000));
	assert_true(few.full);
	assert_true(few.chunks.n <= 1000);
	vt_chunks_deinit(&few);
}

/* The heap as it is in the child, with words of it changed. */
struct damaged {
	struct vt_memsrc src;
	uint32_t seed;
	unsigned int rate; /* one word of so many */
};

static int damaged_read(struct vt_memsrc *src, uint64_t addr, void *buf, size_t len)
{
	struct damaged *damaged = (struct damaged *)(void *)src;
	int ret = vt_mem_read(vt_live_source(live), addr, buf, len);

	for (size_t i = 0; !ret && i + 8 <= len; i += 8) {
		uint32_t r = next_random(&damaged->seed);

		if (r % damaged->rate == 0)
			memcpy((uint8_t *)buf + i, &(uint64_t){ UINT64_MAX << r % 64 }, 8);
		else if (r % damaged->rate == 1)
			((uint8_t *)buf)[i] ^= (uint8_t)(1 << r % 8);
	}
	return ret;
}

static void damaged_heaps_end_without_harm(void **state)
{
	static const struct vt_memsrc_ops ops = { .read = damaged_read };

	(void)state;
	for (uint32_t seed = 0; seed < 30; seed++) {
		struct damaged damaged = { .src = { .ops = &ops, .coherent = seed & 1 },
					   .seed = seed,
					   .rate = 50 << seed % 12 };
		struct vt_chunks hurt;

		succeed(vt_chunks_init(&hurt, &damaged.src, &maps, &resident, 1 << 20));
		for (size_t i = 1; i < hurt.chunks.n; i++)
			assert_true(hurt.chunks.data[i].addr > hurt.chunks.data[i - 1].addr);
		for (size_t i = 0; i < hurt.chunks.n; i += 97)
			assert_ptr_equal(vt_chunks_at(&hurt, hurt.chunks.data[i].addr),
					 &hurt.chunks.data[i]);
		vt_chunks_deinit(&hurt);
	}
}

static void a_heap_that_changes_is_read_as_far_as_it_goes(void **state)
{
	(void)state;
	kill(child, SIGCONT);
	vt_live_set_coherent(live, false);
	for (int turn = 0; turn < 20; turn++) {
		struct vt_chunks now;
		size_t found = 0, all = 0;

		succeed(vt_chunks_init(&now, vt_live_source(live), &maps, &resident, 1 << 20));
		for (size_t i = 1; i < now.chunks.n; i++)
			assert_true(now.chunks.data[i].addr > now.chunks.data[i - 1].addr);
		FOR_EACH_MADE(list, i)
		{
			if (list->all[i].freed)
				continue;
			all++;
			found += vt_chunks_bytes(&now, (uintptr_t)list->all[i].p) ==
				 list->all[i].usable;
		}
		/* The heaps of other threads are as they were. */
		assert_true(found > all * 3 / 5);
		vt_chunks_deinit(&now);
	}
}

static void a_process_that_ended_is_an_error(void **state)
{
	struct vt_chunks none;
	struct vt_error *err;

	(void)state;
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	err = vt_chunks_init(&none, vt_live_source(live), &maps, &resident, 1000);
	assert_non_null(err);
	assert_int_equal(err->code, VT_ERR_GONE);
	vt_error_destroy(err);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_allocated_is_a_chunk_of_its_size),
		cmocka_unit_test(what_was_freed_is_no_chunk),
		cmocka_unit_test(any_address_of_a_chunk_finds_it),
		cmocka_unit_test(heaps_are_whole_and_sorted),
		cmocka_unit_test(without_the_resident_pages_only_some_mapped_ones_are_missing),
		cmocka_unit_test(the_bound_is_kept),
		cmocka_unit_test(damaged_heaps_end_without_harm),
		cmocka_unit_test(a_heap_that_changes_is_read_as_far_as_it_goes),
		cmocka_unit_test(a_process_that_ended_is_an_error),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
