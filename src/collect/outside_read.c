/* SPDX-License-Identifier: Apache-2.0 */
/* Reads one device's allocator once, and has the memory for that. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/huge.h"
#include "collect/outside.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* include/uapi/asm-generic/mman-common.h, Linux 5.14 */
#endif

#define PAGE 4096
#define SPARE_BLOCKS 1024
#define COUNT_ATTEMPTS 8 /* while the target runs, a count may fail and the next one pass */

static struct vt_block_rec *heap_reserve(struct vt_torch_sink *base, uint64_t n)
{
	struct vt_outside_sink *sink = (struct vt_outside_sink *)base;

	if (n > VT_OUTSIDE_MAX_BLOCKS - sink->n)
		return NULL;
	if (sink->n + n > sink->capacity) {
		size_t capacity = sink->capacity * 2 > sink->n + n ? sink->capacity * 2 :
								     sink->n + n;
		struct vt_block_rec *records = realloc(sink->records, capacity * sizeof(*records));

		if (!records)
			return NULL;
		vt_want_huge_pages(records, capacity * sizeof(*records));
		sink->records = records;
		sink->capacity = capacity;
	}

	struct vt_block_rec *room = sink->records + sink->n;

	sink->n += n;
	return room;
}

void vt_outside_sink_init(struct vt_outside_sink *sink)
{
	*sink = (struct vt_outside_sink){ .sink.reserve = heap_reserve };
}

int64_t vt_outside_count(struct vt_collect *c, struct vt_memsrc *src, uint64_t dca)
{
	int64_t count = -1;

	for (int attempt = 0; count < 0 && attempt < COUNT_ATTEMPTS; attempt++)
		count = vt_torch_count_blocks(src, &c->torch.layout, dca);
	return count;
}

struct vt_outside_count vt_outside_operations(const struct vt_collect *c, uint64_t dca)
{
	struct vt_torch_stat allocation;

	if (vt_mem_read(c->target.mem, dca + c->torch.layout.stats, &allocation,
			sizeof(allocation)))
		return (struct vt_outside_count){ 0 };
	return (struct vt_outside_count){
		.n = (uint64_t)allocation.allocated + (uint64_t)allocation.freed,
		.when_ns = vt_now_ns(),
	};
}

void *vt_outside_map_pages(size_t size)
{
	char *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED)
		return NULL;
	madvise(pages, size, MADV_DONTFORK);
	vt_want_huge_pages(pages, size);
	/* With MAP_POPULATE they would come before the wish. Not there before Linux 5.14. */
	if (madvise(pages, size, MADV_POPULATE_WRITE) && errno != ENOMEM) {
		for (size_t at = 0; at < size; at += PAGE)
			((volatile char *)pages)[at] = 0;
	}
	return pages;
}

bool vt_outside_make_scratch(struct vt_outside_device *device, int64_t n_blocks)
{
	uint64_t room = (uint64_t)n_blocks + (uint64_t)n_blocks / 8 + SPARE_BLOCKS;
	uint64_t size = vt_torch_scratch_size(room);
	void *base;

	if (device->scratch.size >= vt_torch_scratch_size((uint64_t)n_blocks))
		return true;
	if (device->scratch.base)
		munmap(device->scratch.base, device->scratch.size);
	base = vt_outside_map_pages(size);
	device->scratch = (struct vt_torch_scratch){ .base = base, .size = base ? size : 0 };
	return base;
}

void vt_outside_read(struct vt_collect *c, struct vt_outside_device *device, int ordinal,
		     uint64_t deadline_ns)
{
	struct vt_memsrc *src = c->target.mem;
	struct vt_torch_device_result *result = &device->result;
	struct vt_torch_walk_limits limits = { .max_blocks = VT_OUTSIDE_MAX_BLOCKS,
					       .deadline_ns = deadline_ns,
					       .now_ns = vt_now_ns };
	int64_t count = vt_outside_count(c, src, device->dca);
	bool was_coherent = src->coherent;

	device->walk = NULL;
	*result = (struct vt_torch_device_result){ .device = ordinal, .allocator = device->dca };
	vt_collect_recorded_listing(c, ordinal);
	if (count < 0 || count > VT_OUTSIDE_MAX_BLOCKS || !vt_outside_make_scratch(device, count)) {
		result->result = VT_WALK_REFUSED;
		snprintf(result->why, sizeof(result->why), "%s",
			 count < 0                     ? "the block tables cannot be read" :
			 count > VT_OUTSIDE_MAX_BLOCKS ? "too many blocks" :
							 "not enough memory here");
		return;
	}
	result->owner_tid =
		src->coherent ? vt_torch_mutex_owner(src, &c->torch.layout, device->dca) : 0;
	if (result->owner_tid != 0) {
		/* Its owner may be in the middle of a change: nothing is trusted. */
		result->lock = VT_LOCK_HELD_BY;
		src->coherent = false;
	}
	device->scratch.chunk = c->outside->chunk;
	device->scratch.chunk_size = VT_OUTSIDE_CHUNK;
	device->walk = vt_torch_walk_read(src, &c->torch.layout, device->dca, ordinal, &limits,
					  &device->scratch, result);
	src->coherent = was_coherent;
	c->model->timing.blocks_read_ms += (double)result->read_ns / VT_NS_PER_MS;
}
