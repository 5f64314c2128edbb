/* SPDX-License-Identifier: Apache-2.0 */
/* Whose each range is, and how much of the device's memory it is. */
#include "model/ledger.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/format.h"
#include "model/account.h"

/* More than any device or address space has: no sum of a million of them overflows. */
#define MAX_BYTES (UINT64_C(1) << 43)
#define DRIVER_PAGE (UINT64_C(2) << 20)
/* Of local memory: 512 KiB a thread is the most that the CUDA C++ Programming Guide knows. */
#define MAX_STACK (UINT64_C(1) << 20)
#define MAX_MULTIPROCESSORS 4096
#define MAX_RESIDENT 65536

static struct vt_model_ledger_device *device_of(struct vt_model_ledger *ledger, int device)
{
	for (size_t i = 0; i < ledger->devices.n; i++)
		if (ledger->devices.data[i].device == device)
			return &ledger->devices.data[i];
	return NULL;
}

const struct vt_model_ledger_device *vt_model_ledger_device(const struct vt_model *model,
							    int device)
{
	return device_of((struct vt_model_ledger *)&model->ledger, device);
}

const char *vt_range_kind_name(unsigned int kind)
{
	static const char *const names[VT_N_RANGE_KINDS] = {
		[VT_RANGE_OTHER] = "other",     [VT_RANGE_DEVICE] = "device",
		[VT_RANGE_MAPPED] = "mapped",   [VT_RANGE_POOL] = "pool",
		[VT_RANGE_MANAGED] = "managed", [VT_RANGE_HOST] = "host",
		[VT_RANGE_DATA] = "data",       [VT_RANGE_ARRAY] = "array",
		[VT_RANGE_GRAPH] = "graph",
	};

	return names[kind < VT_N_RANGE_KINDS ? kind : VT_RANGE_OTHER];
}

const char *vt_claimer_name(unsigned int claimer)
{
	return claimer < VT_CLAIMER_LIBPOOLS ? "pytorch" :
					       vt_libpool_kind_name(claimer - VT_CLAIMER_LIBPOOLS);
}

bool vt_range_is_of_device(uint8_t kind)
{
	return kind != VT_RANGE_HOST && kind != VT_RANGE_MANAGED && kind != VT_RANGE_OTHER;
}

/* ---- ranges that make sense ---- */

static int compare_ranges(const void *pa, const void *pb)
{
	const struct vt_model_range *a = pa, *b = pb;

	return (a->rec.start > b->rec.start) - (a->rec.start < b->rec.start);
}

static bool is_sorted(const struct vt_model_ledger *ledger)
{
	for (size_t i = 1; i < ledger->ranges.n; i++)
		if (ledger->ranges.data[i].rec.start < ledger->ranges.data[i - 1].rec.start)
			return false;
	return true;
}

static bool is_plausible(const struct vt_range_rec *r)
{
	return r->kind < VT_N_RANGE_KINDS && r->size && r->size <= MAX_BYTES &&
	       r->physical <= MAX_BYTES && r->start <= UINT64_MAX - MAX_BYTES &&
	       r->mapping <= UINT64_MAX - MAX_BYTES;
}

/* Two allocations cannot overlap: one of them was freed while the others were asked for. */
static void sort_out(struct vt_model_ledger *ledger)
{
	uint64_t end = 0;
	size_t n = 0;

	if (!is_sorted(ledger))
		qsort(ledger->ranges.data, ledger->ranges.n, sizeof(*ledger->ranges.data),
		      compare_ranges);
	for (size_t i = 0; i < ledger->ranges.n; i++) {
		struct vt_model_range *range = &ledger->ranges.data[i];

		if (!is_plausible(&range->rec) || range->rec.start < end ||
		    (vt_range_is_of_device(range->rec.kind) &&
		     !device_of(ledger, range->rec.device)))
			continue;
		end = range->rec.start + range->rec.size;
		range->counted_bytes = range->claimed_bytes = 0;
		range->claimer = VT_CLAIMER_PYTORCH;
		range->recorded = VT_NOT_RECORDED;
		ledger->ranges.data[n++] = *range;
	}
	ledger->dropped += ledger->ranges.n - n;
	ledger->ranges.n = n;
}

/* ---- the memory behind ranges counts once ---- */

struct key {
	uint64_t a, b; /* which memory: equal ones are the same */
	size_t range;
};

static int compare_keys(const void *pa, const void *pb)
{
	const struct key *a = pa, *b = pb;

	if (a->a != b->a)
		return a->a < b->a ? -1 : 1;
	if (a->b != b->b)
		return a->b < b->b ? -1 : 1;
	return (a->range > b->range) - (a->range < b->range);
}

static bool keys_are_sorted(const struct key *keys, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if (compare_keys(&keys[i - 1], &keys[i]) > 0)
			return false;
	return true;
}

/* Without a number, one mapping is one memory. */
static struct key key_of(const struct vt_range_rec *r, size_t range)
{
	uint64_t device = (uint32_t)r->device;

	return (struct key){ .a = r->block ? device : UINT64_MAX - device,
			     .b = r->block ? r->block : r->mapping,
			     .range = range };
}

/* What the driver before CUDA 12.1 does not tell: it gives out whole pages. */
static void count_pages(struct vt_model_range *range, uint64_t *end)
{
	uint64_t first = range->rec.start / DRIVER_PAGE * DRIVER_PAGE;
	uint64_t last =
		(range->rec.start + range->rec.size + DRIVER_PAGE - 1) / DRIVER_PAGE * DRIVER_PAGE;

	if (first < *end)
		first = *end < last ? *end : last;
	range->counted_bytes = last - first;
	if (last > *end)
		*end = last;
}

static bool count_mappings(struct vt_model_ledger *ledger)
{
	size_t n_keys = 0;
	uint64_t end = 0;
	VT_FREE struct key *keys = malloc((ledger->ranges.n + 1) * sizeof(*keys));

	if (!keys)
		return false;
	for (size_t i = 0; i < ledger->ranges.n; i++) {
		struct vt_model_range *range = &ledger->ranges.data[i];

		if (!vt_range_has_mapping(range->rec.kind))
			continue;
		if (range->rec.physical)
			keys[n_keys++] = key_of(&range->rec, i);
		else
			count_pages(range, &end);
	}
	if (!keys_are_sorted(keys, n_keys))
		qsort(keys, n_keys, sizeof(*keys), compare_keys);
	for (size_t i = 0; i < n_keys; i++) {
		struct vt_model_range *range = &ledger->ranges.data[keys[i].range];

		if (i == 0 || keys[i].a != keys[i - 1].a || keys[i].b != keys[i - 1].b)
			range->counted_bytes = range->rec.physical;
	}
	return true;
}

static bool has_totals(const struct vt_model_ledger *ledger, const struct vt_range_rec *r)
{
	for (size_t i = 0; i < ledger->pools.n; i++)
		if (ledger->pools.data[i].handle == r->pool && ledger->pools.data[i].known)
			return true;
	return false;
}

static void count_others(struct vt_model_ledger *ledger)
{
	for (size_t i = 0; i < ledger->ranges.n; i++) {
		struct vt_model_range *range = &ledger->ranges.data[i];
		const struct vt_range_rec *r = &range->rec;

		if ((r->kind == VT_RANGE_POOL && !has_totals(ledger, r)) ||
		    (r->kind == VT_RANGE_GRAPH && !device_of(ledger, r->device)->graph_known))
			range->counted_bytes = r->size;
	}
}

/* ---- what allocators claim ---- */

struct claim {
	uint64_t start, end;
	int device; /* -1: not known */
	enum vt_claimer claimer;
	struct vt_model_libpool *libpool; /* or NULL */
};

struct claims {
	VT_VEC(struct claim) list;
};

/* What is around another one comes before it. */
static int compare_claims(const void *pa, const void *pb)
{
	const struct claim *a = pa, *b = pb;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	return (a->end < b->end) - (a->end > b->end);
}

/* A pool of RMM's can be upstream of another one: the memory is that of the outer one. */
static void drop_nested(struct claims *claims)
{
	uint64_t end[VT_N_CLAIMERS] = { 0 };
	size_t n = 0;

	for (size_t i = 0; i < claims->list.n; i++) {
		struct claim claim = claims->list.data[i];

		if (claim.libpool && claim.end <= end[claim.claimer]) {
			claim.libpool->elsewhere_bytes += claim.end - claim.start;
			continue;
		}
		end[claim.claimer] = claim.end;
		claims->list.data[n++] = claim;
	}
	claims->list.n = n;
}

/* Blocks that touch are one claim. */
static bool add_block(struct claims *claims, const struct vt_block_rec *b)
{
	struct claim *last = claims->list.n ? &claims->list.data[claims->list.n - 1] : NULL;
	uint64_t end;

	if (b->state == VT_BLOCK_UNMAPPED || __builtin_add_overflow(b->addr, b->size, &end))
		return true;
	if (last && last->end == b->addr && last->device == b->device) {
		last->end = end;
		return true;
	}
	last = vt_vec_append(&claims->list);
	if (last)
		*last = (struct claim){ b->addr, end, b->device, VT_CLAIMER_PYTORCH, NULL };
	return last;
}

static bool add_libpool(struct claims *claims, struct vt_model_libpool *pool)
{
	for (size_t i = 0; !pool->rec.is_host && i < pool->n_regions; i++) {
		const struct vt_libpool_region *r = &pool->regions[i];
		struct claim *claim = vt_vec_append(&claims->list);

		if (!claim)
			return false;
		*claim = (struct claim){ r->start, r->start + r->size, pool->device,
					 VT_CLAIMER_LIBPOOLS + pool->rec.kind, pool };
	}
	return true;
}

static bool list_claims(struct vt_model *model, struct claims *claims)
{
	for (size_t i = 0; i < model->allocators.n; i++) {
		const struct vt_model_allocator *a = &model->allocators.data[i];

		for (size_t k = 0; a->exact && k < a->n_blocks; k++)
			if (!add_block(claims, &model->blocks[a->first_block + k]))
				return false;
	}
	for (size_t i = 0; i < model->libpools.pools.n; i++)
		if (!add_libpool(claims, &model->libpools.pools.data[i]))
			return false;
	if (claims->list.n)
		qsort(claims->list.data, claims->list.n, sizeof(*claims->list.data),
		      compare_claims);
	drop_nested(claims);
	return true;
}

static uint64_t overlap(const struct vt_range_rec *r, const struct claim *c)
{
	uint64_t start = r->start > c->start ? r->start : c->start;
	uint64_t end = r->start + r->size < c->end ? r->start + r->size : c->end;

	return start < end ? end - start : 0;
}

/*
 * Pools nest, as a CuPy array in a pool of RMM's: the one that claims the most of the range has it,
 * and of two with the same, the first.
 */
static void decide(struct vt_model_range *range, const uint64_t claimed[VT_N_CLAIMERS])
{
	for (unsigned int i = 0; i < VT_N_CLAIMERS; i++)
		if (claimed[i] > range->claimed_bytes) {
			range->claimed_bytes = claimed[i];
			range->claimer = (uint8_t)i;
		}
	if (range->claimed_bytes > range->rec.size)
		range->claimed_bytes = range->rec.size; /* only of damaged lists */
}

static void claim_range(struct vt_model_range *range, const struct claims *claims, size_t first)
{
	uint64_t end = range->rec.start + range->rec.size, claimed[VT_N_CLAIMERS] = { 0 };

	for (size_t i = first; i < claims->list.n && claims->list.data[i].start < end; i++) {
		const struct claim *claim = &claims->list.data[i];
		uint64_t bytes = overlap(&range->rec, claim);

		if (!bytes || (claim->device >= 0 && claim->device != range->rec.device))
			continue;
		claimed[claim->claimer] += bytes;
		if (claim->libpool && claim->libpool->device < 0)
			claim->libpool->device = range->rec.device;
	}
	decide(range, claimed);
	for (size_t i = first; i < claims->list.n && claims->list.data[i].start < end; i++) {
		const struct claim *claim = &claims->list.data[i];

		if (!claim->libpool || !range->claimed_bytes ||
		    (claim->device >= 0 && claim->device != range->rec.device))
			continue;
		if (claim->claimer == range->claimer)
			claim->libpool->claimed_bytes += overlap(&range->rec, claim);
		else
			claim->libpool->elsewhere_bytes += overlap(&range->rec, claim);
	}
}

/* What a pool has got of managed memory is in the driver's list, but no memory of the device. */
static void note_elsewhere(const struct vt_model_range *range, const struct claims *claims,
			   size_t first)
{
	uint64_t end = range->rec.start + range->rec.size;

	for (size_t i = first; i < claims->list.n && claims->list.data[i].start < end; i++)
		if (claims->list.data[i].libpool)
			claims->list.data[i].libpool->elsewhere_bytes +=
				overlap(&range->rec, &claims->list.data[i]);
}

/* Both lists are sorted: claims that end before one range are not met again. */
static void claim_ranges(struct vt_model_ledger *ledger, const struct claims *claims)
{
	size_t first = 0;

	for (size_t i = 0; i < ledger->ranges.n; i++) {
		struct vt_model_range *range = &ledger->ranges.data[i];

		while (first < claims->list.n && claims->list.data[first].end <= range->rec.start)
			first++;
		if (vt_range_is_of_device(range->rec.kind))
			claim_range(range, claims, first);
		else
			note_elsewhere(range, claims, first);
	}
}

/* ---- what the recorder saw ---- */

static void find_recorded(struct vt_model *model)
{
	size_t k = 0;

	for (size_t i = 0; i < model->ledger.ranges.n; i++) {
		struct vt_model_range *range = &model->ledger.ranges.data[i];

		while (k < model->driver_blocks.n &&
		       model->driver_blocks.data[k].addr < range->rec.start)
			k++;
		if (k < model->driver_blocks.n &&
		    model->driver_blocks.data[k].addr == range->rec.start)
			range->recorded = k;
	}
}

/* ---- the lines ---- */

static void add_line(struct vt_model_line *line, uint64_t bytes, uint64_t asked)
{
	line->bytes += bytes;
	line->asked += asked;
	line->ranges++;
	if (asked > line->largest)
		line->largest = asked;
}

static void add_range(struct vt_model_ledger_device *d, const struct vt_model_range *range)
{
	const struct vt_range_rec *r = &range->rec;
	uint64_t claimed = range->claimed_bytes, free_of_claims = r->size - claimed;
	uint64_t bytes = claimed == r->size || claimed > range->counted_bytes ?
				 range->counted_bytes :
				 claimed;
	uint64_t other = range->counted_bytes - bytes;

	if (claimed)
		add_line(&d->claimed[range->claimer], bytes, claimed);
	if (!free_of_claims)
		return;
	add_line(&d->kinds[r->kind], other, free_of_claims);
	if (r->kind == VT_RANGE_MAPPED && r->exportable)
		add_line(&d->shareable, other, free_of_claims);
	if (r->kind == VT_RANGE_DEVICE && range->recorded != VT_NOT_RECORDED)
		add_line(&d->recorded, other, free_of_claims);
}

/* The memory of the host is in the line of the first device. */
static void add_ranges(struct vt_model_ledger *ledger)
{
	for (size_t i = 0; i < ledger->ranges.n; i++) {
		const struct vt_model_range *range = &ledger->ranges.data[i];
		struct vt_model_ledger_device *d = device_of(ledger, range->rec.device);

		if (!d && ledger->devices.n)
			d = &ledger->devices.data[0];
		if (d)
			add_range(d, range);
	}
}

/* By the driver's totals, which also have what is free in them. */
static void add_totals(struct vt_model_ledger *ledger)
{
	for (size_t i = 0; i < ledger->pools.n; i++) {
		const struct vt_model_ledger_pool *pool = &ledger->pools.data[i];
		struct vt_model_ledger_device *d = device_of(ledger, pool->device);

		if (!d || !pool->known)
			continue;
		d->kinds[VT_RANGE_POOL].bytes += pool->reserved_bytes;
	}
	for (size_t i = 0; i < ledger->devices.n; i++) {
		struct vt_model_ledger_device *d = &ledger->devices.data[i];

		if (d->graph_known)
			d->kinds[VT_RANGE_GRAPH].bytes = d->graph_reserved_bytes;
	}
}

/* ---- what is left ---- */

static const struct vt_model_allocator *allocator_of(const struct vt_model *model, int device)
{
	for (size_t i = 0; i < model->allocators.n; i++)
		if (model->allocators.data[i].device == device)
			return &model->allocators.data[i];
	return NULL;
}

/*
 * The kernel driver's count of the process has its contexts and code, too. It must be of the same
 * moment. If it is less than what was found, some of that is another process's.
 */
static void find_own_rest(const struct vt_model *model, struct vt_model_ledger_device *d,
			  uint64_t used_bytes)
{
	const struct vt_model_gpu *gpu = vt_model_gpu(&model->usage, d->device);

	if (!gpu || !gpu->is_ours || !gpu->ours_known || !gpu->memory_known ||
	    gpu->used_bytes != used_bytes || gpu->ours_bytes > used_bytes ||
	    gpu->ours_bytes < d->found_bytes)
		return;
	d->own_rest_known = true;
	d->own_rest_bytes = gpu->ours_bytes - d->found_bytes;
}

/* Of a pool's books, what should be memory of the device and of no other pool. */
static uint64_t own_bytes(const struct vt_model_libpool *pool)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < pool->n_regions; i++)
		sum += pool->regions[i].size;
	return sum > pool->elsewhere_bytes ? sum - pool->elsewhere_bytes : 0;
}

static void find_unmapped(const struct vt_model *model, struct vt_model_ledger_device *d,
			  const struct vt_model_allocator *a)
{
	uint64_t books[VT_N_CLAIMERS] = { 0 };

	if (a && a->exact)
		books[VT_CLAIMER_PYTORCH] = a->reserved_bytes;
	for (size_t i = 0; i < model->libpools.pools.n; i++) {
		const struct vt_model_libpool *pool = &model->libpools.pools.data[i];

		if (pool->device == d->device)
			books[VT_CLAIMER_LIBPOOLS + pool->rec.kind] += own_bytes(pool);
	}
	for (int i = 0; i < VT_N_CLAIMERS; i++)
		if (books[i] > d->claimed[i].asked)
			d->unmapped_bytes[i] = books[i] - d->claimed[i].asked;
}

static bool is_same_stat(const struct vt_torch_stat *a, const struct vt_torch_stat *b)
{
	return a->current == b->current && a->allocated == b->allocated && a->freed == b->freed;
}

/* What PyTorch got or gave back between its list and the ranges would be called another's. */
static bool has_moved(const struct vt_model_ledger_device *d, const struct vt_model_allocator *a)
{
	return d->torch_moved ||
	       (d->torch_known && a->result.have_stats &&
		!is_same_stat(&d->torch_reserved, &a->result.stats.reserved_bytes));
}

/* An allocator that was not found at all may have anything. */
static bool claims_are_known(const struct vt_model *model, const struct vt_model_ledger_device *d,
			     const struct vt_model_allocator *a)
{
	if (!a)
		return model->torch_state != VT_ALLOCATOR_REFUSED || model->allocators.n;
	return a->exact && !has_moved(d, a);
}

static void find_rest(struct vt_model *model, struct vt_model_ledger_device *d)
{
	const struct vt_model_device *device = vt_model_device(model, d->device);
	const struct vt_model_allocator *a = allocator_of(model, d->device);

	d->claims_known = claims_are_known(model, d, a);
	d->found_bytes = 0;
	for (int i = 0; i < VT_N_CLAIMERS; i++)
		d->found_bytes += d->claimed[i].bytes;
	for (int kind = 0; kind < VT_N_RANGE_KINDS; kind++)
		if (vt_range_is_of_device((uint8_t)kind))
			d->found_bytes += d->kinds[kind].bytes;
	find_unmapped(model, d, a);
	if (!device || !device->have_memory || d->moved || device->memory_moved ||
	    d->found_bytes > device->used_bytes)
		return;
	d->rest_known = true;
	d->rest_bytes = device->used_bytes - d->found_bytes;
	find_own_rest(model, d, device->used_bytes);
}

/* A part of the process's own rest, or of the whole one: never more than that. */
static void find_local_memory(struct vt_model_ledger_device *d)
{
	struct vt_model_local_memory *local = &d->local;
	uint64_t rest = d->own_rest_known ? d->own_rest_bytes : d->rest_bytes;

	local->known = local->known && d->rest_known && local->stack_bytes &&
		       local->stack_bytes <= MAX_STACK && local->multiprocessors &&
		       local->multiprocessors <= MAX_MULTIPROCESSORS && local->threads &&
		       local->threads <= MAX_RESIDENT;
	local->bytes = local->known ? local->stack_bytes * local->multiprocessors * local->threads :
				      0;
	local->known = local->known && local->bytes <= rest;
}

static void check_sum(struct vt_model *model, const struct vt_model_ledger_device *d)
{
	const struct vt_model_device *device = vt_model_device(model, d->device);
	const struct vt_model_allocator *a = allocator_of(model, d->device);
	char found[VT_NUM_MAX], used[VT_NUM_MAX];

	if (a && a->exact && !d->claims_known)
		vt_model_diag(
			model, VT_DIAG_NOTE, VT_STAGE_CUDA, "ledger-moved",
			"GPU %d: what other libraries allocated is not shown: PyTorch got or gave back memory while it was listed%s",
			d->device, vt_try_again(model));
	if (!device || !device->have_memory || d->found_bytes <= device->used_bytes)
		return;
	vt_model_diag(
		model, VT_DIAG_NOTE, VT_STAGE_CUDA, "ledger-does-not-add-up",
		"GPU %d: the allocations found are %s, the driver says that %s are used: they "
		"were read at different moments%s",
		d->device, vt_format_size(found, d->found_bytes),
		vt_format_size(used, device->used_bytes), vt_try_again(model));
}

/* Numbers of a damaged process must not make sums overflow. */
static void check_totals(struct vt_model_ledger *ledger)
{
	size_t n = 0;

	for (size_t i = 0; i < ledger->pools.n; i++) {
		struct vt_model_ledger_pool *pool = &ledger->pools.data[i];

		if (pool->reserved_bytes > MAX_BYTES || pool->used_bytes > pool->reserved_bytes)
			pool->known = false;
		for (size_t k = 0; k < n && pool->handle; k++)
			if (ledger->pools.data[k].handle == pool->handle)
				pool->handle = 0; /* twice in the list */
		if (pool->handle)
			ledger->pools.data[n++] = *pool;
	}
	ledger->pools.n = n;
	for (size_t i = 0; i < ledger->devices.n; i++) {
		struct vt_model_ledger_device *d = &ledger->devices.data[i];

		if (d->graph_reserved_bytes > MAX_BYTES ||
		    d->graph_used_bytes > d->graph_reserved_bytes)
			d->graph_known = false;
	}
}

bool vt_account_ledger(struct vt_model *model)
{
	struct vt_model_ledger *ledger = &model->ledger;
	struct claims claims = { 0 };
	bool ok;

	if (!ledger->known)
		return true;
	check_totals(ledger);
	sort_out(ledger);
	ok = count_mappings(ledger) && list_claims(model, &claims);
	if (!ok) { /* a half of the lines would be wrong numbers */
		ledger->known = false;
		vt_vec_deinit(&claims.list);
		return false;
	}
	count_others(ledger);
	claim_ranges(ledger, &claims);
	vt_vec_deinit(&claims.list);
	find_recorded(model);
	add_ranges(ledger);
	add_totals(ledger);
	for (size_t i = 0; i < ledger->devices.n; i++) {
		find_rest(model, &ledger->devices.data[i]);
		find_local_memory(&ledger->devices.data[i]);
		check_sum(model, &ledger->devices.data[i]);
	}
	return true;
}
