/* SPDX-License-Identifier: Apache-2.0 */
#include "model/libpools.h"

#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "model/account.h"

#define MAX_BYTES (UINT64_C(1) << 43) /* no sum of a million of them overflows */

void vt_model_libpools_deinit(struct vt_model_libpools *libpools)
{
	for (size_t i = 0; i < libpools->pools.n; i++) {
		free(libpools->pools.data[i].regions);
		free(libpools->pools.data[i].chunks);
	}
	vt_vec_deinit(&libpools->pools);
}

static const struct {
	const char *name, *library;
} kinds[VT_N_LIBPOOL_KINDS] = {
	[VT_LIBPOOL_XLA] = { "xla", "XLA" },
	[VT_LIBPOOL_CUPY] = { "cupy", "CuPy" },
	[VT_LIBPOOL_RMM] = { "rmm", "RMM" },
	[VT_LIBPOOL_NCCL] = { "nccl", "NCCL" },
};

const char *vt_libpool_kind_name(unsigned int kind)
{
	return kinds[kind < VT_N_LIBPOOL_KINDS ? kind : 0].name;
}

const char *vt_libpool_library(unsigned int kind)
{
	return kinds[kind < VT_N_LIBPOOL_KINDS ? kind : 0].library;
}

const char *vt_libpool_state_name(unsigned int state)
{
	static const char *const names[VT_N_LIBPOOL_STATES] = {
		[VT_LIBPOOL_EXACT] = "exact",
		[VT_LIBPOOL_COUNTERS] = "counters",
		[VT_LIBPOOL_CHANGING] = "changing",
	};

	return names[state < VT_N_LIBPOOL_STATES ? state : VT_LIBPOOL_CHANGING];
}

/* ---- account: what the sums rely on, checked again ---- */

const struct vt_libpool_region *vt_model_region_at(const struct vt_libpool_region *regions,
						   size_t n, uint64_t addr)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (regions[middle].start <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low && addr - regions[low - 1].start < regions[low - 1].size ? &regions[low - 1] :
									      NULL;
}

static bool is_within(const struct vt_model_libpool *pool, const struct vt_libpool_chunk *chunk)
{
	const struct vt_libpool_region *r =
		vt_model_region_at(pool->regions, pool->n_regions, chunk->start);

	return r && chunk->size <= r->size - (chunk->start - r->start);
}

static bool regions_make_sense(const struct vt_model_libpool *pool)
{
	uint64_t end = 0, sum = 0;

	for (size_t i = 0; i < pool->n_regions; i++) {
		const struct vt_libpool_region *r = &pool->regions[i];

		if (!r->size || r->size > MAX_BYTES || r->start < end ||
		    r->start > UINT64_MAX - MAX_BYTES)
			return false;
		end = r->start + r->size;
		sum += r->size;
		if (sum > MAX_BYTES)
			return false;
	}
	return true;
}

static bool chunks_make_sense(const struct vt_model_libpool *pool)
{
	uint64_t end = 0;

	for (size_t i = 0; i < pool->n_chunks; i++) {
		const struct vt_libpool_chunk *chunk = &pool->chunks[i];

		if (!chunk->size || chunk->start < end || !is_within(pool, chunk))
			return false;
		end = chunk->start + chunk->size;
	}
	return true;
}

/* A number that makes no sense is not known. */
static void check_numbers(struct vt_libpool_rec *rec)
{
	if (rec->held_bytes > MAX_BYTES)
		rec->known &= ~(uint32_t)VT_LIBPOOL_HELD;
	if (rec->used_bytes > MAX_BYTES ||
	    ((rec->known & VT_LIBPOOL_HELD) && rec->used_bytes > rec->held_bytes))
		rec->known &= ~(uint32_t)VT_LIBPOOL_USED;
	if (rec->peak_bytes > MAX_BYTES)
		rec->known &= ~(uint32_t)VT_LIBPOOL_PEAK;
}

static void sum_chunks(struct vt_model_libpool *pool)
{
	pool->used_chunks = pool->free_chunks = pool->largest_free = 0;
	for (size_t i = 0; i < pool->n_chunks; i++) {
		const struct vt_libpool_chunk *chunk = &pool->chunks[i];

		if (chunk->in_use) {
			pool->used_chunks++;
			continue;
		}
		pool->free_chunks++;
		if (chunk->size > pool->largest_free)
			pool->largest_free = chunk->size;
	}
}

void vt_account_libpools(struct vt_model *model)
{
	for (size_t i = 0; i < model->libpools.pools.n; i++) {
		struct vt_model_libpool *pool = &model->libpools.pools.data[i];

		pool->rec.name[sizeof(pool->rec.name) - 1] = 0;
		if (pool->rec.kind >= VT_N_LIBPOOL_KINDS || !regions_make_sense(pool))
			pool->n_regions = 0;
		if (!pool->n_regions || pool->rec.state != VT_LIBPOOL_EXACT ||
		    !chunks_make_sense(pool))
			pool->n_chunks = 0;
		check_numbers(&pool->rec);
		pool->claimed_bytes = pool->elsewhere_bytes = 0;
		pool->device = pool->rec.is_host ? -1 : pool->rec.device;
		sum_chunks(pool);
	}
}

/* ---- sums ---- */

static bool is_one(const struct vt_model_libpool *pool, int device, unsigned int kind,
		   enum vt_libpools_which which)
{
	if (pool->rec.kind != kind || pool->rec.is_host != (which == VT_LIBPOOLS_HOST))
		return false;
	return which == VT_LIBPOOLS_HOST ||
	       (pool->device == device && (which == VT_LIBPOOLS_ALL || pool->claimed_bytes));
}

static void add_pool(struct vt_libpool_sum *sum, const struct vt_model_libpool *pool)
{
	const struct vt_libpool_rec *rec = &pool->rec;

	sum->pools++;
	sum->used += rec->used_bytes;
	sum->held += rec->held_bytes;
	sum->claimed += pool->claimed_bytes;
	sum->peak += rec->peak_bytes;
	sum->limit += rec->limit_bytes;
	sum->used_chunks += pool->used_chunks;
	sum->free_chunks += pool->free_chunks;
	if (pool->largest_free > sum->largest_free)
		sum->largest_free = pool->largest_free;
	sum->held_known = sum->held_known && (rec->known & VT_LIBPOOL_HELD);
	sum->used_known = sum->used_known && (rec->known & VT_LIBPOOL_USED);
	sum->peak_known = sum->peak_known && (rec->known & VT_LIBPOOL_PEAK);
	sum->limit_known = sum->limit_known && (rec->known & VT_LIBPOOL_LIMIT);
	sum->blocks_known = sum->blocks_known && (rec->known & VT_LIBPOOL_BLOCKS) &&
			    rec->state == VT_LIBPOOL_EXACT;
	sum->chunks_known = sum->chunks_known && rec->state == VT_LIBPOOL_EXACT;
	sum->changing = sum->changing || rec->state == VT_LIBPOOL_CHANGING;
}

struct vt_libpool_sum vt_libpool_sum(const struct vt_model *model, int device, unsigned int kind,
				     enum vt_libpools_which which)
{
	struct vt_libpool_sum sum = { .held_known = true,
				      .used_known = true,
				      .chunks_known = true,
				      .blocks_known = true,
				      .peak_known = true,
				      .limit_known = true };

	for (size_t i = 0; i < model->libpools.pools.n; i++)
		if (is_one(&model->libpools.pools.data[i], device, kind, which))
			add_pool(&sum, &model->libpools.pools.data[i]);
	return sum;
}

bool vt_libpool_sum_is_whole(const struct vt_libpool_sum *sum, uint64_t line_bytes)
{
	return sum->pools && sum->held_known && sum->used_known && !sum->changing &&
	       sum->used <= line_bytes && sum->claimed == sum->held;
}
