/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every allocation of the process that the driver knows of. The helper asks the driver; where it
 * asks is chosen here, by the process's map.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "collect/collect.h"
#include "inject/inject.h"
#include "target/maps.h"

/* For all questions together; 100,000 allocations take 100 ms. */
#define BUDGET_NS (400 * VT_NS_PER_MS)
#define MAX_PROBES 2000000
#define MAX_RANGES 1000000
#define MAX_AREAS 8192
#define FIRST_RANGES 2048 /* there is room for so many at first */
#define DRIVER_PAGE (UINT64_C(2) << 20)

struct areas {
	VT_VEC(struct vt_range_area) list;
};

static bool is_shared_zero(const struct vt_map_entry *e)
{
	return (e->flags & VT_MAP_SHARED) && !strncmp(e->path, "/dev/zero", 9);
}

/*
 * Where the driver has its addresses: reserved ones, without access, in whole pages of its own;
 * mappings of its device files; and host memory that it allocates, which is shared without a file.
 */
static bool is_candidate(const struct vt_map_entry *e)
{
	unsigned int access = e->flags & (VT_MAP_READ | VT_MAP_WRITE | VT_MAP_EXEC);

	if (!e->path[0])
		return !access && e->end - e->start >= DRIVER_PAGE;
	return !strncmp(e->path, "/dev/nvidia", 11) || is_shared_zero(e);
}

/* Large ones last: what the deadline cuts off is likely empty. */
static int compare_areas(const void *pa, const void *pb)
{
	const struct vt_range_area *a = pa, *b = pb;
	uint64_t x = a->end - a->start, y = b->end - b->start;

	if (x != y)
		return x < y ? -1 : 1;
	return (a->start > b->start) - (a->start < b->start);
}

/* Neighbours are one area: an allocation may cross from one to the next. */
static bool add_area(struct areas *areas, const struct vt_map_entry *e)
{
	struct vt_range_area *last = areas->list.n ? &areas->list.data[areas->list.n - 1] : NULL;

	if (last && last->end == e->start) {
		last->end = e->end;
		return true;
	}
	last = vt_vec_append(&areas->list);
	if (last)
		*last = (struct vt_range_area){ e->start, e->end };
	return last;
}

static struct vt_error *find_areas(struct vt_collect *c, struct areas *areas)
{
	struct vt_maps maps = { 0 };
	struct vt_error *err;

	VT_TRY(vt_maps_init(&maps, c->target.proc.pid));
	err = NULL;
	for (size_t i = 0; !err && i < maps.entries.n; i++)
		if (is_candidate(&maps.entries.data[i]) && !add_area(areas, &maps.entries.data[i]))
			err = &vt_enomem;
	vt_target_offer_maps(&c->target, &maps);
	if (!err && areas->list.n)
		qsort(areas->list.data, areas->list.n, sizeof(*areas->list.data), compare_areas);
	return err;
}

static struct vt_error *ask(struct vt_collect *c, struct vt_helper *helper, struct areas *areas)
{
	size_t n = areas->list.n < MAX_AREAS ? areas->list.n : MAX_AREAS;
	uint64_t head = n * sizeof(struct vt_range_area);
	struct vt_helper_shared *shared;

	VT_TRY(vt_helper_grow(helper, VT_HELPER_ROOM_OFFSET + head +
					      FIRST_RANGES * sizeof(struct vt_range_rec)));
	shared = vt_helper_shared(helper);
	memset(&shared->ranges, 0, sizeof(shared->ranges));
	if (n)
		memcpy((char *)shared + VT_HELPER_ROOM_OFFSET, areas->list.data, head);
	shared->args.ranges = (struct vt_ranges_args){
		.n_areas = n,
		.budget_ns = BUDGET_NS,
		.max_probes = MAX_PROBES,
		.max_ranges = MAX_RANGES,
	};
	areas->list.n = n;
	return vt_helper_call(helper, VT_OP_RANGES, vt_now_ns() + c->options->budget_ns);
}

/* ---- the answer ---- */

static struct vt_error *take_ranges(struct vt_collect *c, struct vt_helper *helper, size_t n_areas,
				    uint64_t n)
{
	struct vt_model_ledger *ledger = &c->model->ledger;
	const struct vt_range_rec *recs =
		vt_helper_room(helper, n_areas * sizeof(struct vt_range_area), n, sizeof(*recs));

	if (!recs)
		return vt_error_create(VT_ERR_FORMAT, "the helper's answer is out of bounds");
	if (!vt_vec_reserve(&ledger->ranges, n))
		return &vt_enomem;
	for (uint64_t i = 0; i < n; i++)
		ledger->ranges.data[i] = (struct vt_model_range){ .rec = recs[i] };
	ledger->ranges.n = n;
	return NULL;
}

static bool add_pool(struct vt_model_ledger *ledger, int device, const struct vt_cuda_pool *from)
{
	struct vt_model_ledger_pool *pool = vt_vec_append(&ledger->pools);

	if (pool)
		*pool = (struct vt_model_ledger_pool){
			.device = device,
			.handle = from->handle,
			.known = !from->error,
			.reserved_bytes = from->reserved,
			.used_bytes = from->used,
		};
	return pool;
}

/* Those found now, then the default and the current one, whose totals are a little older. */
static bool take_pools(struct vt_collect *c, const struct vt_ranges_answer *answer)
{
	struct vt_model_ledger *ledger = &c->model->ledger;

	for (uint32_t i = 0; i < answer->n_pools && i < VT_MAX_FOUND_POOLS; i++)
		if (!add_pool(ledger, answer->pools[i].device, &answer->pools[i].pool))
			return false;
	for (size_t i = 0; i < c->model->devices.n; i++) {
		const struct vt_model_device *device = &c->model->devices.data[i];

		for (size_t k = 0; k < device->n_pools; k++) {
			const struct vt_cuda_pool pool = {
				.handle = device->pools[k].handle,
				.reserved = device->pools[k].reserved_bytes,
				.used = device->pools[k].used_bytes,
			};

			if (!add_pool(ledger, device->ordinal, &pool))
				return false;
		}
	}
	return true;
}

static bool take_devices(struct vt_model_ledger *ledger, const struct vt_ranges_answer *answer)
{
	for (int i = 0; i < VT_MAX_CUDA_DEVICES; i++) {
		const struct vt_device_use *use = &answer->devices[i];
		struct vt_model_ledger_device *d;

		if (!use->known)
			continue;
		d = vt_vec_append(&ledger->devices);
		if (!d)
			return false;
		*d = (struct vt_model_ledger_device){
			.device = i,
			.graph_known = use->graph_known,
			.graph_used_bytes = use->graph_used,
			.graph_reserved_bytes = use->graph_reserved,
		};
	}
	return true;
}

/* What there is even if one question was never answered. */
static struct vt_error *take(struct vt_collect *c, struct vt_helper *helper, size_t n_areas)
{
	/* A copy: the target could change the shared file between a check and a use. */
	const struct vt_ranges_answer answer = vt_helper_shared(helper)->ranges;
	struct vt_model_ledger *ledger = &c->model->ledger;

	if (answer.n_ranges > MAX_RANGES)
		return vt_error_create(VT_ERR_FORMAT, "the helper answered with %llu ranges",
				       (unsigned long long)answer.n_ranges);
	VT_TRY(take_ranges(c, helper, n_areas, answer.n_ranges));
	if (!take_pools(c, &answer) || !take_devices(ledger, &answer))
		return &vt_enomem;
	ledger->known = ledger->devices.n > 0;
	ledger->whole = answer.whole && n_areas < MAX_AREAS;
	ledger->by_attributes = answer.by_attributes;
	ledger->fault = answer.range_error;
	ledger->pools_asked = answer.asked_pools;
	ledger->step_bytes = answer.step_bytes;
	ledger->probes = answer.probes;
	ledger->inside_ms = (double)answer.total_ns / VT_NS_PER_MS;
	return NULL;
}

bool vt_collect_ledger(struct vt_collect *c, struct vt_helper *helper)
{
	uint64_t start = vt_now_ns();
	struct areas areas = { 0 };
	struct vt_error *err = find_areas(c, &areas), *late = NULL;

	if (!err)
		late = ask(c, helper, &areas);
	if (!err)
		err = take(c, helper, areas.list.n);
	vt_vec_deinit(&areas.list);
	c->model->ledger.total_ms = (double)(vt_now_ns() - start) / VT_NS_PER_MS;
	if (err) {
		vt_model_ledger_deinit(&c->model->ledger);
		c->model->ledger = (struct vt_model_ledger){ 0 };
		vt_error_destroy(late);
		vt_collect_diag_error(c, VT_DIAG_NOTE, VT_STAGE_CUDA,
				      "what other libraries allocated is not listed", err);
		return false;
	}
	if (!late)
		return true;
	c->model->ledger.whole = false;
	vt_collect_diag_error(c, VT_DIAG_NOTE, VT_STAGE_CUDA,
			      "not all that other libraries allocated is listed", late);
	return false;
}
