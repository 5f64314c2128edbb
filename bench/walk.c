/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast the allocator walk is: a synthetic allocator of N blocks, walked in its own process (as
 * the helper does, through pointers) and through copies (as the tool does from outside). Prints the
 * best and the median of several runs, with caches that still hold the allocator ("warm") and with
 * caches full of something else ("cold", as a process finds them that did other work).
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
#include "walk/torch/torch.h"

#define RUNS 9
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
	qsort(ns, RUNS, sizeof(ns[0]), by_value);
	printf("%-8s %-5s %9zu blocks  median %9.3f ms %7.2f million blocks/s  best %7.2f million blocks/s\n",
	       how, cold ? "cold" : "warm", n, (double)ns[RUNS / 2] / 1e6,
	       (double)n * 1e3 / (double)ns[RUNS / 2], (double)n * 1e3 / (double)ns[0]);
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
		image.src.ops = direct;
		measure(&image, "inside", n, cold);
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
