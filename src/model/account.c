/* SPDX-License-Identifier: Apache-2.0 */
/* What follows from the facts of the model: totals, groups, checks, completeness. */
#include "model/account.h"
#include "model/awaiting.h"
#include "model/stream_deadlock.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/format.h"

/* ---- devices ---- */

static void check_device(struct vt_model *model, struct vt_model_device *device)
{
	if (!device->have_memory)
		return;
	if (device->free_bytes <= device->total_bytes &&
	    device->used_bytes == device->total_bytes - device->free_bytes)
		return;
	device->have_memory = false;
	device->why_no_memory = "the numbers that came back make no sense";
	vt_model_diag(model, VT_DIAG_MISSING, VT_STAGE_CUDA, "memory-nonsense",
		      "GPU %d: %" PRIu64 " bytes free of %" PRIu64 " makes no sense: not shown",
		      device->ordinal, device->free_bytes, device->total_bytes);
}

/*
 * Do not trust the helper: a pool cannot hold more than the device has, nor hand out more than it
 * holds.
 */
static void check_pools(struct vt_model *model, struct vt_model_device *device)
{
	for (size_t i = 0; i < device->n_pools; i++) {
		const struct vt_model_pool *pool = &device->pools[i];

		if (pool->used_bytes <= pool->reserved_bytes &&
		    pool->reserved_bytes < UINT64_MAX / VT_MODEL_MAX_POOLS &&
		    (!device->total_bytes || pool->reserved_bytes <= device->total_bytes))
			continue;
		device->pools_known = false;
		device->n_pools = 0;
		vt_model_diag(
			model, VT_DIAG_MISSING, VT_STAGE_CUDA, "pools-nonsense",
			"GPU %d: the numbers of the driver's memory pools make no sense: not shown",
			device->ordinal);
	}
}

/* ---- allocators ---- */

__attribute__((format(printf, 2, 3))) static void refuse(struct vt_model_allocator *a,
							 const char *format, ...)
{
	va_list args;

	a->result.result = VT_WALK_REFUSED;
	va_start(args, format);
	vsnprintf(a->result.why, sizeof(a->result.why), format, args);
	va_end(args);
}

/*
 * Checks everything that the totals rely on again, because the records may come from a helper in a
 * damaged process.
 */
static bool check_block(struct vt_model_allocator *a, const struct vt_block_rec *b)
{
	const char *why = NULL;
	uint64_t end;

	if (b->state > VT_BLOCK_UNMAPPED)
		why = "has no known state";
	else if (b->device != a->device)
		why = "is of another device";
	else if (b->size == 0 || __builtin_add_overflow(b->addr, b->size, &end))
		why = "has an impossible size";
	else if (b->state == VT_BLOCK_ALLOCATED && b->requested > b->size)
		why = "is smaller than what was asked for";
	if (why)
		refuse(a, "block 0x%" PRIx64 " %s", b->addr, why);
	return !why;
}

struct sums {
	uint64_t bytes[VT_BLOCK_UNMAPPED + 1];
	uint64_t blocks[VT_BLOCK_UNMAPPED + 1];
	uint64_t private_bytes[VT_BLOCK_UNMAPPED + 1];
	uint64_t private_blocks[VT_BLOCK_UNMAPPED + 1];
	uint64_t requested;
	uint64_t requested_unknown; /* allocated blocks without it */
	uint64_t largest_cached;
};

static bool add_block(struct sums *sums, const struct vt_block_rec *b)
{
	if (__builtin_add_overflow(sums->bytes[b->state], b->size, &sums->bytes[b->state]))
		return false;
	sums->blocks[b->state]++;
	if (b->flags & VT_BLOCK_PRIVATE_POOL) {
		sums->private_bytes[b->state] += b->size;
		sums->private_blocks[b->state]++;
	}
	if (b->state == VT_BLOCK_ALLOCATED) {
		sums->requested += b->requested;
		sums->requested_unknown += b->requested == 0;
	}
	if (b->state == VT_BLOCK_CACHED && b->size > sums->largest_cached)
		sums->largest_cached = b->size;
	return true;
}

/*
 * If a block does not follow the one before it, and no segment starts there, the walk has a gap.
 * The unmapped rest of an expandable segment is a separate run, but not a segment.
 */
static bool check_segments(const struct vt_model *model, struct vt_model_allocator *a)
{
	size_t end = a->first_block + a->n_blocks, next;
	uint64_t segments = 0;

	for (size_t i = a->first_block; i < end; i = next) {
		const struct vt_block_rec *b = &model->blocks[i];

		if (!(b->flags & VT_BLOCK_SEGMENT_START)) {
			refuse(a, "block 0x%" PRIx64 " does not continue the block before it",
			       b->addr);
			return false;
		}
		next = vt_model_segment_end(model, i, end);
		segments += b->state != VT_BLOCK_UNMAPPED;
	}
	if (segments != a->result.segments) {
		refuse(a, "the walk counted %" PRIu32 " segments, %" PRIu64 " arrived",
		       a->result.segments, segments);
		return false;
	}
	return true;
}

static bool sum_blocks(const struct vt_model *model, struct vt_model_allocator *a,
		       struct sums *sums)
{
	uint64_t reserved;

	if (a->first_block > model->n_blocks || a->n_blocks > model->n_blocks - a->first_block) {
		refuse(a, "%zu blocks were announced and did not arrive", a->n_blocks);
		return false;
	}
	for (size_t i = 0; i < a->n_blocks; i++) {
		const struct vt_block_rec *b = &model->blocks[a->first_block + i];

		if (!check_block(a, b))
			return false;
		if (!add_block(sums, b)) {
			refuse(a, "the blocks' sizes overflow");
			return false;
		}
	}
	if (__builtin_add_overflow(sums->bytes[VT_BLOCK_ALLOCATED],
				   sums->bytes[VT_BLOCK_AWAITING_FREE], &reserved) ||
	    __builtin_add_overflow(reserved, sums->bytes[VT_BLOCK_CACHED], &reserved)) {
		refuse(a, "the blocks' sizes overflow");
		return false;
	}
	return true;
}

static bool sums_agree(struct vt_model_allocator *a, const struct sums *sums)
{
	if (a->result.blocks != a->n_blocks) {
		refuse(a, "the walk counted %" PRIu64 " blocks, %zu arrived", a->result.blocks,
		       a->n_blocks);
		return false;
	}
	for (unsigned int state = 0; state <= VT_BLOCK_UNMAPPED; state++) {
		if (sums->bytes[state] == a->result.bytes[state])
			continue;
		refuse(a, "%s blocks add up to %" PRIu64 " bytes, the walk counted %" PRIu64,
		       vt_block_state_name((uint8_t)state), sums->bytes[state],
		       a->result.bytes[state]);
		return false;
	}
	return true;
}

static void keep_sums(struct vt_model_allocator *a, const struct sums *sums)
{
	a->allocated_bytes = sums->bytes[VT_BLOCK_ALLOCATED];
	a->awaiting_bytes = sums->bytes[VT_BLOCK_AWAITING_FREE];
	a->cached_bytes = sums->bytes[VT_BLOCK_CACHED];
	a->reserved_bytes = a->allocated_bytes + a->awaiting_bytes + a->cached_bytes;
	a->allocated_blocks = sums->blocks[VT_BLOCK_ALLOCATED];
	a->awaiting_blocks = sums->blocks[VT_BLOCK_AWAITING_FREE];
	a->cached_blocks = sums->blocks[VT_BLOCK_CACHED];
	a->largest_cached = sums->largest_cached;
	a->private_allocated_bytes = sums->private_bytes[VT_BLOCK_ALLOCATED];
	a->private_cached_bytes = sums->private_bytes[VT_BLOCK_CACHED];
	a->private_allocated_blocks = sums->private_blocks[VT_BLOCK_ALLOCATED];
	a->private_cached_blocks = sums->private_blocks[VT_BLOCK_CACHED];
	a->private_bytes = a->private_allocated_bytes + a->private_cached_bytes +
			   sums->private_bytes[VT_BLOCK_AWAITING_FREE];
	a->requested_bytes = sums->requested;
	a->requested_known = sums->requested_unknown == 0;
	if (a->requested_known)
		a->rounding_bytes = a->allocated_bytes - a->requested_bytes;
}

/*
 * Device memory that is used, but not by this allocator. The two numbers are read one after the
 * other, so they may not fit.
 */
static void find_other(struct vt_model *model, struct vt_model_allocator *a)
{
	const struct vt_model_device *device = vt_model_device(model, a->device);
	char reserved[VT_NUM_MAX], used[VT_NUM_MAX];

	if (!device || !device->have_memory)
		return;
	/* The kernel's figures are a gift: what they cannot tell was not asked for. */
	if (device->memory_counted &&
	    (device->memory_moved || device->used_bytes < a->reserved_bytes))
		return;
	if (device->memory_moved && a->reserved_bytes > 0) {
		vt_model_diag(
			model, VT_DIAG_MISSING, VT_STAGE_TORCH, "memory-moved",
			"GPU %d: its free memory changed while PyTorch's allocator was read, or could not be "
			"asked for again, so what else is on the device is not known; run it again",
			a->device);
		return;
	}
	if (device->used_bytes >= a->reserved_bytes) {
		a->other_known = true;
		a->other_bytes = device->used_bytes - a->reserved_bytes;
		return;
	}
	vt_model_diag(
		model, VT_DIAG_MISSING, VT_STAGE_TORCH, "does-not-add-up",
		"GPU %d: PyTorch has reserved %s, the driver says that %s are used: they were "
		"read at different moments, so what else is on the device is not known; run "
		"it again",
		a->device, vt_format_size(reserved, a->reserved_bytes),
		vt_format_size(used, device->used_bytes));
}

static void diagnose_walk(struct vt_model *model, const struct vt_model_allocator *a)
{
	/* .why may fill its array to the last byte. */
	int n = (int)strnlen(a->result.why, sizeof(a->result.why));
	const char *why = n ? a->result.why : "no reason given";

	n = n ? n : (int)strlen(why);

	/*
	 * A stopped process no longer changes, but the stop may have come in the middle of a
	 * change.
	 */
	const char *changing = model->core.path || model->held_by ?
				       "was being changed when the process was stopped" :
				       "changed while it was read";

	switch (a->result.result) {
	case VT_WALK_UNSTABLE:
		if (a->passes > 0) {
			vt_model_diag(
				model, VT_DIAG_MISSING, VT_STAGE_TORCH, "walk-unstable",
				"GPU %d: PyTorch's allocator was read %u times while the process ran, and no pass is certain to "
				"be of one moment (the best one: %" PRIu64
				" blocks dropped that did not fit; %.*s), so there are "
				"no exact totals; run it again%s",
				a->device, a->passes, a->result.dropped, n, why,
				model->no_stop ? ", or without --no-stop" : "");
			break;
		}
		vt_model_diag(model, VT_DIAG_MISSING, VT_STAGE_TORCH, "walk-unstable",
			      "GPU %d: PyTorch's allocator %s (%" PRIu64
			      " blocks did not fit and were dropped; %.*s), so there are no exact "
			      "totals%s",
			      a->device, changing, a->result.dropped, n, why, vt_try_again(model));
		break;
	case VT_WALK_TRUNCATED:
		vt_model_diag(model, VT_DIAG_MISSING, VT_STAGE_TORCH, "walk-truncated",
			      "GPU %d: the walk of PyTorch's allocator stopped early (%.*s), so "
			      "there are no totals",
			      a->device, n, why);
		break;
	default:
		vt_model_diag(model, VT_DIAG_MISSING, VT_STAGE_TORCH, "walk-refused",
			      "GPU %d: PyTorch's allocator failed a check (%.*s), so nothing of it "
			      "is shown",
			      a->device, n, why);
	}
}

static void account_allocator(struct vt_model *model, struct vt_model_allocator *a)
{
	struct sums sums = { 0 };

	/*
	 * Blocks of a refused walk are ignored. Blocks of other walks are at least sound one by
	 * one.
	 */
	if (a->result.result <= VT_WALK_TRUNCATED && a->result.result != VT_WALK_REFUSED &&
	    sum_blocks(model, a, &sums) && a->result.result == VT_WALK_COMPLETE)
		a->exact = sums_agree(a, &sums) && check_segments(model, a);
	if (a->exact) {
		keep_sums(a, &sums);
		find_other(model, a);
		vt_account_waits(a);
		return;
	}
	vt_account_waits(a);
	if (a->result.result > VT_WALK_TRUNCATED || a->result.result == VT_WALK_REFUSED) {
		a->result.result = VT_WALK_REFUSED;
		a->first_block = 0;
		a->n_blocks = 0;
	}
	diagnose_walk(model, a);
}

/* ---- groups ---- */

/* Indices + 1 into model.groups by hash, open addressing; 0 is empty. */
struct grouper {
	struct vt_model *model;
	uint32_t *slots;
	size_t n_slots; /* power of two */
	/* sizes are the target's choice: it must not be able to choose collisions */
	uint64_t seed;
};

static uint64_t mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}

static uint64_t hash_group(const struct grouper *grouper, const struct vt_model_group *g)
{
	uint64_t hash = mix(grouper->seed, g->size);

	hash = mix(hash, g->stream);
	hash = mix(hash, g->pool);
	hash = mix(hash, (uint64_t)(uint32_t)g->device << 8 | (uint64_t)g->state << 4 |
				 (uint64_t)g->small_pool << 2 | (uint64_t)g->private_pool << 1 |
				 (uint64_t)g->expandable);
	return hash ^ hash >> 32;
}

static bool same_group(const struct vt_model_group *a, const struct vt_model_group *b)
{
	return a->size == b->size && a->stream == b->stream && a->pool == b->pool &&
	       a->device == b->device && a->state == b->state && a->small_pool == b->small_pool &&
	       a->private_pool == b->private_pool && a->expandable == b->expandable;
}

/* The slot that holds the group, or the empty one where it belongs. */
static uint32_t *find_slot(const struct grouper *grouper, const struct vt_model_group *g)
{
	size_t i = (size_t)hash_group(grouper, g);

	for (;; i++) {
		uint32_t *slot = &grouper->slots[i & (grouper->n_slots - 1)];

		if (*slot == 0 || same_group(&grouper->model->groups.data[*slot - 1], g))
			return slot;
	}
}

static bool grow_slots(struct grouper *grouper)
{
	size_t n = grouper->n_slots ? grouper->n_slots * 2 : 256;
	uint32_t *slots = calloc(n, sizeof(*slots));

	if (!slots)
		return false;
	free(grouper->slots);
	grouper->slots = slots;
	grouper->n_slots = n;
	for (size_t i = 0; i < grouper->model->groups.n; i++)
		*find_slot(grouper, &grouper->model->groups.data[i]) = (uint32_t)(i + 1);
	return true;
}

static bool group_block(struct grouper *grouper, const struct vt_block_rec *b)
{
	const struct vt_model_group key = {
		.device = b->device,
		.state = b->state,
		.small_pool = b->flags & VT_BLOCK_SMALL_POOL,
		.private_pool = b->flags & VT_BLOCK_PRIVATE_POOL,
		.expandable = b->flags & VT_BLOCK_EXPANDABLE,
		.pool = b->pool,
		.stream = b->stream,
		.size = b->size,
	};
	uint32_t *slot = find_slot(grouper, &key);

	if (*slot == 0) {
		struct vt_model_group *added;

		if (grouper->model->groups.n >= UINT32_MAX - 1)
			return false;
		if ((grouper->model->groups.n + 1) * 4 > grouper->n_slots * 3) {
			if (!grow_slots(grouper))
				return false;
			slot = find_slot(grouper, &key);
		}
		added = vt_vec_append(&grouper->model->groups);
		if (!added)
			return false;
		*added = key;
		*slot = (uint32_t)grouper->model->groups.n;
	}

	struct vt_model_group *g = &grouper->model->groups.data[*slot - 1];

	g->blocks++;
	g->bytes += b->size;
	return true;
}

#define COMPARE(x, y)                              \
	do {                                       \
		if ((x) != (y))                    \
			return (x) < (y) ? -1 : 1; \
	} while (0)

/* Total order, so that the output does not depend on the hash. */
static int compare_groups(const void *pa, const void *pb)
{
	const struct vt_model_group *a = pa, *b = pb;

	COMPARE(b->bytes, a->bytes);
	COMPARE(a->device, b->device);
	COMPARE(a->state, b->state);
	COMPARE(b->size, a->size);
	COMPARE(a->stream, b->stream);
	COMPARE(a->pool, b->pool);
	COMPARE(a->private_pool, b->private_pool);
	COMPARE(a->small_pool, b->small_pool);
	COMPARE(a->expandable, b->expandable);
	return 0;
}

static bool group_blocks(struct vt_model *model)
{
	struct grouper grouper = { .model = model, .seed = vt_now_ns() };
	bool ok = grow_slots(&grouper);

	for (size_t i = 0; ok && i < model->allocators.n; i++) {
		const struct vt_model_allocator *a = &model->allocators.data[i];

		for (size_t k = 0; ok && a->exact && k < a->n_blocks; k++) {
			const struct vt_block_rec *b = &model->blocks[a->first_block + k];

			ok = b->state == VT_BLOCK_UNMAPPED || group_block(&grouper, b);
		}
	}
	free(grouper.slots);
	if (!ok)
		model->groups.n = 0; /* half of the groups would be wrong numbers */
	else if (model->groups.n > 1)
		qsort(model->groups.data, model->groups.n, sizeof(*model->groups.data),
		      compare_groups);
	return ok;
}

/* ---- completeness ---- */

static bool learned_something(const struct vt_model *model)
{
	for (size_t i = 0; i < model->devices.n; i++)
		if (model->devices.data[i].have_memory)
			return true;
	for (size_t i = 0; i < model->allocators.n; i++)
		if (model->allocators.data[i].exact || model->allocators.data[i].n_blocks > 0)
			return true;
	if (model->pinned.n_blocks > 0)
		return true;
	for (size_t i = 0; i < model->threads.n; i++) {
		const struct vt_model_thread *t = &model->threads.data[i];

		if (t->stack.n_frames > 0 || t->syscall || t->waits.code || t->verdict.code)
			return true;
	}
	return false;
}

static void find_completeness(struct vt_model *model)
{
	for (size_t i = 0; i < model->diags.n; i++)
		if (model->diags.data[i].level == VT_DIAG_MISSING)
			model->completeness = VT_PARTIAL;
	if (model->completeness == VT_PARTIAL && !learned_something(model))
		model->completeness = VT_NOTHING;
}

bool vt_model_account(struct vt_model *model)
{
	bool ok = true;

	for (size_t i = 0; i < model->devices.n; i++) {
		check_device(model, &model->devices.data[i]);
		check_pools(model, &model->devices.data[i]);
	}
	for (size_t i = 0; i < model->allocators.n; i++)
		account_allocator(model, &model->allocators.data[i]);
	vt_account_pinned(model);
	if (!group_blocks(model)) {
		vt_model_diag(model, VT_DIAG_MISSING, VT_STAGE_TORCH, "no-memory",
			      "not enough memory here to group the blocks");
		ok = false;
	}
	if (!vt_model_streams_account(model)) {
		vt_model_diag(model, VT_DIAG_MISSING, VT_STAGE_CUDA, "no-memory",
			      "not enough memory here for all streams");
		ok = false;
	}
	if (!vt_find_stream_deadlocks(model)) {
		vt_model_diag(model, VT_DIAG_MISSING, VT_STAGE_RECORDER, "no-memory",
			      "not enough memory here to compare what streams wait for");
		ok = false;
	}
	vt_model_count_owners(model);
	vt_account_libpools(model);
	if (!vt_account_ledger(model)) {
		vt_model_diag(model, VT_DIAG_MISSING, VT_STAGE_CUDA, "no-memory",
			      "not enough memory here to sum up the driver's allocations");
		ok = false;
	}
	if (!vt_account_host(model)) {
		vt_model_diag(model, VT_DIAG_MISSING, VT_STAGE_PINNED, "no-memory",
			      "not enough memory here to sum up the host's memory");
		ok = false;
	}
	if (!vt_find_sites(model)) {
		vt_model_diag(model, VT_DIAG_MISSING, VT_STAGE_TORCH, "no-memory",
			      "not enough memory here to group the recorded backtraces");
		ok = false;
	}
	if (!vt_account_recorder(model)) {
		vt_model_diag(model, VT_DIAG_MISSING, VT_STAGE_RECORDER, "no-memory",
			      "not enough memory here to group the driver's allocations");
		ok = false;
	}
	if (!vt_group_threads(model)) {
		vt_model_diag(model, VT_DIAG_MISSING, VT_STAGE_STACKS, "no-memory",
			      "not enough memory here to group the threads");
		ok = false;
	}
	vt_account_oom(model);
	find_completeness(model);
	ok = vt_make_headlines(model) && ok;
	if (!ok && model->completeness == VT_COMPLETE)
		model->completeness = VT_PARTIAL;
	return ok;
}
