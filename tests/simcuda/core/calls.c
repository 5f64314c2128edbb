/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of the driver as a subscriber of CUPTI sees them. Each has the number and the parameters
 * that NVIDIA's headers give (cupti_driver_cbid.h, generated_cuda_meta.h of CUDA 13.0); a word each
 * does for them all.
 */
#include "sim.h"

static uint64_t num(const void *p)
{
	return (uint64_t)(uintptr_t)p;
}

int sim_call_mem_alloc(int device, uint64_t size, enum sim_kind kind, uint64_t *addr)
{
	const uint64_t params[] = { num(addr), size, 1 };
	int managed = kind == SIM_MANAGED;
	struct sim_call call;

	sim_call_begin(&call, managed ? 371 : 243, managed ? "cuMemAllocManaged" : "cuMemAlloc_v2",
		       params);
	return sim_call_end(&call, sim_mem_alloc(device, size, kind, addr));
}

int sim_call_mem_free(uint64_t addr)
{
	const uint64_t params[] = { addr };
	struct sim_call call;
	struct sim_where w;
	int err = SIM_EINVAL;

	sim_call_begin(&call, 245, "cuMemFree_v2", params);
	if (!sim_where(addr, &w) && w.base == addr) {
		sim_free_waits(w.device, 1);
		sim_device_wait_idle(w.device);
		sim_free_waits(w.device, -1);
		err = w.pool ? sim_pool_free(addr) : sim_mem_free(addr);
	}
	return sim_call_end(&call, err);
}

int sim_call_host_alloc(uint64_t size, int device, uint64_t *addr)
{
	const uint64_t params[] = { num(addr), size, 0 };
	struct sim_call call;

	sim_call_begin(&call, 39, "cuMemHostAlloc", params);
	return sim_call_end(&call, sim_host_alloc(size, device, addr));
}

int sim_call_host_free(uint64_t addr)
{
	const uint64_t params[] = { addr };
	struct sim_call call;

	sim_call_begin(&call, 38, "cuMemFreeHost", params);
	return sim_call_end(&call, sim_host_free(addr));
}

int sim_call_pool_alloc(struct sim_pool *pool, uint64_t size, void *stream, uint64_t *addr)
{
	const uint64_t params[] = { num(addr), size, num(stream) };
	struct sim_stream *s = sim_stream_get(stream, sim_pool_device(pool));
	struct sim_call call;

	/* What is allocated while a graph is captured is the graph's. */
	if (s && sim_stream_capture(s)->graph)
		pool = sim_pool_of_graphs(sim_pool_device(pool));
	sim_call_begin(&call, 598, "cuMemAllocAsync", params);
	return sim_call_end(&call, sim_pool_alloc(pool, size, addr));
}

int sim_call_pool_free(uint64_t addr, void *stream)
{
	const uint64_t params[] = { addr, num(stream) };
	struct sim_call call;

	sim_call_begin(&call, 600, "cuMemFreeAsync", params);
	return sim_call_end(&call, sim_pool_free(addr));
}

int sim_call_primary_reset(int device)
{
	const uint64_t params[] = { (uint64_t)(uint32_t)device };
	struct sim_call call;

	sim_call_begin(&call, 545, "cuDevicePrimaryCtxReset_v2", params);
	return sim_call_end(&call, sim_ctx_primary_reset(device));
}
