/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every allocation that the driver knows of, whichever library made it. The driver has no list to
 * give out, so addresses are asked one after the other: in steps of 2 MiB, the driver's pages; in
 * steps of 512 bytes in a page that small allocations share; and in reservations of more than 64
 * GiB (each memory pool has one, twice as large as the device) at first in steps of 32 MiB, the
 * unit of pools.
 */
#include "vramtap/freestanding.h"

#include <cuda.h>
#include <string.h>

#include "context.h"
#include "ops.h"
#include "ranges.h"

#define PTR(field, type) ((type *)shared->imports.field)

typedef CUresult count_fn(int *count);
typedef CUresult device_fn(CUdevice *device, int ordinal);
typedef CUresult state_fn(CUdevice device, unsigned int *flags, int *active);
typedef CUresult retain_fn(CUcontext *context, CUdevice device);
typedef CUresult release_fn(CUdevice device);
typedef CUresult push_fn(CUcontext context);
typedef CUresult pop_fn(CUcontext *context);
typedef CUresult graph_attribute_fn(CUdevice device, int which, void *value);

#define MIB (UINT64_C(1) << 20)
#define SLOT UINT64_C(512)
#define PAGE (2 * MIB)
#define WINDOW (32 * MIB)
#define HUGE_AREA (UINT64_C(64) << 30)
#define PROBES_PER_LOOK 1000 /* at the clock */

/*
 * A page whose first bytes are free looks empty. Beside a page with small allocations it is looked
 * at closely: the first ones slot by slot, then in larger steps, because an empty page costs 4,096
 * questions.
 */
#define CLOSE_PAGES 16
#define CLOSE_STEP (16 * UINT64_C(1024))

enum outcome { DONE, NO_ROOM, OUT_OF_TIME };

struct walk {
	struct vt_probe probe;
	struct vt_ranges_answer *answer;
	struct vt_ranges_args args;
	struct vt_range_rec *out;
	uint64_t max; /* records */
	uint64_t deadline_ns;
	unsigned int closely; /* pages that were looked at closely */
};

static uint64_t up(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) / unit * unit;
}

static uint64_t next_page(uint64_t at)
{
	return (at / PAGE + 1) * PAGE;
}

static int is_time(struct walk *w)
{
	uint64_t probes = ++w->answer->probes;

	if (probes > w->args.max_probes)
		return 1;
	return probes % PROBES_PER_LOOK == 0 && vt_sys_now_ns() > w->deadline_ns;
}

/* ---- what was found ---- */

/*
 * A pool is asked as soon as an allocation of it is known: as long as one is alive, the driver
 * keeps the pool, even if the process destroys it meanwhile.
 */
static void note_pool(struct walk *w, const struct vt_range_rec *rec)
{
	struct vt_ranges_answer *answer = w->answer;
	struct vt_found_pool *found;
	struct vt_range_rec again;

	for (uint32_t i = 0; i < answer->n_pools && i < VT_MAX_FOUND_POOLS; i++)
		if (answer->pools[i].pool.handle == rec->pool)
			return;
	if (!answer->asked_pools || answer->n_pools >= VT_MAX_FOUND_POOLS)
		return;
	if (!vt_helper_what_is_at(&w->probe, rec->start, &again) || again.pool != rec->pool)
		return;
	found = &answer->pools[answer->n_pools];
	found->device = rec->device;
	vt_helper_read_pool(w->probe.shared, rec->pool, &found->pool);
	found->pool.handle = rec->pool;
	__atomic_store_n(&answer->n_pools, answer->n_pools + 1, __ATOMIC_RELEASE);
}

/* 0: there is no room. */
static int keep(struct walk *w, const struct vt_range_rec *rec)
{
	const struct vt_range_rec *last = w->answer->n_ranges ? &w->out[w->answer->n_ranges - 1] :
								NULL;

	/* The parts of one array all answer with the size of the whole. */
	if (last && last->kind == VT_RANGE_ARRAY && rec->kind == VT_RANGE_ARRAY &&
	    last->size == rec->size && rec->start - last->start < last->size)
		return 1;
	/* Two areas can be parts of one allocation. */
	if (last && last->start == rec->start && last->kind == rec->kind)
		return 1;
	if (w->answer->n_ranges >= w->max)
		return 0;
	w->out[w->answer->n_ranges] = *rec;
	__atomic_store_n(&w->answer->n_ranges, w->answer->n_ranges + 1, __ATOMIC_RELEASE);
	if (rec->kind == VT_RANGE_POOL)
		note_pool(w, rec);
	return 1;
}

/* ---- the walk ---- */

/* Nothing is at this address. If a page begins there that may have small allocations after all: */
static void look_closely(struct walk *w, uint64_t at)
{
	struct vt_ranges_answer *a = w->answer;

	if (a->close_end != at || !a->close_found || at % PAGE)
		return;
	a->close_found = 0;
	a->close_end = at + PAGE;
	a->close_step = w->closely++ < CLOSE_PAGES ? SLOT : CLOSE_STEP;
}

/* The address behind an allocation. */
static uint64_t behind(const struct vt_range_rec *rec, uint64_t at)
{
	uint64_t next;

	if (rec->kind == VT_RANGE_ARRAY)
		return next_page(at);
	next = rec->start + rec->size;
	return next <= at ? at + SLOT : up(next, SLOT);
}

/* All of [at, end). answer->at is where it goes on: an allocation may reach beyond end. */
static enum outcome walk_closely(struct walk *w, uint64_t at, uint64_t end)
{
	struct vt_ranges_answer *a = w->answer;

	while (at < end) {
		struct vt_range_rec rec;

		a->at = at;
		if (is_time(w))
			return OUT_OF_TIME;
		if (!vt_helper_what_is_at(&w->probe, at, &rec)) {
			look_closely(w, at);
			at = at < a->close_end ? at + a->close_step : next_page(at);
			continue;
		}
		if (at < a->close_end && a->close_step == CLOSE_STEP) {
			a->close_step = SLOT; /* once more from the last step on */
			at = at - CLOSE_STEP + SLOT;
			continue;
		}
		if (!keep(w, &rec))
			return NO_ROOM;
		at = behind(&rec, at);
		if (rec.size < PAGE && rec.kind != VT_RANGE_ARRAY) {
			a->close_end = up(at, PAGE);
			a->close_step = SLOT;
			a->close_found = 1;
		}
	}
	a->at = at;
	return DONE;
}

static int is_something_at(struct walk *w, uint64_t at)
{
	struct vt_range_rec rec;

	return vt_helper_what_is_at(&w->probe, at, &rec);
}

/* A window is walked closely if something is at its start, or was in the window before. */
static enum outcome walk_huge(struct walk *w, uint64_t at, uint64_t end)
{
	int close = 1, skipped = 0;

	while (at < end) {
		uint64_t window_end = up(at + 1, WINDOW) < end ? up(at + 1, WINDOW) : end;
		uint64_t from = at, n = w->answer->n_ranges;
		enum outcome outcome;

		w->answer->at = at;
		if (is_time(w))
			return OUT_OF_TIME;
		if (!close && !is_something_at(w, at)) {
			at = window_end;
			skipped = 1;
			continue;
		}
		if (!close && skipped)
			from = at - WINDOW;
		outcome = walk_closely(w, from, window_end);
		if (outcome != DONE)
			return outcome;
		at = w->answer->at;
		close = w->answer->n_ranges > n;
		skipped = 0;
	}
	return DONE;
}

static enum outcome walk_areas(struct walk *w, const struct vt_range_area *areas)
{
	struct vt_ranges_answer *answer = w->answer;

	for (; answer->area < w->args.n_areas; answer->area++, answer->at = answer->close_end = 0) {
		struct vt_range_area area = areas[answer->area];
		uint64_t at = up(answer->at > area.start ? answer->at : area.start, SLOT);
		enum outcome outcome;

		if (area.end <= at || area.end >> 47)
			continue;
		outcome = area.end - area.start > HUGE_AREA ? walk_huge(w, at, area.end) :
							      walk_closely(w, at, area.end);
		if (outcome != DONE)
			return outcome;
	}
	answer->whole = 1;
	return DONE;
}

/* ---- devices ---- */

static int is_active(struct vt_helper_shared *shared, int ordinal, CUdevice *device)
{
	state_fn *state = PTR(cuDevicePrimaryCtxGetState, state_fn);
	unsigned int flags = 0;
	int active = 0;

	return PTR(cuDeviceGet, device_fn)(device, ordinal) == CUDA_SUCCESS &&
	       state(*device, &flags, &active) == CUDA_SUCCESS && active;
}

static int count_devices(struct vt_helper_shared *shared)
{
	int n = 0;

	if (PTR(cuDeviceGetCount, count_fn)(&n) != CUDA_SUCCESS || n < 0)
		return 0;
	return n < VT_MAX_CUDA_DEVICES ? n : VT_MAX_CUDA_DEVICES;
}

static void ask_use(struct vt_helper_shared *shared, CUdevice device, struct vt_device_use *use)
{
	enum { USED = 0, RESERVED = 2 }; /* CUgraphMem_attribute */
	graph_attribute_fn *graph = PTR(cuDeviceGetGraphMemAttribute, graph_attribute_fn);

	if (graph && graph(device, USED, &use->graph_used) == CUDA_SUCCESS &&
	    graph(device, RESERVED, &use->graph_reserved) == CUDA_SUCCESS)
		use->graph_known = 1;
	use->known = 1;
}

/* How many devices have an active context. */
static int ask_uses(struct vt_helper_shared *shared)
{
	int n = count_devices(shared), active = 0;

	for (int i = 0; i < n; i++) {
		CUdevice device = 0;

		if (!is_active(shared, i, &device))
			continue;
		active++;
		ask_use(shared, device, &shared->ranges.devices[i]);
	}
	return active;
}

static int can_ask(const struct vt_helper_shared *shared)
{
	const struct vt_helper_imports *imports = &shared->imports;

	return imports->cuDeviceGetCount && imports->cuDeviceGet && imports->cuMemGetAddressRange &&
	       imports->cuPointerGetAttribute && imports->cuDevicePrimaryCtxGetState &&
	       imports->cuDevicePrimaryCtxRetain && imports->cuDevicePrimaryCtxRelease &&
	       imports->cuCtxPushCurrent && imports->cuCtxPopCurrent;
}

uint32_t vt_helper_op_ranges(struct vt_helper_shared *shared, void *room, uint64_t room_size)
{
	struct vt_ranges_answer *answer = &shared->ranges;
	struct walk w;
	uint64_t start = vt_sys_now_ns(), head;
	enum outcome outcome;
	int active;

	memset(&w, 0, sizeof(w));
	w.args = shared->args.ranges;
	w.answer = answer;
	head = w.args.n_areas * sizeof(struct vt_range_area);
	if (!can_ask(shared))
		return VT_HELPER_OK;
	if (w.args.n_areas > room_size / sizeof(struct vt_range_area) ||
	    answer->n_ranges > (room_size - head) / sizeof(struct vt_range_rec))
		return VT_HELPER_BAD_ARGS;
	answer->asked_pools = shared->imports.cuMemPoolGetAttribute &&
			      vt_helper_spare_captures(shared);
	active = ask_uses(shared);
	if (!active || !vt_helper_borrow_context(shared, &w.probe.device)) {
		answer->whole = active == 0;
		return VT_HELPER_OK;
	}
	w.probe.shared = shared;
	w.probe.by_range = 1;
	w.probe.by_both = active > 1;
	if (answer->close_step != CLOSE_STEP)
		answer->close_step = SLOT;
	w.deadline_ns = start + w.args.budget_ns;
	w.out = (struct vt_range_rec *)((char *)room + head);
	w.max = (room_size - head) / sizeof(struct vt_range_rec);
	if (w.max > w.args.max_ranges)
		w.max = w.args.max_ranges;
	outcome = walk_areas(&w, room);
	vt_helper_return_context(shared, w.probe.device);
	answer->by_attributes = !w.probe.by_range;
	answer->total_ns += vt_sys_now_ns() - start;
	if (outcome != NO_ROOM || w.max == w.args.max_ranges)
		return VT_HELPER_OK;
	shared->room_needed = head + w.max * 4 * sizeof(struct vt_range_rec);
	return VT_HELPER_NO_ROOM;
}
