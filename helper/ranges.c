/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation that the driver knows of, whichever library made it: VT_OP_RANGES. */
#include "vramtap/freestanding.h"

#include <string.h>

#include "context.h"
#include "ops.h"
#include "ranges.h"
#include "vramtap/driver_abi.h"

#define PTR(field, type) ((type *)shared->imports.field)

typedef CUresult count_fn(int *count);
typedef CUresult device_fn(CUdevice *device, int ordinal);
typedef CUresult state_fn(CUdevice device, unsigned int *flags, int *active);
typedef CUresult retain_fn(CUcontext *context, CUdevice device);
typedef CUresult release_fn(CUdevice device);
typedef CUresult push_fn(CUcontext context);
typedef CUresult pop_fn(CUcontext *context);
typedef CUresult graph_attribute_fn(CUdevice device, int which, void *value);

/* ---- the walk ---- */

static void start_area(struct vt_ranges_answer *answer)
{
	memset(&answer->walk, 0, sizeof(answer->walk));
}

/* Areas above 2^47 are not the driver's. */
static enum vt_walk_outcome walk_areas(struct vt_ranges_walk *w, const struct vt_range_area *areas)
{
	struct vt_ranges_answer *answer = w->answer;

	for (; answer->area < w->args.n_areas; answer->area++, start_area(answer)) {
		enum vt_walk_outcome outcome;

		w->area = areas[answer->area];
		if (w->area.end <= w->area.start || w->area.end >> 47)
			continue;
		outcome = vt_helper_walk_area(w);
		if (outcome != VT_WALK_DONE)
			return outcome;
	}
	answer->whole = 1;
	return VT_WALK_DONE;
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
	struct vt_ranges_walk w;
	uint64_t start = vt_sys_now_ns(), head;
	enum vt_walk_outcome outcome;
	int active, device = 0;

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
	if (!active || !vt_helper_borrow_context(shared, &device)) {
		answer->whole = active == 0;
		return VT_HELPER_OK;
	}
	w.probe.shared = shared;
	w.probe.by_range = 1;
	w.probe.together = shared->imports.cuPointerGetAttributes != 0;
	w.deadline_ns = start + w.args.budget_ns;
	w.next_look = answer->probes + VT_PROBES_PER_LOOK;
	w.out = (struct vt_range_rec *)((char *)room + head);
	w.max = (room_size - head) / sizeof(struct vt_range_rec);
	if (w.max > w.args.max_ranges)
		w.max = w.args.max_ranges;
	outcome = walk_areas(&w, room);
	vt_helper_return_context(shared, device);
	answer->by_attributes = !w.probe.by_range;
	answer->range_error = w.probe.error;
	answer->total_ns += vt_sys_now_ns() - start;
	if (outcome != VT_WALK_NO_ROOM || w.max == w.args.max_ranges)
		return VT_HELPER_OK;
	shared->room_needed = head + w.max * 4 * sizeof(struct vt_range_rec);
	return VT_HELPER_NO_ROOM;
}
