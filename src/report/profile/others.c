/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What libraries other than PyTorch have in use on devices. With the driver's list of allocations
 * it is what the report's lines have: of a pool that is read what it has handed out, of NCCL what
 * its communicators hold, and what nobody claims. Without that list there are the pools' own books
 * and what was recorded of the driver's allocations.
 */
#include <stdio.h>

#include "report/profile/building.h"
#include "report/state_words.h"

static struct vt_profile_sample new_sample(struct vt_building *b, int device, const char *library)
{
	const struct vt_building_device *d = vt_building_device(b, device);
	struct vt_profile_sample sample = { .group = d->group, .beside = b->has_torch, .count = 1 };

	sample.labels[VT_LABEL_LIBRARY] = vt_profile_text(b->profile, library);
	sample.labels[VT_LABEL_DEVICE] = d->label;
	return sample;
}

/* ---- pools ---- */

/* "[NCCL]" */
static uint32_t node_of_library(struct vt_building *b, unsigned int kind)
{
	uint32_t word = vt_profile_textf(b->profile, "[%s]", vt_libpool_library(kind));
	struct vt_profile_frame frame = { .name = word };

	return vt_profile_call(b->profile, VT_PROFILE_ROOT, vt_profile_frame(b->profile, &frame));
}

/* What the library says of it; else who holds it. */
static void add_chunk(struct vt_building *b, size_t pool, size_t k)
{
	const struct vt_model_libpool *of = &b->model->libpools.pools.data[pool];
	const struct vt_libpool_chunk *chunk = &of->chunks[k];
	const struct vt_model_array *array =
		vt_model_chunk_owner(b->model, (uint32_t)pool, (uint32_t)k);
	struct vt_profile_sample sample =
		new_sample(b, of->device, vt_libpool_kind_name(of->rec.kind));

	sample.size = sample.bytes = chunk->size;
	sample.node = node_of_library(b, of->rec.kind);
	if (chunk->note)
		sample.node = vt_profile_call(b->profile, sample.node,
					      vt_profile_word(b->profile, chunk->note));
	else if (array)
		sample.node = vt_owner_path(b->profile, sample.node, &array->owner, true);
	if (array)
		vt_owner_labels(b->profile, &array->owner, sample.labels);
	vt_profile_add(b->profile, &sample);
}

/* A communicator of NCCL's uses all that it holds. */
static void add_region(struct vt_building *b, const struct vt_model_libpool *pool, size_t k)
{
	struct vt_profile_sample sample =
		new_sample(b, pool->device, vt_libpool_kind_name(pool->rec.kind));

	sample.size = sample.bytes = pool->regions[k].size;
	sample.node = node_of_library(b, pool->rec.kind);
	if (*pool->rec.name)
		sample.node = vt_profile_call(b->profile, sample.node,
					      vt_profile_word(b->profile, pool->rec.name));
	vt_profile_add(b->profile, &sample);
}

static uint64_t used_in_pieces(const struct vt_model_libpool *pool)
{
	bool whole = pool->rec.kind == VT_LIBPOOL_NCCL;
	uint64_t bytes = 0;

	for (size_t k = 0; k < pool->n_regions && whole; k++)
		bytes += pool->regions[k].size;
	for (size_t k = 0; k < pool->n_chunks && !whole; k++)
		bytes += pool->chunks[k].in_use ? pool->chunks[k].size : 0;
	return bytes;
}

static void add_pieces(struct vt_building *b, size_t pool)
{
	const struct vt_model_libpool *of = &b->model->libpools.pools.data[pool];
	bool whole = of->rec.kind == VT_LIBPOOL_NCCL;

	for (size_t k = 0; k < of->n_regions && whole; k++)
		add_region(b, of, k);
	for (size_t k = 0; k < of->n_chunks && !whole; k++)
		if (of->chunks[k].in_use)
			add_chunk(b, pool, k);
}

/* What is in use, but in no block that is known; it counts as none. */
static void add_remainder(struct vt_building *b, int device, unsigned int kind, uint64_t bytes)
{
	const char *word = kind == VT_LIBPOOL_NCCL ? "whole pages of the driver" :
						     "in blocks that are not known";
	struct vt_profile_sample sample = new_sample(b, device, vt_libpool_kind_name(kind));

	sample.count = 0;
	sample.bytes = bytes;
	sample.node = vt_profile_call(b->profile, node_of_library(b, kind),
				      vt_profile_word(b->profile, word));
	vt_profile_add(b->profile, &sample);
}

static bool is_claimed(const struct vt_model_libpool *pool, int device, unsigned int kind)
{
	return pool->rec.kind == kind && !pool->rec.is_host && pool->device == device &&
	       pool->claimed_bytes;
}

/* bytes: what the report says that all pools of this kind have in use on the device. */
static void add_pools(struct vt_building *b, int device, unsigned int kind, uint64_t bytes)
{
	const struct vt_model_libpools *libpools = &b->model->libpools;
	uint64_t found = 0;

	for (size_t i = 0; i < libpools->pools.n; i++)
		if (is_claimed(&libpools->pools.data[i], device, kind))
			found += used_in_pieces(&libpools->pools.data[i]);
	if (found > bytes)
		found = 0; /* a part of them is another pool's, too */
	for (size_t i = 0; i < libpools->pools.n && found; i++)
		if (is_claimed(&libpools->pools.data[i], device, kind))
			add_pieces(b, i);
	if (bytes > found)
		add_remainder(b, device, kind, bytes - found);
}

/* ---- what nobody claims ---- */

static bool has_trace(const struct vt_model *model, uint32_t trace)
{
	return !VT_IS_UNTRACED(trace) && trace < model->traces.n;
}

static void add_allocation(struct vt_building *b, int device, const char *kind, const char *words,
			   const struct vt_model_driver_block *recorded, uint64_t size,
			   uint64_t bytes)
{
	const struct vt_model *model = b->model;
	bool traced = recorded && has_trace(model, recorded->trace);
	const char *library =
		traced ? vt_driver_library(model, &model->traces.data[recorded->trace]) : NULL;
	struct vt_profile_sample sample = new_sample(b, device, library ? library : "unclaimed");

	sample.labels[VT_LABEL_KIND] = vt_profile_text(b->profile, kind);
	sample.size = size;
	sample.bytes = bytes;
	if (traced)
		sample.node = vt_building_trace(b, recorded->trace);
	else
		sample.node = vt_profile_call(b->profile, VT_PROFILE_ROOT,
					      vt_profile_word(b->profile, words));
	vt_profile_add(b->profile, &sample);
}

/*
 * Of a range, what its line in the report has. What pools of the driver and CUDA graphs keep
 * without use is in the driver's totals, not here.
 */
static uint64_t unclaimed_bytes(const struct vt_model_range *range)
{
	uint64_t claimed = range->claimed_bytes;

	if (range->rec.kind == VT_RANGE_POOL || range->rec.kind == VT_RANGE_GRAPH)
		return range->rec.size - claimed;
	return range->counted_bytes > claimed ? range->counted_bytes - claimed : 0;
}

static void add_range(struct vt_building *b, const struct vt_model_range *range)
{
	const struct vt_range_rec *rec = &range->rec;
	const struct vt_model_driver_block *recorded =
		range->recorded == VT_NOT_RECORDED ? NULL :
						     &b->model->driver_blocks.data[range->recorded];
	char words[64];

	if (range->claimed_bytes == rec->size)
		return;
	snprintf(words, sizeof(words), "[%s]", vt_range_kind_label(rec->kind));
	add_allocation(b, rec->device, vt_range_kind_name(rec->kind), words, recorded, rec->size,
		       unclaimed_bytes(range));
}

static void add_listed(struct vt_building *b, const struct vt_model_ledger_device *d)
{
	const struct vt_model *model = b->model;

	if (!d->claims_known)
		return;
	for (unsigned int kind = 0; kind < VT_N_LIBPOOL_KINDS; kind++) {
		const struct vt_model_line *line = &d->claimed[VT_CLAIMER_LIBPOOLS + kind];
		struct vt_libpool_sum sum =
			vt_libpool_sum(model, d->device, kind, VT_LIBPOOLS_CLAIMED);

		if (kind == VT_LIBPOOL_NCCL && line->bytes)
			add_pools(b, d->device, kind, line->bytes);
		else if (line->bytes && vt_libpool_sum_is_whole(&sum, line->bytes))
			add_pools(b, d->device, kind, sum.used);
	}
	for (size_t i = 0; i < model->ledger.ranges.n; i++) {
		const struct vt_model_range *range = &model->ledger.ranges.data[i];

		if (range->rec.device == d->device && vt_range_is_of_device(range->rec.kind))
			add_range(b, range);
	}
}

/* ---- without the driver's list ---- */

static bool is_in_pool(const struct vt_model *model, uint64_t addr)
{
	for (size_t i = 0; i < model->libpools.pools.n; i++) {
		const struct vt_model_libpool *pool = &model->libpools.pools.data[i];

		if (!pool->rec.is_host && vt_model_region_at(pool->regions, pool->n_regions, addr))
			return true;
	}
	return false;
}

/* Of two that have the same memory, the first one is the outer one. */
static bool is_around(const struct vt_model *model, size_t pool, size_t inner,
		      const struct vt_libpool_region *r)
{
	const struct vt_model_libpool *of = &model->libpools.pools.data[pool];
	const struct vt_libpool_region *around =
		of->rec.is_host ? NULL : vt_model_region_at(of->regions, of->n_regions, r->start);

	return around && (around->size > r->size || (around->size == r->size && pool < inner));
}

/* What is in use of a pool in another one is in that one's blocks. */
static bool is_nested(const struct vt_model *model, size_t pool)
{
	const struct vt_model_libpool *of = &model->libpools.pools.data[pool];

	for (size_t k = 0; k < of->n_regions; k++)
		for (size_t i = 0; i < model->libpools.pools.n; i++)
			if (i != pool && is_around(model, i, pool, &of->regions[k]))
				return true;
	return false;
}

static void add_unlisted(struct vt_building *b)
{
	const struct vt_model *model = b->model;

	for (size_t i = 0; i < model->libpools.pools.n; i++)
		if (!model->libpools.pools.data[i].rec.is_host && !is_nested(model, i))
			add_pieces(b, i);
	for (size_t i = 0; i < model->driver_blocks.n; i++) {
		const struct vt_model_driver_block *block = &model->driver_blocks.data[i];
		char words[64];

		if (!block->on_device || block->of_pytorch || is_in_pool(model, block->addr))
			continue;
		snprintf(words, sizeof(words), "[recorded by the driver: %s]",
			 vt_driver_kind_name(block->kind));
		add_allocation(b, block->device, vt_driver_kind_name(block->kind), words, block,
			       block->size, block->size);
	}
}

void vt_building_others(struct vt_building *b)
{
	const struct vt_model_ledger *ledger = &b->model->ledger;

	if (!ledger->known)
		add_unlisted(b);
	for (size_t i = 0; i < ledger->devices.n && ledger->known; i++)
		add_listed(b, &ledger->devices.data[i]);
}
