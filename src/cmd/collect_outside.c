/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PyTorch's allocator walked from outside, where there was no walk inside. The target stands still only while its blocks are
 * copied: memory for the copy is made ready before, and the copy is ordered, checked and summed up after the threads run again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "cmd/collect.h"

/* For all devices: the target stands still meanwhile. */
#define READ_DEADLINE_NS (2 * VT_NS_PER_S)
#define MAX_BLOCKS 2000000
#define SPARE_BLOCKS 1024
#define COUNT_ATTEMPTS 8 /* while the target runs, a count can fail that the next one passes */

struct device {
	struct vt_torch_scratch scratch;
	struct vt_torch_walk *walk; /* read, not finished */
	struct vt_torch_device_result result;
};

struct vt_collect_outside {
	struct device devices[VT_TORCH_MAX_DEVICES];
	int n;
	bool read;
	uint64_t ns;
};

/* Records on the heap, for a walk from outside. */
struct heap_sink {
	struct vt_torch_sink sink;
	struct vt_block_rec *records;
	size_t n, capacity;
};

static struct vt_block_rec *heap_reserve(struct vt_torch_sink *sink, uint64_t n)
{
	struct heap_sink *heap = (struct heap_sink *)sink;

	if (n > MAX_BLOCKS - heap->n)
		return NULL;
	if (heap->n + n > heap->capacity) {
		size_t capacity = heap->capacity * 2 > heap->n + n ? heap->capacity * 2 : heap->n + n;
		struct vt_block_rec *records = realloc(heap->records, capacity * sizeof(*records));

		if (!records)
			return NULL;
		heap->records = records;
		heap->capacity = capacity;
	}

	struct vt_block_rec *room = heap->records + heap->n;

	heap->n += n;
	return room;
}

static void heap_release(struct vt_block_rec *blocks, size_t n)
{
	(void)n;
	free(blocks);
}

/* The driver runs threads of its own in a process that uses it ("cuda-EvtHandlr"); fork() does not copy threads. */
static bool has_driver_thread(const struct vt_collect *c)
{
	struct vt_thread_list list = { 0 };
	bool found = false;

	VT_ERROR struct vt_error *err = vt_thread_list_init(&list, c->proc.pid);

	for (size_t i = 0; !err && i < list.threads.n; i++)
		found |= !strncmp(list.threads.data[i].name, "cuda", 4);
	vt_thread_list_deinit(&list);
	return found;
}

/*
 * Without an answer of the driver: the parent has the same DeviceCachingAllocators at the same addresses when fork() copied
 * them. (Two processes that each made their own after a fork() could agree, too; then both have the driver's threads. The
 * mappings of the devices say nothing: a forked child has them as well, driver 580.)
 */
static bool looks_inherited(const struct vt_collect *c)
{
	uint64_t ours[VT_TORCH_MAX_DEVICES], theirs[VT_TORCH_MAX_DEVICES];
	struct vt_live *parent = NULL;
	bool same = false;

	if (c->cuda_asked || c->proc.ppid <= 0)
		return false;

	VT_ERROR struct vt_error *err = vt_live_create(c->proc.ppid, &parent);

	if (!err) {
		int n = vt_torch_devices(vt_live_source(c->live), &c->torch.layout, c->torch.allocator, ours);

		same = n > 0 &&
		       vt_torch_devices(vt_live_source(parent), &c->torch.layout, c->torch.allocator, theirs) == n &&
		       !memcmp(ours, theirs, (size_t)n * sizeof(ours[0]));
	}
	vt_live_destroy(parent);
	return same && !has_driver_thread(c);
}

static int64_t count_blocks(struct vt_collect *c, struct vt_memsrc *src, uint64_t dca)
{
	int64_t count = -1;

	for (int attempt = 0; count < 0 && attempt < COUNT_ATTEMPTS; attempt++)
		count = vt_torch_count_blocks(src, &c->torch.layout, dca);
	return count;
}

/* Scratch for so many blocks and some more, its pages present. False: there is no memory for it. */
static bool make_scratch(struct device *device, int64_t n_blocks)
{
	uint64_t room = (uint64_t)n_blocks + (uint64_t)n_blocks / 8 + SPARE_BLOCKS;
	uint64_t size = vt_torch_scratch_size(room);
	void *base;

	if (device->scratch.size >= vt_torch_scratch_size((uint64_t)n_blocks))
		return true;
	if (device->scratch.base)
		munmap(device->scratch.base, device->scratch.size);
	base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	device->scratch = (struct vt_torch_scratch){ base == MAP_FAILED ? NULL : base, base == MAP_FAILED ? 0 : size };
	return device->scratch.base != NULL;
}

void vt_collect_outside_prepare(struct vt_collect *c)
{
	struct vt_memsrc *src = vt_live_source(c->live);
	uint64_t dcas[VT_TORCH_MAX_DEVICES];
	int n;

	if (c->inside_walk_done || c->torch_inherited)
		return;
	if (c->torch.backend == VT_TORCH_NATIVE && looks_inherited(c)) {
		vt_collect_torch_inherited(c);
		return;
	}
	c->outside = calloc(1, sizeof(*c->outside));
	if (!c->outside || c->torch.backend != VT_TORCH_NATIVE)
		return;
	n = vt_torch_devices(src, &c->torch.layout, c->torch.allocator, dcas);
	for (int i = 0; i < n; i++) {
		int64_t count = count_blocks(c, src, dcas[i]);

		if (count >= 0 && count <= MAX_BLOCKS) /* without it, or when more came: made while the target stands still */
			make_scratch(&c->outside->devices[i], count);
	}
}

static void read_one(struct vt_collect *c, struct vt_memsrc *src, uint64_t dca, int ordinal, uint64_t deadline_ns)
{
	struct device *device = &c->outside->devices[ordinal];
	struct vt_torch_device_result *result = &device->result;
	struct vt_torch_walk_limits limits = { .max_blocks = MAX_BLOCKS, .deadline_ns = deadline_ns, .now_ns = vt_now_ns };
	int64_t count = count_blocks(c, src, dca);
	bool was_coherent = src->coherent;

	*result = (struct vt_torch_device_result){ .device = ordinal, .allocator = dca };
	if (count < 0 || count > MAX_BLOCKS || !make_scratch(device, count)) {
		result->result = VT_WALK_REFUSED;
		snprintf(result->why, sizeof(result->why), "%s",
			 count < 0	    ? "the block tables cannot be read" :
			 count > MAX_BLOCKS ? "too many blocks" :
					      "not enough memory here");
		return;
	}
	result->owner_tid = vt_torch_mutex_owner(src, &c->torch.layout, dca);
	if (result->owner_tid != 0) {
		/* Its owner may be half-way through a change: nothing is taken on trust. */
		result->lock = VT_LOCK_HELD_BY;
		src->coherent = false;
	}
	device->walk = vt_torch_walk_read(src, &c->torch.layout, dca, ordinal, &limits, &device->scratch, result);
	src->coherent = was_coherent;
}

void vt_collect_outside_read(struct vt_collect *c)
{
	struct vt_memsrc *src = vt_live_source(c->live);
	uint64_t dcas[VT_TORCH_MAX_DEVICES];
	uint64_t start = vt_now_ns();

	if (c->inside_walk_done || c->torch_inherited)
		return;
	vt_collect_find_torch_again(c);
	if (c->torch.backend != VT_TORCH_NATIVE)
		return;
	if (!c->outside) {
		vt_model_diag(c->model, VT_DIAG_MISSING, "torch", "nomem", "the blocks are missing: not enough memory here");
		return;
	}

	int n = vt_torch_devices(src, &c->torch.layout, c->torch.allocator, dcas);

	if (n < 0) {
		vt_model_diag(c->model, VT_DIAG_MISSING, "torch", "unreadable", "the allocator's list of devices is unreadable");
		return;
	}
	for (int i = 0; i < n; i++)
		read_one(c, src, dcas[i], i, start + READ_DEADLINE_NS);
	c->outside->n = n;
	c->outside->read = true;
	c->outside->ns = vt_now_ns() - start;
}

static void finish(struct vt_collect *c)
{
	struct vt_torch_device_result results[VT_TORCH_MAX_DEVICES];
	struct heap_sink heap = { .sink.reserve = heap_reserve };
	uint64_t start = vt_now_ns();

	for (int i = 0; i < c->outside->n; i++) {
		struct device *device = &c->outside->devices[i];
		size_t before = heap.n;

		if (device->walk)
			vt_torch_walk_finish(device->walk, &heap.sink);
		/* A refused walk may have asked for room that it did not fill. */
		heap.n = before + device->result.blocks;
		results[i] = device->result;
	}
	c->model->blocks = heap.records;
	c->model->n_blocks = heap.n;
	c->model->blocks_release = heap_release;
	c->model->torch_method = VT_METHOD_OUTSIDE;
	vt_collect_add_allocators(c, VT_METHOD_OUTSIDE, results, (size_t)c->outside->n);
	c->model->timing.walk_ms = (double)(c->outside->ns + vt_now_ns() - start) / VT_NS_PER_MS;
}

void vt_collect_outside_finish(struct vt_collect *c)
{
	if (!c->outside)
		return;
	if (c->outside->read)
		finish(c);
	for (int i = 0; i < VT_TORCH_MAX_DEVICES; i++)
		if (c->outside->devices[i].scratch.base)
			munmap(c->outside->devices[i].scratch.base, c->outside->devices[i].scratch.size);
	free(c->outside);
	c->outside = NULL;
}
