/* SPDX-License-Identifier: Apache-2.0 */
/* PyTorch's allocator into the model: results of a walk, and the walk from outside where there was none inside. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cmd/collect.h"

/* The target runs while its layout is looked for, so a look can fail that the next one passes. */
#define FIND_ATTEMPTS 8

/* For all devices: the target stands still meanwhile. */
#define OUTSIDE_WALK_DEADLINE_NS (2 * VT_NS_PER_S)
#define OUTSIDE_MAX_BLOCKS 2000000
#define SPARE_BLOCKS 1024

static const char *const backend_names[] = {
	[VT_TORCH_ABSENT] = "not loaded",
	[VT_TORCH_UNUSED] = "not initialised",
	[VT_TORCH_NATIVE] = "native",
	[VT_TORCH_ASYNC] = "cudaMallocAsync",
	[VT_TORCH_PLUGGABLE] = "pluggable",
	[VT_TORCH_UNKNOWN] = "refused",
};

static void find_once(struct vt_collect *c)
{
	struct vt_model *model = c->model;
	struct vt_torch_found found = { 0 };
	/* Not the cached source: while the target runs, what one try read would serve the next. */
	struct vt_error *err = vt_torch_find(&c->modules, &c->maps, vt_live_source(c->live), &found);

	if (err) {
		found.backend = VT_TORCH_UNKNOWN;
		snprintf(found.why, sizeof(found.why), "%s", err->message);
		vt_error_destroy(err);
	}
	c->torch = found;
	model->torch_state = backend_names[found.backend];
	model->versions.torch = vt_collect_copy(c, found.version, sizeof(found.version));
	model->versions.torch_layout =
		found.backend == VT_TORCH_NATIVE ? vt_collect_copy(c, found.layout.name, sizeof(found.layout.name)) : "";
}

void vt_collect_find_torch(struct vt_collect *c)
{
	for (int attempt = 0; attempt < FIND_ATTEMPTS; attempt++) {
		find_once(c);
		if (c->torch.backend != VT_TORCH_UNKNOWN)
			break;
	}
	if (c->torch.backend == VT_TORCH_ASYNC || c->torch.backend == VT_TORCH_PLUGGABLE)
		vt_model_diag(c->model, VT_DIAG_MISSING, "torch", "backend-not-native",
			      "PyTorch uses its %s backend, whose blocks cannot be listed", c->model->torch_state);
}

/* The last look, while the target stands still. */
static void find_again(struct vt_collect *c)
{
	if (c->torch.backend == VT_TORCH_UNKNOWN)
		find_once(c);
	if (c->torch.backend == VT_TORCH_UNKNOWN)
		vt_model_diag(c->model, VT_DIAG_MISSING, "torch", "layout-refused",
			      "PyTorch's allocator is not shown: its layout is not understood (%s); nothing was guessed",
			      c->torch.why);
}

static const char *thread_name(struct vt_collect *c, pid_t tid)
{
	struct vt_thread_info info = { 0 };
	const char *name = NULL;

	if (tid > 0) {
		struct vt_error *err = vt_thread_info_read(&info, c->proc.pid, tid);

		if (!err)
			name = vt_arena_strdup(&c->model->arena, info.name);
		vt_error_destroy(err);
	}
	return name ? name : "";
}

/* What is wrong with the blocks themselves is said by vt_model_account(). */
static void say_who_holds_the_lock(struct vt_collect *c, const struct vt_model_allocator *allocator)
{
	const struct vt_torch_device_result *r = &allocator->result;

	if (r->lock != VT_LOCK_HELD_BY)
		return;
	vt_model_diag(c->model, VT_DIAG_NOTE, "torch", "lock-held",
		      "the allocator's lock of GPU %d is held by thread %d (%s): read without it, %s", allocator->device,
		      r->owner_tid, allocator->owner_name,
		      r->result == VT_WALK_COMPLETE ? "and every sum agrees" : "so what did not fit is left out");
}

void vt_collect_add_allocators(struct vt_collect *c, enum vt_method method, const struct vt_torch_device_result *results,
			       size_t n)
{
	size_t first = 0;

	for (size_t i = 0; i < n; i++) {
		const struct vt_torch_device_result *r = &results[i];
		struct vt_model_allocator *allocator = vt_vec_append(&c->model->allocators);

		if (!allocator || r->blocks > c->model->n_blocks - first) {
			vt_model_diag(c->model, VT_DIAG_MISSING, "torch", "records", "block records of GPU %zu are missing", i);
			if (allocator)
				c->model->allocators.n--;
			return;
		}
		*allocator = (struct vt_model_allocator){
			.device = r->device,
			.method = method,
			.result = *r,
			.first_block = first,
			.n_blocks = r->blocks,
			.owner_name = thread_name(c, r->owner_tid),
		};
		allocator->result.why[sizeof(r->why) - 1] = '\0';
		first += r->blocks;
		say_who_holds_the_lock(c, allocator);
	}
}

/* Records on the heap, for a walk from outside. */
struct heap_sink {
	struct vt_torch_sink sink;
	struct vt_block_rec *records;
	size_t n, capacity;
};

static struct vt_block_rec *heap_reserve(struct vt_torch_sink *sink, uint64_t n)
{
	struct heap_sink *heap = (struct heap_sink *)sink;

	if (n > OUTSIDE_MAX_BLOCKS - heap->n)
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

void vt_collect_torch_inherited(struct vt_collect *c)
{
	c->torch_inherited = true;
	c->model->torch_state = "inherited";
	vt_model_diag(c->model, VT_DIAG_NOTE, "torch", "inherited",
		      "PyTorch's allocator in this process is the copy that fork() made of the parent's (process %d): its blocks are "
		      "the parent's, this process holds none",
		      c->proc.ppid);
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

	for (int attempt = 0; count < 0 && attempt < FIND_ATTEMPTS; attempt++)
		count = vt_torch_count_blocks(src, &c->torch.layout, dca);
	return count;
}

static void walk_one(struct vt_collect *c, struct vt_memsrc *src, uint64_t dca, int device, uint64_t deadline_ns,
		     struct heap_sink *heap, struct vt_torch_device_result *result)
{
	struct vt_torch_walk_limits limits = {
		.max_blocks = OUTSIDE_MAX_BLOCKS,
		.deadline_ns = deadline_ns,
		.now_ns = vt_now_ns,
	};
	int64_t count = count_blocks(c, src, dca);
	/* A target that runs (it could not be stopped) may have more by then. */
	uint64_t room = count > 0 ? (uint64_t)count + (uint64_t)count / 8 + SPARE_BLOCKS : SPARE_BLOCKS;
	struct vt_torch_scratch scratch = { .size = vt_torch_scratch_size(room) };
	VT_FREE void *base = aligned_alloc(64, (scratch.size + 63) & ~UINT64_C(63));
	bool was_coherent = src->coherent;

	*result = (struct vt_torch_device_result){ .device = device, .allocator = dca };
	if (count < 0 || count > OUTSIDE_MAX_BLOCKS || !base) {
		result->result = VT_WALK_REFUSED;
		snprintf(result->why, sizeof(result->why), "%s",
			 count < 0 ? "the block tables cannot be read" : "too many blocks");
		return;
	}
	scratch.base = base;
	result->owner_tid = vt_torch_mutex_owner(src, &c->torch.layout, dca);
	if (result->owner_tid != 0) {
		/* Its owner may be half-way through a change: nothing is taken on trust. */
		result->lock = VT_LOCK_HELD_BY;
		src->coherent = false;
	}
	vt_torch_walk_device(src, &c->torch.layout, dca, device, &limits, &scratch, &heap->sink, result);
	src->coherent = was_coherent;
}

void vt_collect_torch_outside(struct vt_collect *c)
{
	struct vt_memsrc *src = vt_live_source(c->live);
	struct vt_torch_device_result results[VT_TORCH_MAX_DEVICES] = { 0 };
	struct heap_sink heap = { .sink.reserve = heap_reserve };
	uint64_t dcas[VT_TORCH_MAX_DEVICES];
	uint64_t start = vt_now_ns();

	if (c->inside_walk_done || c->torch_inherited)
		return;
	find_again(c);
	if (c->torch.backend != VT_TORCH_NATIVE)
		return;
	if (looks_inherited(c)) {
		vt_collect_torch_inherited(c);
		return;
	}

	int n = vt_torch_devices(src, &c->torch.layout, c->torch.allocator, dcas);

	if (n < 0) {
		vt_model_diag(c->model, VT_DIAG_MISSING, "torch", "unreadable", "the allocator's list of devices is unreadable");
		return;
	}
	for (int i = 0; i < n; i++) {
		size_t before = heap.n;

		walk_one(c, src, dcas[i], i, start + OUTSIDE_WALK_DEADLINE_NS, &heap, &results[i]);
		/* A refused walk may have asked for room that it did not fill. */
		heap.n = before + results[i].blocks;
	}
	c->model->blocks = heap.records;
	c->model->n_blocks = heap.n;
	c->model->blocks_release = heap_release;
	c->model->torch_method = VT_METHOD_OUTSIDE;
	vt_collect_add_allocators(c, VT_METHOD_OUTSIDE, results, (size_t)n);
	c->model->timing.walk_ms = (double)(vt_now_ns() - start) / VT_NS_PER_MS;
}
