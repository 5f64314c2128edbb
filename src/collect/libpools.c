/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory pools of other libraries into the model. They are read while the process runs: each is
 * read until it stands still for a moment.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "collect/collect.h"
#include "walk/libpools/libpools.h"

#define BUDGET_NS (300 * VT_NS_PER_MS)
#define BUDGET_CORE_NS (10000 * VT_NS_PER_MS) /* a core waits: pages of it may come from a disk */

/* A note is the target's: the model's arena keeps it. */
static bool take_notes(struct vt_model *model, struct vt_libpool *pool)
{
	const char *last = NULL, *copy = NULL;

	for (size_t i = 0; i < pool->chunks.n; i++) {
		struct vt_libpool_chunk *chunk = &pool->chunks.data[i];

		if (!chunk->note)
			continue;
		if (chunk->note != last) {
			last = chunk->note;
			copy = vt_arena_strdup(&model->arena, last);
		}
		if (!copy)
			return false;
		chunk->note = copy;
	}
	return true;
}

static struct vt_error *take(struct vt_model *model, struct vt_libpool *pool)
{
	struct vt_model_libpool *into;

	if (!take_notes(model, pool))
		return &vt_enomem;
	into = vt_vec_append(&model->libpools.pools);
	if (!into)
		return &vt_enomem;
	*into = (struct vt_model_libpool){
		.rec = pool->rec,
		.regions = pool->regions.data,
		.n_regions = pool->regions.n,
		.chunks = pool->chunks.data,
		.n_chunks = pool->chunks.n,
		.device = -1,
	};
	*pool = (struct vt_libpool){ 0 }; /* the vectors are the model's now */
	return NULL;
}

static int compare_regions(const void *pa, const void *pb)
{
	const struct vt_libpool_region *a = pa, *b = pb;

	return (a->start > b->start) - (a->start < b->start);
}

/* Of the driver's allocations those made to be shared, which overlap nothing. */
static struct vt_error *list_shareable(const struct vt_model_ledger *ledger,
				       struct vt_libpool_region **list, size_t *n_listed)
{
	struct vt_libpool_region *regions = malloc((ledger->ranges.n + 1) * sizeof(*regions));
	uint64_t end = 0;
	size_t n = 0, kept = 0;

	if (!regions)
		return &vt_enomem;
	for (size_t i = 0; i < ledger->ranges.n; i++) {
		const struct vt_range_rec *rec = &ledger->ranges.data[i].rec;

		if (rec->kind == VT_RANGE_MAPPED && rec->exportable &&
		    rec->size <= UINT64_MAX - rec->start)
			regions[n++] = (struct vt_libpool_region){ rec->start, rec->size };
	}
	qsort(regions, n, sizeof(*regions), compare_regions);
	for (size_t i = 0; i < n; i++) {
		if (regions[i].start < end || !regions[i].size)
			continue;
		end = regions[i].start + regions[i].size;
		regions[kept++] = regions[i];
	}
	*list = regions;
	*n_listed = kept;
	return NULL;
}

static struct vt_error *take_all(struct vt_model *model, struct vt_libpools *pools)
{
	for (size_t i = 0; i < pools->pools.n; i++)
		VT_TRY(take(model, &pools->pools.data[i]));
	return NULL;
}

void vt_collect_libpools(struct vt_collect *c)
{
	VT_FREE struct vt_libpool_region *shareable = NULL;
	bool still = c->target.origin->stands_still;
	struct vt_libpools_target target = {
		.maps = &c->target.maps,
		.modules = &c->target.modules,
		.mem = c->target.mem,
		.live = c->target.live,
		.stands_still = still,
		.deadline_ns = vt_now_ns() + (still ? BUDGET_CORE_NS : BUDGET_NS),
	};
	struct vt_libpools pools = { 0 };
	struct vt_error *why = NULL, *err = NULL;
	uint64_t start = vt_now_ns();

	err = list_shareable(&c->model->ledger, &shareable, &target.n_shareable);
	target.shareable = shareable;
	if (!err && !vt_libpools_may_be_in(&target))
		return;
	if (!err) {
		target.python = vt_collect_python(c);
		vt_libpools_init(&pools, &target, &why);
		err = take_all(c->model, &pools);
	}
	if (err || why)
		vt_collect_diag_error(c, VT_DIAG_NOTE, VT_STAGE_LIBPOOLS,
				      "the memory pools of other libraries are not all shown",
				      err ? err : why);
	if (err)
		vt_error_destroy(why);
	vt_libpools_deinit(&pools);
	c->model->libpools.total_ms = (double)(vt_now_ns() - start) / VT_NS_PER_MS;
}
