/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the recorder's tables cost: nanoseconds from an allocation to its record with a stack of 20
 * frames that is known, without the capture of a real stack (copying 20 words stands for it); how
 * long the put takes that makes a table grow; bytes for each live block. What it costs in all, in a
 * real process, is what bench/recorder.py says.
 *
 *   bench/recorder_parts
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "unit/helper/recorder_fakes.h"

#define FRAMES 20
#define PLACES 1000
#define ALLOCATIONS 2000000
#define RUNS 5
#define MAX_THREADS 8
#define AMPLE (UINT64_C(1) << 30)
#define USUAL (UINT64_C(256) << 20) /* vramtap record's --max-memory */

vt_recorder_control_fn vt_recorder_control;

static const struct vt_rec_regs no_regs;

static struct {
	uint64_t live; /* addresses */
	uint64_t size;
	pthread_barrier_t all;
} job;

static uint64_t now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* Blocks come to lie here and there, as those of PyTorch's allocator do. */
static uint64_t addr_of(uint64_t i)
{
	return UINT64_C(0x7f0000000000) + i * 512;
}

static void on(uint64_t sample, uint64_t max_memory)
{
	struct vt_recorder_config config = fake_config();

	config.sample_bytes = sample;
	config.max_memory = max_memory;
	if (vt_recorder_control(VT_RECORD_ON, &config))
		exit(1);
}

static void off(void)
{
	if (vt_recorder_control(VT_RECORD_OFF, NULL))
		exit(1);
}

/*
 * Hundredths of nanoseconds for each allocation, of the thread's own time: the machine may have
 * fewer processors than there are threads.
 */
static void *allocate(void *arg)
{
	uint64_t *ns = arg, begin, random = (uintptr_t)arg;

	fake_stack.n = FRAMES;
	for (unsigned int i = 0; i < FRAMES; i++)
		fake_stack.words[i] = i << 16 | 7;
	pthread_barrier_wait(&job.all);
	begin = now_ns(CLOCK_THREAD_CPUTIME_ID);
	for (uint64_t i = 0; i < ALLOCATIONS; i++) {
		random = random * UINT64_C(6364136223846793005) + 1;
		fake_stack.words[9] = (random >> 40) % PLACES;
		vt_rec_allocated(addr_of((random >> 33) % job.live), job.size, &no_regs);
	}
	*ns = (now_ns(CLOCK_THREAD_CPUTIME_ID) - begin) * 100 / ALLOCATIONS;
	return NULL;
}

static double cost(unsigned int n_threads, uint64_t live, uint64_t size)
{
	pthread_t threads[MAX_THREADS];
	uint64_t ns[MAX_THREADS], best = UINT64_MAX;

	job.live = live;
	job.size = size;
	for (unsigned int run = 0; run < RUNS; run++) {
		uint64_t sum = 0;

		pthread_barrier_init(&job.all, NULL, n_threads);
		for (unsigned int i = 0; i < n_threads; i++)
			if (pthread_create(&threads[i], NULL, allocate, &ns[i]))
				exit(1);
		for (unsigned int i = 0; i < n_threads; i++) {
			pthread_join(threads[i], NULL);
			sum += ns[i];
		}
		pthread_barrier_destroy(&job.all);
		best = sum / n_threads < best ? sum / n_threads : best;
	}
	return (double)best / 100;
}

static void print_costs(void)
{
	printf("%-44s %6.1f ns\n", "an allocation, switched off", cost(1, 20000, 512));
	on(0, AMPLE);
	printf("%-44s %6.1f ns\n", "an allocation, 20,000 blocks, 1 thread", cost(1, 20000, 512));
	printf("%-44s %6.1f ns\n", "an allocation, 20,000 blocks, 8 threads", cost(8, 20000, 512));
	printf("%-44s %6.1f ns\n", "an allocation, 1,000,000 blocks, 1 thread",
	       cost(1, 1000000, 512));
	off();
	on(UINT64_C(1) << 40, AMPLE);
	printf("%-44s %6.1f ns\n", "an allocation, not in the sample", cost(1, 20000, 512));
	off();
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Those of the puts that changed a table, from `from` blocks on. */
static void print_pauses(const char *what, uint64_t from, uint64_t to, uint64_t max_memory)
{
	static uint64_t ns[10000];
	size_t n = 0;

	on(0, max_memory);
	for (uint64_t i = 0; i < to; i++) {
		uint64_t addr = addr_of(i), begin = 0;
		struct vt_recorder_shard *shard =
			&vt_recorder.shards[vt_recorder_hash(addr) % VT_RECORDER_SHARDS];
		uint32_t resizes = shard->resizes;

		if (i >= from)
			begin = now_ns(CLOCK_THREAD_CPUTIME_ID);
		vt_rec_block_put(addr, 512 + vt_recorder_hash(i) % 4096, 1, vt_recorder.sample_now,
				 vt_rec_now());
		if (begin && shard->resizes != resizes && n < 10000)
			ns[n++] = now_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
	}
	off();
	qsort(ns, n, sizeof(ns[0]), by_value);
	if (n)
		printf("a table that %s, at %llu blocks: median %llu us, longest %llu us (of %zu)\n",
		       what, (unsigned long long)to, (unsigned long long)ns[n / 2] / 1000,
		       (unsigned long long)ns[n - 1] / 1000, n);
}

static void print_bytes(uint64_t n)
{
	uint64_t before, most = 0, least = UINT64_MAX;

	on(0, AMPLE);
	before = vt_recorder.memory;
	for (uint64_t i = 0; i < n; i++) {
		uint64_t bytes;

		vt_rec_block_put(addr_of(i), 512, 1, 0, vt_rec_now());
		if (i < n / 2)
			continue;
		bytes = (vt_recorder.memory - before) * 10 / (i + 1);
		most = bytes > most ? bytes : most;
		least = bytes < least ? bytes : least;
	}
	printf("%9llu blocks: %5.1f bytes each; from half as many on %.1f to %.1f\n",
	       (unsigned long long)n, (double)(vt_recorder.memory - before) / (double)n,
	       (double)least / 10, (double)most / 10);
	off();
}

int main(void)
{
	static const uint64_t sizes[] = { 1000, 20000, 100000, 1000000 };

	print_costs();
	print_pauses("grows", 50000, 100000, AMPLE);
	print_pauses("grows", 500000, 1000000, AMPLE);
	print_pauses("is thinned for want of room", 3000000, 7000000, USUAL);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		print_bytes(sizes[i]);
	return 0;
}
