/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast the allocator walk is: a synthetic allocator of N blocks, walked in its own process (as
 * the helper does, through pointers) and through copies (as the tool does from outside). Prints the
 * best and the median of several runs, with caches that still hold the allocator ("warm") and with
 * caches full of something else ("cold", as a process finds them that did other work). Before each,
 * what memory alone takes for it ("floor"): inside, to load every line of every Block that is in
 * use, in the order of the hash table and asked for ahead, and to store a record of each; outside,
 * to copy the pages. Neither follows a link or checks anything.
 *
 *   bench/walk [N]...
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "unit/walk/torch/torch_image.h"
#include "walk/torch/abi.h"
#include "walk/torch/torch.h"

#define RUNS 9
#define LINE 64  /* bytes of a line of the cache */
#define AHEAD 16 /* slots; from 12 to 96 it makes no difference that can be told from noise */
#define FLUSH_BYTES (UINT64_C(256) << 20) /* more than any last-level cache has */

struct sink {
	struct vt_torch_sink sink;
	struct vt_block_rec *recs;
	uint64_t capacity;
};

static struct vt_block_rec *reserve(struct vt_torch_sink *base, uint64_t n)
{
	struct sink *sink = (struct sink *)base;

	return n <= sink->capacity ? sink->recs : NULL;
}

/* The system call that the tool uses on a live process, here on ourselves. */
static int self_readv(struct vt_memsrc *src, const struct vt_memvec *vec, size_t n)
{
	struct iovec local[512], remote[512];
	size_t total = 0;

	for (size_t i = 0; i < n; i++) {
		local[i] = (struct iovec){ vec[i].buf, vec[i].len };
		remote[i] = (struct iovec){ (void *)(uintptr_t)vec[i].addr, vec[i].len };
		total += vec[i].len;
	}
	(void)src;
	return process_vm_readv(getpid(), local, n, remote, n, 0) == (ssize_t)total ? 0 : -EFAULT;
}

static int self_read(struct vt_memsrc *src, uint64_t addr, void *buf, size_t len)
{
	struct vt_memvec vec = { .addr = addr, .buf = buf, .len = len };

	return self_readv(src, &vec, 1);
}

static const struct vt_memsrc_ops copy_ops = { .read = self_read, .readv = self_readv };

static void *memory(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (p == MAP_FAILED)
		exit(1);
	return p;
}

/* Fills the caches with something else. */
static void flush_caches(void)
{
	static uint64_t *other;

	if (!other)
		other = memory(FLUSH_BYTES);
	for (size_t i = 0; i < FLUSH_BYTES / sizeof(*other); i += 8)
		other[i]++;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void print_ns(const char *how, bool cold, size_t n, uint64_t ns[RUNS])
{
	qsort(ns, RUNS, sizeof(ns[0]), by_value);
	printf("%-13s %-5s %9zu blocks  median %9.3f ms %7.2f million blocks/s  best %7.2f million blocks/s\n",
	       how, cold ? "cold" : "warm", n, (double)ns[RUNS / 2] / 1e6,
	       (double)n * 1e3 / (double)ns[RUNS / 2], (double)n * 1e3 / (double)ns[0]);
}

/* Loads the lines of a Block and stores a record. */
static void load_block(const char *block, size_t size, uint64_t record[8])
{
	uint64_t sum = 0;

	for (size_t at = 0; at < size; at += LINE)
		sum += *(const volatile uint64_t *)(const void *)(block + at);
	sum += *(const volatile uint64_t *)(const void *)(block + size - sizeof(sum));
	for (int i = 0; i < 8; i++)
		((volatile uint64_t *)record)[i] = sum;
}

static void load_blocks(const struct image *image, const struct vt_torch_layout *layout,
			struct vt_block_rec *recs, size_t capacity)
{
	struct vt_ska table;
	const char *slots;
	uint64_t n_slots;
	size_t n = 0;

	memcpy(&table, (void *)(uintptr_t)(image->dcas[0] + layout->active_blocks), sizeof(table));
	slots = (const char *)(uintptr_t)table.entries;
	n_slots = vt_ska_slots(&table);
	for (uint64_t i = 0; i < n_slots && n < capacity; i++) {
		const char *slot = slots + i * VT_SKA_SET_SLOT, *block, *ahead;

		if (i + AHEAD < n_slots && slot[AHEAD * VT_SKA_SET_SLOT] >= 0) {
			memcpy(&ahead, slot + AHEAD * VT_SKA_SET_SLOT + VT_SKA_VALUE,
			       sizeof(ahead));
			for (size_t at = 0; at < layout->block.size_of; at += LINE)
				__builtin_prefetch(ahead + at);
			/* Blocks are not aligned to lines */
			__builtin_prefetch(ahead + layout->block.size_of - 1);
		}
		if (slot[0] < 0)
			continue;
		memcpy(&block, slot + VT_SKA_VALUE, sizeof(block));
		load_block(block, layout->block.size_of, (uint64_t *)(void *)&recs[n++]);
	}
}

static void copy_pages(const struct image *image, char *to)
{
	struct iovec local = { to, image->used }, remote = { image->base, image->used };

	if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) != (ssize_t)image->used)
		exit(1);
}

/* What no walk can go below. */
static void measure_floor(const struct image *image, bool inside, size_t n, bool cold)
{
	struct vt_block_rec *recs = memory(n * sizeof(*recs));
	char *copy = memory(image->used);
	struct vt_torch_layout layout;
	uint64_t ns[RUNS];

	image_layout(image, &layout);
	for (int i = 0; i < RUNS; i++) {
		uint64_t begin;

		if (cold)
			flush_caches();
		begin = vt_now_ns();
		if (inside)
			load_blocks(image, &layout, recs, n);
		else
			copy_pages(image, copy);
		ns[i] = vt_now_ns() - begin;
	}
	print_ns(inside ? "inside floor" : "outside floor", cold, n, ns);
	munmap(recs, n * sizeof(*recs));
	munmap(copy, image->used);
}

static void measure(struct image *image, const char *how, size_t n, bool cold)
{
	struct vt_torch_scratch scratch = { .size = vt_torch_scratch_size(n) };
	struct sink sink = { .sink.reserve = reserve, .capacity = n };
	struct vt_torch_walk_limits limits = { .max_blocks = n,
					       .deadline_ns = UINT64_MAX,
					       .now_ns = vt_now_ns };
	struct vt_torch_device_result result = { .result = VT_WALK_REFUSED };
	struct vt_torch_layout layout;
	uint64_t ns[RUNS];

	image_layout(image, &layout);
	scratch.base = memory(scratch.size);
	sink.recs = memory(n * sizeof(struct vt_block_rec));
	for (int i = 0; i < RUNS; i++) {
		if (cold)
			flush_caches();
		memset(&result, 0, sizeof(result));
		vt_torch_walk_device(&image->src, &layout, image->dcas[0], 0, &limits, &scratch,
				     &sink.sink, &result);
		if (result.result != VT_WALK_COMPLETE || result.blocks != n) {
			fprintf(stderr, "%s: %s (%#lx)\n", how, result.why,
				(unsigned long)result.bad_addr);
			exit(1);
		}
		ns[i] = result.walk_ns;
	}
	print_ns(how, cold, n, ns);
	munmap(scratch.base, scratch.size);
	munmap(sink.recs, n * sizeof(struct vt_block_rec));
}

static void bench(size_t n)
{
	struct image image;
	const struct vt_memsrc_ops *direct;

	image_init(&image, IMAGE_2_11, 1, n, true);
	image_fill(&image, 1, n, 2);
	image_finish(&image);
	direct = image.src.ops;
	for (int cold = 0; cold <= 1; cold++) {
		measure_floor(&image, true, n, cold);
		image.src.ops = direct;
		measure(&image, "inside", n, cold);
		measure_floor(&image, false, n, cold);
		image.src.ops = &copy_ops;
		measure(&image, "outside", n, cold);
	}
	image.src.ops = direct;
	image_deinit(&image);
}

int main(int argc, char **argv)
{
	static const size_t usual[] = { 1000, 10000, 100000, 1000000 };

	for (int i = 1; i < argc; i++)
		bench(strtoul(argv[i], NULL, 10));
	for (size_t i = 0; argc < 2 && i < sizeof(usual) / sizeof(usual[0]); i++)
		bench(usual[i]);
	return 0;
}
