/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder's tables: what is kept, what is given up, and that on and off leave nothing behind;
 * the sources are those of the library. Built a second time with ThreadSanitizer
 * (recorder_tsan.sh).
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "unit/helper/recorder_fakes.h"

#ifndef __has_feature
#define __has_feature(what) 0
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#else
#define UNDER_TSAN 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer) || UNDER_TSAN
#define UNDER_SANITIZER 1
#else
#define UNDER_SANITIZER 0
#endif

#define ADDR(i) (UINT64_C(0x7f0000000000) + (uint64_t)(i)*512)

vt_recorder_control_fn vt_recorder_control;

static const struct vt_rec_regs no_regs;

static uint64_t random_state = 1;

static uint64_t random_next(void)
{
	random_state += UINT64_C(0x9e3779b97f4a7c15);
	return vt_recorder_hash(random_state);
}

static void on(struct vt_recorder_config config)
{
	assert_int_equal(vt_recorder_control(VT_RECORD_ON, &config), VT_RECORDER_OK);
	assert_int_equal(vt_recorder.state, VT_RECORDER_ON);
	assert_true(vt_rec_is_on());
}

static void off(void)
{
	assert_int_equal(vt_recorder_control(VT_RECORD_OFF, NULL), VT_RECORDER_OK);
	assert_int_equal(vt_recorder.state, VT_RECORDER_OFF);
	assert_false(vt_rec_is_on());
	assert_int_equal(vt_recorder.memory, 0);
	assert_false(fake_python || fake_native || fake_torch || fake_driver);
}

/* ---- reading as the tool does ---- */

/* The call itself: what the sanitizers know of memory does not concern a reader from outside. */
static bool peek(uint64_t addr, void *to, size_t size)
{
	struct iovec local = { to, size }, remote = { (void *)(uintptr_t)addr, size };

	return syscall(SYS_process_vm_readv, (long)getpid(), &local, 1L, &remote, 1L, 0L) ==
	       (long)size;
}

struct view {
	struct vt_recorder_block *blocks;
	size_t n;
};

/*
 * All records, while nothing writes: each must be whole, and each address there only once.
 */
static struct view view(void)
{
	struct view v = { NULL, 0 };
	struct vt_recorder_packed *table;
	size_t room = 0;

	for (unsigned int s = 0; s < VT_RECORDER_SHARDS; s++)
		room += vt_recorder.shards[s].capacity;
	v.blocks = malloc((room + 1) * sizeof(*v.blocks));
	table = malloc((room + 1) * sizeof(*table));
	for (unsigned int s = 0; s < VT_RECORDER_SHARDS; s++) {
		const struct vt_recorder_shard *shard = &vt_recorder.shards[s];
		size_t n = 0;

		assert_int_equal(shard->resizes % 2, 0);
		assert_int_equal(shard->lock, 0);
		if (!shard->capacity)
			continue;
		assert_true(peek(shard->table, table, shard->capacity * sizeof(*table)));
		for (size_t i = 0; i < shard->capacity; i++) {
			struct vt_recorder_block block = vt_recorder_unpack(&table[i]);

			if (!block.addr)
				continue;
			assert_true(vt_recorder_is_whole(&table[i]));
			assert_int_equal(vt_recorder_hash(block.addr) % VT_RECORDER_SHARDS, s);
			v.blocks[v.n++] = block;
			n++;
		}
		assert_int_equal(n, shard->count);
	}
	free(table);
	return v;
}

static uint64_t sum(size_t offset)
{
	uint64_t n = 0;

	for (unsigned int s = 0; s < VT_RECORDER_SHARDS; s++)
		n += *(const uint64_t *)((const char *)&vt_recorder.shards[s] + offset);
	return n;
}

static uint64_t table_bytes(void)
{
	uint64_t n = 0;

	for (unsigned int s = 0; s < VT_RECORDER_SHARDS; s++)
		n += (uint64_t)vt_recorder.shards[s].capacity * sizeof(struct vt_recorder_packed);
	return n;
}

/* The process's mappings, in a buffer that does not change them. */
static const char *maps(unsigned int which)
{
	static char text[2][1 << 20];
	int fd = open("/proc/self/maps", O_RDONLY);
	size_t n = 0;
	ssize_t got;

	assert_true(fd >= 0);
	while ((got = read(fd, text[which] + n, sizeof(text[which]) - 1 - n)) > 0)
		n += (size_t)got;
	text[which][n] = 0;
	close(fd);
	return text[which];
}

static void assert_same_maps(const char *before)
{
	/* Sanitizers map memory of their own as they go. */
	if (!UNDER_SANITIZER)
		assert_string_equal(before, maps(1));
}

/* ---- on and off ---- */

static void test_nothing_is_left(void **state)
{
	const char *before;

	(void)state;
	fake_stack.n = 20;
	on(fake_config());
	off();
	maps(0);
	maps(1);
	before = maps(0);
	for (unsigned int round = 0; round < 3; round++) {
		on(fake_config());
		assert_int_equal(vt_recorder.generation % 2 == 0, round % 2 == 0);
		for (unsigned int i = 0; i < 20000; i++) {
			fake_stack.words[0] = i;
			vt_rec_allocated(ADDR(i), 1, &no_regs);
		}
		assert_true(vt_recorder.memory > 20000 * sizeof(struct vt_recorder_packed));
		off();
	}
	assert_same_maps(before);
	fake_stack.n = 0;
}

/* The driver's calls, which could not be seen when it was switched on. */
static void test_driver_comes_later(void **state)
{
	struct vt_recorder_config config = fake_config();

	(void)state;
	config.driver = 0;
	vt_recorder.driver_lost = 7;
	on(config);
	assert_int_equal(vt_recorder.driver_lost, 0);
	assert_false(fake_driver);
	assert_int_equal(vt_recorder_control(VT_RECORD_DRIVER, &config), VT_RECORDER_BAD);
	config.driver = 1;
	assert_int_equal(vt_recorder_control(VT_RECORD_DRIVER, &config), VT_RECORDER_OK);
	assert_true(fake_driver);
	off();
}

static void test_steps_that_fail(void **state)
{
	struct vt_recorder_config config = fake_config();
	const char *before = maps(0);

	(void)state;
	assert_int_equal(vt_recorder_control(VT_RECORD_OFF, NULL), VT_RECORDER_BUSY);
	assert_int_equal(vt_recorder_control(VT_RECORD_TORCH, &config), VT_RECORDER_BAD);
	assert_int_equal(vt_recorder_control(VT_RECORD_ON, NULL), VT_RECORDER_BAD);
	assert_int_equal(vt_recorder_control(77, NULL), VT_RECORDER_BAD);

	config.native = config.driver = 1;
	fake_python_init = false;
	assert_int_equal(vt_recorder_control(VT_RECORD_ON, &config), VT_RECORDER_NO_MEMORY);
	fake_python_init = true;
	fake_native_init = false;
	assert_int_equal(vt_recorder_control(VT_RECORD_ON, &config), VT_RECORDER_NO_MEMORY);
	assert_false(fake_python);
	fake_native_init = true;
	fake_driver_in = VT_RECORDER_BAD;
	assert_int_equal(vt_recorder_control(VT_RECORD_ON, &config), VT_RECORDER_BAD);
	assert_false(fake_python || fake_native);
	fake_driver_in = 0;
	fake_torch_in = VT_RECORDER_CHANGED;
	assert_int_equal(vt_recorder_control(VT_RECORD_ON, &config), VT_RECORDER_CHANGED);
	assert_false(fake_python || fake_native || fake_driver);
	fake_torch_in = 0;
	for (uint64_t memory = 4096; memory < UINT64_C(1) << 18; memory += 4096) {
		config.max_memory = memory;
		if (vt_recorder_control(VT_RECORD_ON, &config) == VT_RECORDER_OK)
			break;
		assert_int_equal(vt_recorder.memory, 0);
	}
	assert_true(vt_rec_is_on());
	assert_int_equal(vt_recorder_control(VT_RECORD_ON, &config), VT_RECORDER_BUSY);
	assert_int_equal(vt_recorder_control(VT_RECORD_TORCH, &config), VT_RECORDER_BUSY);
	off();

	config.torch.object = 0;
	on(config);
	assert_false(fake_torch);
	config.torch.object = 1;
	assert_int_equal(vt_recorder_control(VT_RECORD_TORCH, &config), VT_RECORDER_OK);
	assert_true(fake_torch);
	off();
	assert_same_maps(before);
}

/* ---- blocks ---- */

#define MODEL 20000

/* Puts and drops at random: what is there afterwards is what an array says. */
static void test_blocks_model(void **state)
{
	static uint32_t stacks[MODEL]; /* 0: not there */
	struct view v;
	size_t live = 0;

	(void)state;
	memset(stacks, 0, sizeof(stacks));
	on(fake_config());
	for (unsigned int round = 0; round < 20; round++) {
		/* Growing first, then more and more is dropped. */
		for (unsigned int n = 0; n < 20000; n++) {
			uint64_t i = random_next() % MODEL;

			if (random_next() % 20 < round) {
				vt_rec_block_drop(ADDR(i));
				stacks[i] = 0;
			} else {
				stacks[i] = (uint32_t)random_next() >> 8 | 1;
				vt_rec_block_put(ADDR(i), i * 3, stacks[i], 0, vt_rec_now());
			}
		}
		live = 0;
		for (unsigned int i = 0; i < MODEL; i++)
			live += stacks[i] != 0;
		v = view();
		assert_int_equal(v.n, live);
		for (size_t i = 0; i < v.n; i++) {
			uint64_t at = (v.blocks[i].addr - ADDR(0)) / 512;

			assert_true(at < MODEL);
			assert_int_equal(v.blocks[i].stack, stacks[at]);
			assert_int_equal(v.blocks[i].size, at * 3);
			assert_int_equal(v.blocks[i].tid, gettid());
		}
		free(v.blocks);
	}
	assert_int_equal(vt_recorder_torch_allocations(&vt_recorder), 20 * 20000);
	assert_int_equal(sum(offsetof(struct vt_recorder_shard, evicted)), 0);
	off();
}

static void test_blocks_bytes(void **state)
{
	uint64_t n = 0, most = UNDER_TSAN ? 100000 : 1000000;

	(void)state;
	on(fake_config());
	for (; n < most; n++) {
		vt_rec_block_put(ADDR(n), 512, 1, 0, vt_rec_now());
		/* Up to a page for each of the 64 tables may be empty. */
		assert_true(table_bytes() <= n * 75 / 2 + VT_RECORDER_SHARDS * 4096);
	}
	assert_int_equal(vt_recorder.lost, 0);
	off();
}

/* What does not fit into a record is lost, and counted; a size is cut. */
static void test_blocks_that_do_not_fit(void **state)
{
	static const uint64_t addrs[] = { ADDR(0) + 8, ADDR(0) + 128, UINT64_C(1) << 48, 255 };
	struct view v;

	(void)state;
	on(fake_config());
	for (size_t i = 0; i < sizeof(addrs) / sizeof(addrs[0]); i++) {
		vt_rec_block_put(addrs[i], 512, 1, 0, vt_rec_now());
		vt_rec_block_drop(addrs[i]);
		assert_int_equal(vt_recorder.lost, 2 * i + 2);
	}
	vt_rec_block_put((UINT64_C(1) << 48) - 256, UINT64_C(1) << 42, 0xffffff, 0, UINT32_MAX);
	v = view();
	assert_int_equal(v.n, 1);
	assert_int_equal(v.blocks[0].addr, (UINT64_C(1) << 48) - 256);
	assert_int_equal(v.blocks[0].size, (UINT64_C(1) << 42) - 1);
	assert_int_equal(v.blocks[0].stack, 0xffffff);
	assert_int_equal(v.blocks[0].time, UINT32_MAX);
	assert_int_equal(v.blocks[0].tid, gettid());
	free(v.blocks);
	off();
}

/* In one tick, or when the clock goes back, time and serial are larger each time all the same. */
static void test_stamps(void **state)
{
	uint64_t last = 0;

	(void)state;
	on(fake_config());
	for (uint32_t i = 0; i < 200000; i++) {
		struct vt_recorder_shard *shard =
			&vt_recorder.shards[vt_recorder_hash(ADDR(1)) % VT_RECORDER_SHARDS];

		vt_rec_block_put(ADDR(1), 512, 1, 0, i < 100000 ? 7 : i < 150000 ? 5 : 20);
		assert_true(shard->stamp > last);
		last = shard->stamp;
	}
	assert_int_equal(last >> VT_RECORDER_SERIAL_BITS, 20);
	off();
}

/*
 * What the records at one rate must be: all that are larger, and of the smaller ones about what
 * chance gives.
 */
static void check_sample(const struct view *v, uint64_t rate, double expected)
{
	double n = 0;

	for (size_t i = 0; i < v->n; i++)
		n += v->blocks[i].size < rate;
	/*
	 * Six standard deviations of a sum of independent choices are fewer than six roots of its
	 * mean.
	 */
	assert_true((n - expected) * (n - expected) <= 36 * expected);
}

static void test_sampling(void **state)
{
	const uint64_t rate = 1 << 20, n = 100000;
	struct vt_recorder_config config = fake_config();
	double expected = 0;
	uint64_t larger = 0;
	struct view v;

	(void)state;
	config.sample_bytes = rate;
	on(config);
	for (uint64_t i = 0; i < n; i++) {
		uint64_t size = random_next() >> (43 + random_next() % 12); /* below 2 MiB */

		/* Twice: which one left a record does not matter, the last one decides. */
		vt_rec_allocated(ADDR(i), 3, &no_regs);
		vt_rec_allocated(ADDR(i), size, &no_regs);
		larger += size >= rate;
		expected += size < rate ? (double)size / (double)rate : 0;
	}
	v = view();
	check_sample(&v, rate, expected);
	for (size_t i = 0; i < v.n; i++) {
		assert_int_not_equal(v.blocks[i].size, 3);
		larger -= v.blocks[i].size >= rate;
	}
	assert_int_equal(larger, 0);
	assert_int_equal(vt_recorder.sample_now, rate);
	assert_int_equal(vt_recorder_torch_allocations(&vt_recorder), 2 * n);
	free(v.blocks);
	off();
}

/*
 * More blocks than there is memory for: the rate rises, the bound holds, what is left is a sample
 * at that rate.
 */
static void test_bound(void **state)
{
	const uint64_t n = 400000;
	struct vt_recorder_config config = fake_config();
	double expected = 0;
	uint64_t larger = 0, seed = random_state;
	struct view v;

	(void)state;
	config.max_memory = UINT64_C(4) << 20;
	fake_stack.n = 1;
	on(config);
	for (unsigned int round = 0; round < 2; round++) {
		fake_stack.words[0] = round;
		random_state = seed;
		for (uint64_t i = 0; i < n; i++) {
			vt_rec_allocated(ADDR(i), random_next() >> (43 + random_next() % 12),
					 &no_regs);
			assert_true(vt_recorder.memory <= config.max_memory);
		}
		/* The rate that it ended with is that of all tables. */
		for (uint64_t addr = ADDR(n); round == 1 && addr < ADDR(n + 1000); addr += 512)
			vt_rec_block_drop(addr);
	}
	assert_int_equal(vt_recorder.lost, 0);
	assert_true(vt_recorder.sample_now >= 512);
	assert_true(sum(offsetof(struct vt_recorder_shard, evicted)) > 10000);
	random_state = seed;
	for (uint64_t i = 0; i < n; i++) {
		uint64_t size = random_next() >> (43 + random_next() % 12);

		larger += size >= vt_recorder.sample_now;
		expected += size < vt_recorder.sample_now ?
				    (double)size / (double)vt_recorder.sample_now :
				    0;
	}
	v = view();
	check_sample(&v, vt_recorder.sample_now, expected);
	for (size_t i = 0; i < v.n; i++) {
		larger -= v.blocks[i].size >= vt_recorder.sample_now;
		/* Of the second round; nothing of the first one's is believed of an address. */
		assert_int_equal(((const uint64_t *)vt_recorder.words
					  .addr)[((const struct vt_recorder_stack *)vt_recorder
							  .stacks.addr)[v.blocks[i].stack]
							 .first],
				 1);
	}
	assert_int_equal(larger, 0);
	assert_true(v.n > config.max_memory / 128);
	free(v.blocks);
	/* What blocks may not have is there for stacks. */
	for (uint64_t i = 0; i < 5000; i++) {
		fake_stack.words[0] = 100 + i;
		vt_rec_stack_here(&no_regs);
	}
	assert_int_equal(vt_recorder.stacks_dropped, 0);
	off();
	fake_stack.n = 0;
}

/* The recorder may have so much memory more, besides the reserve. */
static void on_with_memory(uint64_t more)
{
	uint64_t most;

	on(fake_config());
	most = vt_recorder.memory + more;
	for (vt_recorder.max_memory = most;
	     vt_recorder.max_memory - vt_recorder.max_memory / 8 < most;)
		vt_recorder.max_memory++;
}

/* How many different memos the first n choices lead to. */
static size_t count_memos(unsigned int n)
{
	struct vt_rec_memo *seen[VT_REC_MEMO_CHOICES];
	struct vt_rec_visit visit;
	struct vt_rec_memos *memos;
	size_t count = 0;

	assert_true(vt_rec_visit_begin(&visit));
	memos = vt_rec_memos_of(&visit);
	for (unsigned int i = 0; memos && i < n; i++) {
		struct vt_rec_memo *memo = vt_rec_memo_for(memos, 8 * i);
		size_t j = 0;

		while (memo && j < count && seen[j] != memo)
			j++;
		if (memo && j == count)
			seen[count++] = memo;
		/* The same stack and the same stack pointer lead to it again, either way. */
		memos->last = NULL;
		assert_ptr_equal(vt_rec_memo_for(memos, 8 * i), memo);
		memos->last = memo;
	}
	vt_rec_visit_end(&visit);
	return count;
}

static size_t memos_with(uint64_t more, unsigned int n)
{
	size_t count;

	on_with_memory(more);
	count = count_memos(n);
	assert_true(vt_recorder.memory <= vt_recorder.max_memory - vt_recorder.max_memory / 8);
	off();
	return count;
}

#define PAGES(size) (((size) + 4095) / 4096 * 4096)

/* What is left for stacks is not there for memos either; and they have only a share of the rest. */
static void test_bound_of_memos(void **state)
{
	const uint64_t size = PAGES(sizeof(struct vt_rec_memos)),
		       chunk = PAGES(VT_REC_MEMO_CHUNK * sizeof(struct vt_rec_memo));

	(void)state;
	assert_int_equal(memos_with(size - 8, 1), 0);
	assert_int_equal(memos_with(size, 1), 0);
	assert_int_equal(memos_with(size + chunk - 8, 1), 0);
	/* A lane's first ones; others only where these are a smaller share. */
	assert_int_equal(memos_with(8 * chunk, 1), 1);
	assert_int_equal(memos_with(8 * chunk, 1000), VT_REC_MEMO_CHUNK);
	assert_in_range(memos_with(64 * chunk, 1000), VT_REC_MEMO_CHUNK + 1, 4 * VT_REC_MEMO_CHUNK);
	assert_int_equal(memos_with(1024 * chunk, VT_REC_MEMO_CHOICES), VT_REC_MEMOS);
}

/* A child has none of the memory of memos; and gives none back. */
static void test_memos_in_a_child(void **state)
{
	pid_t pid;
	int status;

	(void)state;
	on(fake_config());
	assert_true(count_memos(100) > 2 * VT_REC_MEMO_CHUNK);
	pid = fork();
	assert_return_code(pid, errno);
	if (!pid)
		_exit(vt_recorder_control(VT_RECORD_OFF, NULL) != VT_RECORDER_OK ||
		      vt_recorder.memory);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	off();
}

/* A record that was decided on before the rate was raised. */
static void test_rate_that_is_raised_meanwhile(void **state)
{
	struct vt_recorder_config config = fake_config();
	struct view v;

	(void)state;
	config.sample_bytes = 1 << 20;
	on(config);
	for (uint64_t i = 0; i < 20000; i++)
		vt_rec_block_put(ADDR(i), 1 << 19, 1, i % 2 ? 0 : 1 << 18, vt_rec_now());
	v = view();
	check_sample(&v, 1 << 20, 10000);
	for (size_t i = 0; i < v.n; i++)
		vt_rec_block_put(v.blocks[i].addr, 0, 1, 0, vt_rec_now());
	assert_int_equal(vt_recorder.lost, 0);
	free(v.blocks);
	v = view();
	assert_int_equal(v.n, 0);
	free(v.blocks);
	off();
}

/*
 * Blocks of one size, which no rate below it would thin; and so little memory that there is no
 * table at all.
 */
static void test_bound_extremes(void **state)
{
	struct vt_recorder_config config = fake_config();
	struct view v;

	(void)state;
	config.max_memory = UINT64_C(1) << 20;
	on(config);
	for (uint64_t i = 0; i < 200000; i++)
		vt_rec_allocated(ADDR(i), UINT64_C(1) << 32, &no_regs);
	assert_true(vt_recorder.memory <= config.max_memory);
	assert_true(vt_recorder.sample_now > UINT64_C(1) << 32);
	assert_int_equal(vt_recorder.lost, 0);
	v = view();
	assert_true(v.n > 6000 && v.n < 32768);
	free(v.blocks);
	off();

	do
		config.max_memory -= 4096;
	while (config.max_memory > UINT64_C(200) << 10);
	on(config);
	for (uint64_t i = 0; i < 10000; i++)
		vt_rec_allocated(ADDR(i), 512, &no_regs);
	assert_true(vt_recorder.lost > 0);
	assert_int_equal(vt_recorder_torch_allocations(&vt_recorder), 10000);
	off();
}

/* ---- stacks ---- */

static const struct vt_recorder_stack *stack_of(uint32_t id)
{
	assert_true(id < vt_recorder.stacks.n);
	return (const struct vt_recorder_stack *)(uintptr_t)vt_recorder.stacks.addr + id;
}

static bool stack_is(uint32_t id, const struct vt_rec_frames *frames)
{
	const struct vt_recorder_stack *stack = stack_of(id);
	const uint64_t *words = (const uint64_t *)(uintptr_t)vt_recorder.words.addr + stack->first;
	size_t n = (size_t)frames->n_words_python + frames->n_native;

	assert_true(stack->first + n <= vt_recorder.words.n);
	return stack->n_python == frames->n_python &&
	       stack->n_words_python == frames->n_words_python &&
	       stack->n_native == frames->n_native && stack->flags == frames->flags &&
	       !memcmp(words, frames->words, n * sizeof(*words));
}

/* One of so many stacks that many differ in a single word, or in where Python ends. */
static struct vt_rec_frames some_stack(uint64_t which, bool collide)
{
	struct vt_rec_frames frames = { .n_python = 3, .n_words_python = 3, .n_native = 2 };

	for (unsigned int i = 0; i < 5; i++)
		frames.words[i] = 7;
	frames.words[which % 5] = which / 20;
	if (which / 5 % 2)
		frames.n_native = 1, frames.n_python = frames.n_words_python = 4;
	if (which / 10 % 2)
		frames.flags = VT_STACK_NATIVE_CUT;
	frames.hash = collide ? which % 3 * UINT64_C(0x100000001) : vt_recorder_hash(which);
	return frames;
}

static void intern_all(uint64_t n, bool collide)
{
	uint32_t *ids = calloc(n, sizeof(*ids));

	on(fake_config());
	for (unsigned int round = 0; round < 2; round++)
		for (uint64_t i = 0; i < n; i++) {
			/* Words of 7 are the same stack with another number, and another hash. */
			struct vt_rec_frames frames = some_stack(i + 20 * 8, collide);
			uint32_t id = vt_rec_stack_intern(&frames);

			assert_true(round ? id == ids[i] : id == i + 1);
			assert_true(stack_is(id, &frames));
			ids[i] = id;
		}
	assert_int_equal(vt_recorder.stacks.n, n + 1);
	assert_int_equal(vt_recorder.stacks_dropped, 0);
	free(ids);
	off();
}

static void test_stacks(void **state)
{
	(void)state;
	intern_all(100000, false);
}

static void test_stacks_of_equal_hash(void **state)
{
	(void)state;
	intern_all(UNDER_TSAN ? 500 : 3000, true);
}

/* Ten million allocations from 1,000 places leave 1,000 stacks. */
static void test_stacks_of_few_places(void **state)
{
	uint64_t n = UNDER_TSAN ? 100000 : 10000000, memory;

	(void)state;
	fake_stack.n = 20;
	on(fake_config());
	for (uint64_t i = 0; i < n; i++) {
		fake_stack.words[11] = i % 1000;
		vt_rec_allocated(ADDR(i % 5000), i, &no_regs);
		if (i == 10000)
			memory = vt_recorder.memory;
	}
	assert_int_equal(vt_recorder.stacks.n, 1001);
	assert_int_equal(vt_recorder.words.n, 20000);
	assert_int_equal(vt_recorder.memory, memory);
	assert_int_equal(vt_recorder_torch_allocations(&vt_recorder), n);
	off();
	fake_stack.n = 0;
}

static void test_stacks_bound(void **state)
{
	struct vt_recorder_config config = fake_config();
	struct vt_rec_frames frames;
	uint32_t known = 0, id;

	(void)state;
	config.max_memory = UINT64_C(1) << 20;
	on(config);
	for (uint64_t i = 0; i < 50000; i++) {
		frames = some_stack(i + 20 * 8, false);
		id = vt_rec_stack_intern(&frames);
		assert_true(vt_recorder.memory <= config.max_memory);
		if (id == VT_RECORDER_NO_STACK)
			continue;
		assert_int_equal(id, known + 1);
		known = id;
	}
	assert_true(known > 5000 && known < 50000);
	assert_int_equal(vt_recorder.stacks_dropped, 50000 - known);
	for (uint64_t i = 0; i < known; i++) {
		frames = some_stack(i + 20 * 8, false);
		assert_int_equal(vt_rec_stack_intern(&frames), i + 1);
	}
	off();
}

/* ---- locks ---- */

static struct vt_recorder_shard *shard_of(uint64_t addr)
{
	return &vt_recorder.shards[vt_recorder_hash(addr) % VT_RECORDER_SHARDS];
}

/* Another address of the same shard. */
static uint64_t neighbour(uint64_t addr)
{
	uint64_t other = addr;

	do
		other += 512;
	while (shard_of(other) != shard_of(addr));
	return other;
}

static size_t n_records(void)
{
	struct view v = view();

	free(v.blocks);
	return v.n;
}

/* A thread that is interrupted while it has a lock, and allocates in the signal handler. */
static void test_entered_again(void **state)
{
	uint64_t a = ADDR(1), b = neighbour(a), c = neighbour(b);
	struct vt_recorder_shard *shard = shard_of(a);

	(void)state;
	on(fake_config());
	vt_rec_allocated(a, 1, &no_regs);
	vt_rec_allocated(b, 1, &no_regs);
	vt_rec_allocated(c, 1, &no_regs);
	assert_true(vt_rec_lock(&shard->lock));
	vt_rec_allocated(a, 2, &no_regs);
	vt_rec_unlock(&shard->lock);
	assert_int_equal(vt_recorder.lost, 1);
	assert_int_equal(shard->doomed, a);
	vt_rec_allocated(b, 2, &no_regs);
	assert_int_equal(shard->doomed, 0);
	assert_int_equal(n_records(), 2);

	assert_true(vt_rec_lock(&shard->lock));
	vt_rec_allocated(a, 3, &no_regs);
	vt_rec_allocated(b, 3, &no_regs);
	vt_rec_unlock(&shard->lock);
	assert_int_equal(vt_recorder.lost, 3);
	assert_int_equal(shard->doomed, VT_RECORDER_ALL_DOOMED);
	vt_rec_allocated(a, 4, &no_regs);
	assert_int_equal(n_records(), 1);
	assert_int_equal(vt_recorder_torch_allocations(&vt_recorder), 8);
	off();
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/*
 * The owner of the lock never comes back: no thread waits for long, and only one for longer than a
 * moment.
 */
static void test_owner_stands_still(void **state)
{
	struct vt_recorder_shard *shard = shard_of(ADDR(1));
	uint64_t begin;

	(void)state;
	on(fake_config());
	vt_rec_allocated(ADDR(1), 1, &no_regs);
	shard->lock = 1;
	begin = now_ns();
	vt_rec_allocated(ADDR(1), 1, &no_regs);
	assert_true(now_ns() - begin >= 900000000);
	assert_int_equal(shard->lock, 1 | VT_RECORDER_LOCK_STUCK);
	begin = now_ns();
	for (unsigned int i = 0; i < 100; i++)
		vt_rec_allocated(ADDR(1), 1, &no_regs);
	/* 100 patiences would be 100 seconds. */
	assert_true(now_ns() - begin < UINT64_C(20000000000));
	assert_int_equal(vt_recorder.lost, 101);
	vt_rec_unlock(&shard->lock);
	vt_rec_allocated(ADDR(1), 1, &no_regs);
	assert_int_equal(n_records(), 1);
	off();
}

/* ---- a thread that stands still inside ---- */

static sem_t is_inside, go_on;

static void wait_inside(void)
{
	sem_post(&is_inside);
	while (sem_wait(&go_on))
		;
}

static void *allocate_once(void *arg)
{
	vt_rec_allocated(ADDR(1), 1, &no_regs);
	return arg;
}

static void test_off_in_use(void **state)
{
	struct vt_recorder_config config = fake_config();
	const char *before;
	pthread_t thread;
	uint64_t begin;

	(void)state;
	sem_init(&is_inside, 0, 0);
	sem_init(&go_on, 0, 0);
	/* Whatever a first thread leaves behind. */
	assert_int_equal(pthread_create(&thread, NULL, allocate_once, NULL), 0);
	pthread_join(thread, NULL);
	before = maps(0);

	fake_in_capture = wait_inside;
	on(config);
	assert_int_equal(pthread_create(&thread, NULL, allocate_once, NULL), 0);
	while (sem_wait(&is_inside))
		;
	begin = now_ns();
	assert_int_equal(vt_recorder_control(VT_RECORD_OFF, NULL), VT_RECORDER_IN_USE);
	assert_true(now_ns() - begin >= 900000000);
	/* The hooks are out, and what the thread is about to use is there. */
	assert_false(fake_torch);
	assert_false(vt_rec_is_on());
	assert_int_equal(vt_recorder.state, VT_RECORDER_OFF);
	assert_true(vt_recorder.memory > 0);
	assert_int_equal(vt_recorder_control(VT_RECORD_ON, &config), VT_RECORDER_IN_USE);
	sem_post(&go_on);
	pthread_join(thread, NULL);
	assert_int_equal(vt_recorder.shards[vt_recorder_hash(ADDR(1)) % VT_RECORDER_SHARDS].count,
			 1);
	fake_in_capture = NULL;

	/* On finishes what off could not. */
	on(config);
	assert_int_equal(n_records(), 0);
	off();
	assert_int_equal(vt_recorder_control(VT_RECORD_OFF, NULL), VT_RECORDER_BUSY);
	assert_same_maps(before);
}

/* ---- fork ---- */

static int wait_for(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		assert_int_equal(errno, EINTR);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

/* Returns the number of the first thing that is not as it should be. */
static int child(uint64_t table, uint64_t words)
{
	struct vt_recorder_config config = fake_config();
	char byte;

	if (vt_rec_is_on() || *(const uint32_t *)(uintptr_t)vt_recorder.live)
		return 1;
	if (peek(table, &byte, 1) || peek(words, &byte, 1))
		return 2;
	vt_rec_allocated(ADDR(2), 2, &no_regs);
	if (vt_rec_enter())
		return 3;
	/* What lies there now is the child's own, and stays. */
	if (mmap((void *)(uintptr_t)table, 4096, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED)
		return 4;
	/* Hooks out of the child's copy, nothing else; then it may be recorded itself. */
	if (vt_recorder_control(VT_RECORD_OFF, NULL) != VT_RECORDER_OK || fake_torch ||
	    vt_recorder.memory)
		return 5;
	if (!peek(table, &byte, 1))
		return 6;
	if (vt_recorder_control(VT_RECORD_ON, &config) != VT_RECORDER_OK || !vt_rec_is_on())
		return 7;
	vt_rec_allocated(ADDR(2), 2, &no_regs);
	if (shard_of(ADDR(2))->count != 1 || shard_of(ADDR(2))->lock)
		return 8;
	if (vt_recorder_control(VT_RECORD_OFF, NULL) != VT_RECORDER_OK || vt_recorder.memory)
		return 9;
	return 0;
}

/* On in the child without off. */
static int child_on(void)
{
	struct vt_recorder_config config = fake_config();

	if (vt_recorder_control(VT_RECORD_ON, &config) != VT_RECORDER_OK || !vt_rec_is_on() ||
	    vt_recorder.lost)
		return 1;
	if (vt_recorder_control(VT_RECORD_OFF, NULL) != VT_RECORDER_OK || vt_recorder.memory)
		return 2;
	return 0;
}

static void test_fork(void **state)
{
	struct vt_recorder_shard *shard = shard_of(ADDR(2));
	pid_t pid;

	(void)state;
	on(fake_config());
	vt_rec_allocated(ADDR(1), 1, &no_regs);
	/* Another thread would have it, and be inside, when this one forks. */
	shard->lock = 1;
	assert_true(vt_rec_enter());
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		_exit(child(shard_of(ADDR(1))->table, vt_recorder.words.addr));
	assert_int_equal(wait_for(pid), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		_exit(child_on());
	assert_int_equal(wait_for(pid), 0);
	vt_rec_leave();
	shard->lock = 0;
	assert_true(vt_rec_is_on());
	vt_rec_allocated(ADDR(3), 1, &no_regs);
	assert_int_equal(n_records(), 2);
	off();
}

/* ---- little address space ---- */

static int with_address_space(uint64_t more)
{
	struct vt_recorder_config config = fake_config();
	unsigned long pages;
	FILE *statm = fopen("/proc/self/statm", "r");
	struct rlimit limit;
	uint32_t ret;

	if (!statm || fscanf(statm, "%lu", &pages) != 1)
		return 1;
	fclose(statm);
	limit.rlim_cur = limit.rlim_max = pages * 4096 + more;
	if (setrlimit(RLIMIT_AS, &limit))
		return 2;
	ret = vt_recorder_control(VT_RECORD_ON, &config);
	if (ret != VT_RECORDER_OK)
		return ret != VT_RECORDER_NO_MEMORY || vt_recorder.memory ? 3 : 4;
	for (uint64_t i = 0; i < 100000; i++)
		vt_rec_allocated(ADDR(i), 512, &no_regs);
	ret = vt_recorder.lost || !vt_recorder.sample_now ? 5 : 0;
	if (vt_recorder_control(VT_RECORD_OFF, NULL) != VT_RECORDER_OK || vt_recorder.memory)
		return 6;
	return (int)ret;
}

static void test_address_space(void **state)
{
	const struct {
		uint64_t more;
		int expected;
	} cases[] = { { UINT64_C(16) << 10, 4 }, { UINT64_C(3) << 20, 0 } };

	(void)state;
	if (UNDER_TSAN)
		skip(); /* its own needs are not known */
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		pid_t pid = fork();

		assert_true(pid >= 0);
		if (!pid)
			_exit(with_address_space(cases[i].more));
		assert_int_equal(wait_for(pid), cases[i].expected);
	}
}

/* ---- threads ---- */

#define THREADS 8

static struct {
	uint32_t stop;
	uint64_t rounds;
	pthread_barrier_t all; /* so that there are as many stacks each time */
} load;

/* Sizes that say which stack the record is of, so that a mixture of two would show. */
static uint64_t size_for(uint64_t addr, uint64_t word)
{
	return vt_recorder_hash(addr * 31 + word) >> VT_RECORDER_TID_BITS;
}

static void *hammer(void *arg)
{
	uint64_t me = (uintptr_t)arg, state = me;
	uint64_t n = 0;

	pthread_barrier_wait(&load.all);
	fake_stack.n = 20;
	do {
		uint64_t r = vt_recorder_hash(++state * 0x10001 + me), addr = ADDR(r % 3000);

		fake_stack.words[5] = r >> 32 & 0xff;
		fake_stack.words[6] = r >> 40 & (n % 16 ? 0 : 0xff);
		vt_rec_allocated(addr, size_for(addr, fake_stack.words[5]), &no_regs);
		/* Threads that are not inside must not keep those from running that are. */
		if (!vt_rec_is_on())
			sched_yield();
		if (n % 8 == 0) {
			vt_rec_stack_here(&no_regs);
			if (vt_rec_enter()) {
				vt_rec_block_drop(addr);
				vt_rec_leave();
			}
		}
		n++;
	} while (!__atomic_load_n(&load.stop, __ATOMIC_RELAXED));
	__atomic_fetch_add(&load.rounds, n, __ATOMIC_RELAXED);
	return NULL;
}

static void begin_load(pthread_t *threads)
{
	pthread_attr_t attr;

	load.stop = 0;
	load.rounds = 0;
	assert_int_equal(pthread_barrier_init(&load.all, NULL, THREADS), 0);
	/* Small stacks are kept for the next threads, and so are the same before and after. */
	assert_int_equal(pthread_attr_init(&attr), 0);
	assert_int_equal(pthread_attr_setstacksize(&attr, 1 << 20), 0);
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], &attr, hammer, (void *)i), 0);
	pthread_attr_destroy(&attr);
}

static void end_load(pthread_t *threads)
{
	__atomic_store_n(&load.stop, 1, __ATOMIC_RELAXED);
	for (unsigned int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	pthread_barrier_destroy(&load.all);
	assert_true(load.rounds > 0);
}

/* Off on a machine that is busy may have to wait for a thread that is inside and not running. */
static void off_patiently(void)
{
	unsigned int tries = 0;
	uint32_t ret;

	while ((ret = vt_recorder_control(VT_RECORD_OFF, NULL)) == VT_RECORDER_IN_USE)
		assert_true(++tries < 30);
	assert_int_equal(ret, VT_RECORDER_OK);
	assert_int_equal(vt_recorder.memory, 0);
}

static void test_on_and_off_under_load(void **state)
{
	const unsigned int switches = getenv("VRAMTAP_SOAK") ? 20000 : UNDER_TSAN ? 300 : 3000;
	struct vt_recorder_config config = fake_config();
	pthread_t threads[THREADS];
	const char *before;
	uint64_t recorded = 0;

	(void)state;
	/* Whatever the first threads leave behind (their stacks are kept). */
	begin_load(threads);
	end_load(threads);
	before = maps(0);
	begin_load(threads);
	for (unsigned int i = 0; i < switches; i++) {
		/* Now and then so little that tables are thinned, or there are none. */
		config.max_memory = i % 5 == 1 ? UINT64_C(300) << 10 :
				    i % 5 == 2 ? UINT64_C(180) << 10 :
						 UINT64_C(64) << 20;
		config.sample_bytes = i % 7 == 3 ? UINT64_C(1) << 40 : 0;
		on(config);
		if (i % 3 == 0)
			usleep(200);
		assert_true(__atomic_load_n(&vt_recorder.memory, __ATOMIC_RELAXED) > 0);
		off_patiently();
		recorded += vt_recorder_torch_allocations(&vt_recorder);
	}
	end_load(threads);
	assert_true(recorded > 0);
	assert_same_maps(before);
}

/* As the tool reads: the shard, its table, the shard again; a record twice. */
static size_t look(struct vt_recorder_packed *blocks, size_t room)
{
	size_t n = 0;

	for (unsigned int s = 0; s < VT_RECORDER_SHARDS; s++) {
		struct vt_recorder_shard a, b;

		if (!peek((uintptr_t)&vt_recorder.shards[s], &a, sizeof(a)) || !a.table ||
		    a.resizes % 2 || n + a.capacity > room)
			continue;
		if (!peek(a.table, blocks + n, a.capacity * sizeof(*blocks)) ||
		    !peek((uintptr_t)&vt_recorder.shards[s], &b, sizeof(b)) ||
		    a.resizes != b.resizes)
			continue;
		n += a.capacity;
	}
	return n;
}

static void test_read_from_outside(void **state)
{
	const size_t room = UINT64_C(1) << 16;
	struct vt_recorder_packed *first = malloc(room * sizeof(*first)),
				  *second = malloc(room * sizeof(*second));
	uint64_t accepted = 0, torn = 0, end;
	struct vt_recorder_config config = fake_config();
	pthread_t threads[THREADS];

	(void)state;
	on(config);
	begin_load(threads);
	end = now_ns() + (UNDER_TSAN ? 500000000 : 1500000000);
	while (now_ns() < end || (accepted < 1000 && now_ns() < end + UINT64_C(60000000000))) {
		size_t n = look(first, room), m;

		m = look(second, room);
		for (size_t i = 0; i < n && i < m; i++) {
			struct vt_recorder_block a = vt_recorder_unpack(&first[i]);
			struct vt_recorder_stack stack;
			uint64_t word;

			torn += a.addr && !vt_recorder_is_whole(&first[i]);
			/*
			 * Where a shard was skipped in one of them the rest does not match, and is
			 * not compared.
			 */
			if (!a.addr || !vt_recorder_is_whole(&first[i]) ||
			    memcmp(&first[i], &second[i], sizeof(first[i])))
				continue;
			assert_true(peek(vt_recorder.stacks.addr + a.stack * sizeof(stack), &stack,
					 sizeof(stack)));
			assert_true(peek(vt_recorder.words.addr + (stack.first + 5) * 8, &word,
					 sizeof(word)));
			assert_int_equal(a.size, size_for(a.addr, word));
			accepted++;
		}
	}
	end_load(threads);
	assert_true(accepted >= 1000);
	print_message("             %llu records accepted, %llu refused\n",
		      (unsigned long long)accepted, (unsigned long long)torn);
	free(first);
	free(second);
	off();
}

/* All that many threads allocate at once is there, each with its own stack. */
static void *allocate_own(void *arg)
{
	uint64_t me = (uintptr_t)arg;

	fake_stack.n = 3;
	for (uint64_t i = 0; i < 20000; i++) {
		fake_stack.words[1] = i / 10 + 1;
		vt_rec_allocated(ADDR(i * THREADS + me), me * 100000 + i, &no_regs);
	}
	return NULL;
}

#define OOMS 50

static void *run_out_of_memory(void *arg)
{
	for (uint64_t i = 0; i < OOMS; i++)
		vt_rec_out_of_memory(VT_OOM_DRIVER, (uint64_t)(uintptr_t)arg << 32 | i, 2,
				     &no_regs);
	return NULL;
}

/* In a child nothing is kept. */
static void run_out_in_child(uint32_t raised)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		run_out_of_memory(NULL);
		_exit(vt_recorder.trap.raised == raised ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/*
 * The last ones are kept, whole, in the order of their numbers; those of an earlier recording are
 * not.
 */
static void test_out_of_memory(void **state)
{
	const struct vt_recorder_trap *trap = &vt_recorder.trap;
	uint32_t before = trap->raised, last;
	pthread_t threads[THREADS];

	(void)state;
	run_out_of_memory(NULL);
	assert_int_equal(trap->raised, before);
	on(fake_config());
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, run_out_of_memory, (void *)i),
				 0);
	for (unsigned int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	last = trap->raised;
	assert_int_equal(last - before, THREADS * OOMS);
	for (uint32_t seq = last; seq != last - VT_RECORDER_MAX_OOMS; seq--) {
		const struct vt_recorder_oom *event = &trap->ooms[(seq - 1) % VT_RECORDER_MAX_OOMS];

		assert_int_equal(event->seq, seq);
		assert_int_equal(event->kind, VT_OOM_DRIVER);
		assert_true(event->requested >> 32 < THREADS && (uint32_t)event->requested < OOMS);
		assert_int_equal(event->error, 2);
		assert_int_equal(event->waited_ns, 1);
		assert_true(event->time_ns >= vt_recorder.start_ns);
	}
	run_out_in_child(last);
	/* A watcher that has died since. */
	__atomic_store_n(&vt_recorder.trap.armed, 1, __ATOMIC_RELEASE);
	off();
	assert_int_equal(trap->armed, 0);
	on(fake_config());
	assert_int_equal(trap->raised, last);
	for (unsigned int i = 0; i < VT_RECORDER_MAX_OOMS; i++)
		assert_int_equal(trap->ooms[i].seq, 0);
	off();
}

/* What the event asks the driver; during that another recording begins. */
static int switch_meanwhile(size_t *free_bytes, size_t *total)
{
	off();
	on(fake_config());
	*free_bytes = *total = 0;
	return 0;
}

/* The number of a stack means nothing in another recording. */
static void test_out_of_memory_and_another_recording(void **state)
{
	const struct vt_recorder_trap *trap = &vt_recorder.trap;
	struct vt_recorder_config config = fake_config();

	(void)state;
	config.imports.cuMemGetInfo = (uint64_t)(uintptr_t)switch_meanwhile;
	on(config);
	fake_stack.n = 1;
	fake_stack.words[0] = 1;
	vt_rec_out_of_memory(VT_OOM_DRIVER, 1, 2, &no_regs);
	assert_int_equal(trap->ooms[(trap->raised - 1) % VT_RECORDER_MAX_OOMS].stack,
			 VT_RECORDER_NO_STACK);
	vt_rec_out_of_memory(VT_OOM_DRIVER, 1, 2, &no_regs);
	assert_int_equal(trap->ooms[(trap->raised - 1) % VT_RECORDER_MAX_OOMS].stack, 1);
	fake_stack.n = 0;
	off();
}

static void test_threads_allocate(void **state)
{
	pthread_t threads[THREADS];
	struct view v;

	(void)state;
	on(fake_config());
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, allocate_own, (void *)i), 0);
	for (unsigned int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	v = view();
	assert_int_equal(v.n, THREADS * 20000);
	assert_int_equal(vt_recorder.stacks.n, 2001);
	for (size_t i = 0; i < v.n; i++) {
		uint64_t at = (v.blocks[i].addr - ADDR(0)) / 512;

		assert_int_equal(v.blocks[i].size, at % THREADS * 100000 + at / THREADS);
		assert_int_equal(((const uint64_t *)vt_recorder.words
					  .addr)[stack_of(v.blocks[i].stack)->first + 1],
				 at / THREADS / 10 + 1);
	}
	free(v.blocks);
	off();
}

/* ---- main ---- */

/* One that failed must not make the others fail. */
static int after(void **state)
{
	(void)state;
	fake_in_capture = NULL;
	fake_stack.n = 0;
	vt_recorder_control(VT_RECORD_OFF, NULL);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_nothing_is_left, after),
		cmocka_unit_test_teardown(test_steps_that_fail, after),
		cmocka_unit_test_teardown(test_driver_comes_later, after),
		cmocka_unit_test_teardown(test_blocks_model, after),
		cmocka_unit_test_teardown(test_blocks_bytes, after),
		cmocka_unit_test_teardown(test_blocks_that_do_not_fit, after),
		cmocka_unit_test_teardown(test_stamps, after),
		cmocka_unit_test_teardown(test_sampling, after),
		cmocka_unit_test_teardown(test_bound, after),
		cmocka_unit_test_teardown(test_bound_of_memos, after),
		cmocka_unit_test_teardown(test_memos_in_a_child, after),
		cmocka_unit_test_teardown(test_rate_that_is_raised_meanwhile, after),
		cmocka_unit_test_teardown(test_bound_extremes, after),
		cmocka_unit_test_teardown(test_stacks, after),
		cmocka_unit_test_teardown(test_stacks_of_equal_hash, after),
		cmocka_unit_test_teardown(test_stacks_of_few_places, after),
		cmocka_unit_test_teardown(test_stacks_bound, after),
		cmocka_unit_test_teardown(test_entered_again, after),
		cmocka_unit_test_teardown(test_owner_stands_still, after),
		cmocka_unit_test_teardown(test_off_in_use, after),
		cmocka_unit_test_teardown(test_fork, after),
		cmocka_unit_test_teardown(test_address_space, after),
		cmocka_unit_test_teardown(test_out_of_memory, after),
		cmocka_unit_test_teardown(test_out_of_memory_and_another_recording, after),
		cmocka_unit_test_teardown(test_threads_allocate, after),
		cmocka_unit_test_teardown(test_on_and_off_under_load, after),
		cmocka_unit_test_teardown(test_read_from_outside, after),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
