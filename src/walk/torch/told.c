/* SPDX-License-Identifier: Apache-2.0 */
#include "walk/torch/told.h"

#include <stdio.h>
#include <string.h>

#include "walk/torch/abi.h"

/* ---- mutexes ---- */

#define OBJECT_MAX 0x8000 /* NativeCachingAllocator has 22.7 kB in 2.6 to 2.15 */
#define PAGE 4096u
#define MAX_TID (1 << 22) /* PID_MAX_LIMIT of 64-bit kernels */

/* glibc's struct __pthread_mutex_s on x86-64 */
struct mutex {
	uint32_t lock;
	uint32_t count;
	int32_t owner;
	uint32_t users;
	uint32_t kind;
	uint32_t spins;
	uint64_t list[2]; /* of robust ones only */
};
_Static_assert(sizeof(struct mutex) == VT_MUTEX_SIZE, "as in glibc");

static bool is_mutex(struct vt_memsrc *src, uint64_t addr)
{
	struct mutex m;

	if (!vt_is_object(addr) || vt_mem_read(src, addr, &m, sizeof(m)))
		return false;
	/* Ignores count and owner: they do not change at the same moment as the lock. */
	return m.kind == VT_MUTEX_RECURSIVE && m.lock <= 2 && m.owner >= 0 && m.owner <= MAX_TID &&
	       m.spins == 0 && m.list[0] == 0 && m.list[1] == 0;
}

static int mutexes_of(struct vt_memsrc *src, const uint64_t vector[3],
		      uint64_t mutexes[VT_TORCH_MAX_DEVICES])
{
	uint64_t n = (vector[1] - vector[0]) / 8;

	if (!vt_is_object(vector[0]) || vector[1] <= vector[0] || vector[2] < vector[1] ||
	    (vector[1] - vector[0]) % 8 || n > VT_TORCH_MAX_DEVICES ||
	    vt_mem_read(src, vector[0], mutexes, n * 8))
		return 0;
	for (uint64_t i = 0; i < n; i++)
		if (!is_mutex(src, mutexes[i]))
			return 0;
	return (int)n;
}

int vt_torch_mutexes(struct vt_memsrc *src, uint64_t allocator,
		     uint64_t mutexes[VT_TORCH_MAX_DEVICES])
{
	uint64_t words[OBJECT_MAX / 8];
	size_t n = 0;

	/* As far as it is mapped: the end of the object is unknown. */
	while (n * 8 < sizeof(words)) {
		size_t some = PAGE - (allocator + n * 8) % PAGE;

		if (some > sizeof(words) - n * 8)
			some = sizeof(words) - n * 8;
		if (vt_mem_read(src, allocator + n * 8, words + n, some))
			break;
		n += some / 8;
	}
	for (size_t i = 1; i + 3 <= n; i++) {
		int found = mutexes_of(src, words + i, mutexes);

		if (found)
			return found;
	}
	return 0;
}

int32_t vt_torch_mutex_tid(struct vt_memsrc *src, uint64_t mutex)
{
	struct mutex m;

	if (vt_mem_read(src, mutex, &m, sizeof(m)))
		return -1;
	return m.lock ? m.owner : 0;
}

/* ---- judgement ---- */

struct sums {
	uint64_t bytes[VT_BLOCK_UNMAPPED];
	uint64_t blocks[VT_BLOCK_UNMAPPED];
};

/*
 * PyTorch's counters of its work: if they are equal, it did nothing in between. The program can
 * reset peaks.
 */
static bool nothing_happened(const struct vt_torch_stats *a, const struct vt_torch_stats *b)
{
	const struct vt_torch_stat *x = &a->allocation, *y = &b->allocation;

	_Static_assert(offsetof(struct vt_torch_stats, num_alloc_retries) ==
			       9 * sizeof(struct vt_torch_stat),
		       "nine in a row");
	for (int i = 0; i < 9; i++)
		if (x[i].current != y[i].current || x[i].allocated != y[i].allocated ||
		    x[i].freed != y[i].freed)
			return false;
	return true;
}

static const char *check_block(const struct vt_block_rec *b, bool first, uint64_t *end)
{
	if (b->state >= VT_BLOCK_UNMAPPED)
		return "a block has no known state";
	if (!b->size || (!first && b->addr < *end))
		return "a block lies in the one before it";
	if (!(b->flags & VT_BLOCK_SEGMENT_START) && (first || b->addr != *end))
		return "a segment has a gap";
	if (b->state == VT_BLOCK_ALLOCATED && b->requested > b->size)
		return "a block is smaller than what was asked for";
	return __builtin_add_overflow(b->addr, b->size, end) ? "a block has an impossible size" :
							       NULL;
}

static bool equals(uint64_t sum, const struct vt_torch_stat *counter)
{
	return counter->current >= 0 && sum == (uint64_t)counter->current;
}

static const char *check_sums(const struct sums *sums, const struct vt_torch_stats *stats)
{
	const uint64_t *bytes = sums->bytes, *blocks = sums->blocks;
	uint64_t active = bytes[VT_BLOCK_ALLOCATED] + bytes[VT_BLOCK_AWAITING_FREE];

	if (!equals(bytes[VT_BLOCK_ALLOCATED], &stats->allocated_bytes) ||
	    !equals(active, &stats->active_bytes) ||
	    !equals(active + bytes[VT_BLOCK_CACHED], &stats->reserved_bytes))
		return "the blocks' sizes do not add up to PyTorch's counters";
	if (!equals(blocks[VT_BLOCK_ALLOCATED], &stats->allocation) ||
	    !equals(blocks[VT_BLOCK_ALLOCATED] + blocks[VT_BLOCK_AWAITING_FREE], &stats->active))
		return "PyTorch's counters are of another number of blocks";
	return NULL;
}

uint64_t vt_torch_judge(const struct vt_block_rec *recs, uint64_t n, int device,
			const struct vt_torch_stats *before, const struct vt_torch_stats *after,
			struct vt_torch_device_result *result)
{
	struct sums sums = { 0 };
	const char *why = NULL;
	uint64_t i = 0, end = 0;

	*result = (struct vt_torch_device_result){ .device = device,
						   .have_stats = 1,
						   .stats = *after };
	for (; i < n && recs[i].device == device; i++) {
		const struct vt_block_rec *b = &recs[i];

		why = why ? why : check_block(b, i == 0, &end);
		if (why)
			continue; /* the device's others are not the next one's */
		sums.bytes[b->state] += b->size;
		sums.blocks[b->state]++;
		result->segments += (b->flags & VT_BLOCK_SEGMENT_START) != 0;
	}
	result->blocks = i;
	memcpy(result->bytes, sums.bytes, sizeof(sums.bytes));
	if (!why)
		why = check_sums(&sums, after);
	if (why)
		result->result = nothing_happened(before, after) ? VT_WALK_REFUSED :
								   VT_WALK_UNSTABLE;
	result->certain = !why;
	snprintf(result->why, sizeof(result->why), "%s", why ? why : "");
	return i;
}
