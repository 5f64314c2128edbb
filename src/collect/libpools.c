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

static bool is_of_host(const struct vt_model_ledger *ledger, uint64_t addr)
{
	for (size_t i = 0; i < ledger->ranges.n; i++) {
		const struct vt_range_rec *rec = &ledger->ranges.data[i].rec;

		if (addr >= rec->start && addr - rec->start < rec->size)
			return rec->kind == VT_RANGE_HOST;
	}
	return false;
}

/* RMM's books do not say what its pool is made of, which can be pinned memory: the driver does. */
static void find_host(const struct vt_model_ledger *ledger, struct vt_libpool *pool)
{
	if (pool->rec.kind != VT_LIBPOOL_RMM || !pool->regions.n ||
	    !is_of_host(ledger, pool->regions.data[0].start) ||
	    !is_of_host(ledger, pool->regions.data[pool->regions.n - 1].start))
		return;
	pool->rec.is_host = 1;
	pool->rec.device = -1;
}

static struct vt_error *take(struct vt_model *model, struct vt_libpool *pool)
{
	struct vt_model_libpool *into;

	find_host(&model->ledger, pool);

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

struct shareable {
	struct vt_libpool_region region;
	uint64_t memory; /* its number; 0 unknown */
};

static int compare_memory(const void *pa, const void *pb)
{
	const struct shareable *a = pa, *b = pb;

	return (a->memory > b->memory) - (a->memory < b->memory);
}

static int compare_starts(const void *pa, const void *pb)
{
	const struct shareable *a = pa, *b = pb;

	return (a->region.start > b->region.start) - (a->region.start < b->region.start);
}

static bool is_alias(const struct shareable *list, size_t n, size_t i)
{
	return list[i].memory && ((i > 0 && list[i - 1].memory == list[i].memory) ||
				  (i + 1 < n && list[i + 1].memory == list[i].memory));
}

/*
 * Of the driver's allocations those made to be shared, which overlap nothing. Without memory that
 * is mapped twice: a library can have mapped what is a user's, and nobody knows which came first.
 */
static struct vt_error *list_shareable(const struct vt_model_ledger *ledger,
				       struct vt_libpool_region **regions, size_t *n_regions)
{
	VT_FREE struct shareable *list = malloc((ledger->ranges.n + 1) * sizeof(*list));
	struct vt_libpool_region *to = malloc((ledger->ranges.n + 1) * sizeof(*to));
	size_t n = 0, kept = 0;
	uint64_t end = 0;

	if (!list || !to) {
		free(to);
		return &vt_enomem;
	}
	for (size_t i = 0; i < ledger->ranges.n; i++) {
		const struct vt_range_rec *rec = &ledger->ranges.data[i].rec;

		if (rec->kind == VT_RANGE_MAPPED && rec->exportable && rec->size &&
		    rec->size <= UINT64_MAX - rec->start)
			list[n++] = (struct shareable){ { rec->start, rec->size }, rec->block };
	}
	qsort(list, n, sizeof(*list), compare_memory);
	for (size_t i = 0; i < n; i++)
		if (is_alias(list, n, i))
			list[i].region.size = 0;
	qsort(list, n, sizeof(*list), compare_starts);
	for (size_t i = 0; i < n; i++) {
		if (list[i].region.start < end || !list[i].region.size)
			continue;
		end = list[i].region.start + list[i].region.size;
		to[kept++] = list[i].region;
	}
	*regions = to;
	*n_regions = kept;
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
