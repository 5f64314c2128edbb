/* SPDX-License-Identifier: Apache-2.0 */
/* Allocation, copies, what an address is, memory pools. */
#include "drv.h"

#include <string.h>

DRV(cuMemGetInfo_v2, size_t *free_bytes, size_t *total)
{
	uint64_t f, t;

	DRV_ENTER_CTX(dev);
	sim_mem_info(dev, &f, &t);
	*free_bytes = f;
	*total = t;
	return SIM_OK;
}

DRV(cuMemAlloc_v2, uint64_t *addr, size_t size)
{
	DRV_ENTER_CTX(dev);
	return sim_call_mem_alloc(dev, size, SIM_DEVICE, addr);
}

DRV(cuMemAllocManaged, uint64_t *addr, size_t size, unsigned flags)
{
	DRV_ENTER_CTX(dev);
	(void)flags;
	return sim_call_mem_alloc(dev, size, SIM_MANAGED, addr);
}

DRV(cuMemFree_v2, uint64_t addr)
{
	DRV_ENTER_CTX(dev);
	return addr ? sim_call_mem_free(addr) : SIM_OK;
}

DRV(cuMemHostAlloc, void **addr, size_t size, unsigned flags)
{
	uint64_t a;
	int err;

	DRV_ENTER_CTX(dev);
	(void)flags;
	err = sim_call_host_alloc(size, dev, &a);
	if (!err)
		*addr = (void *)(uintptr_t)a;
	return err;
}

DRV(cuMemAllocHost_v2, void **addr, size_t size)
{
	return cuMemHostAlloc(addr, size, 0);
}

DRV(cuMemFreeHost, void *addr)
{
	DRV_ENTER_CTX(dev);
	return sim_call_host_free((uint64_t)(uintptr_t)addr);
}

DRV(cuMemHostRegister_v2, void *addr, size_t size, unsigned flags)
{
	DRV_ENTER_CTX(dev);
	(void)flags;
	return sim_host_register((uint64_t)(uintptr_t)addr, size, dev);
}

DRV(cuMemHostUnregister, void *addr)
{
	DRV_ENTER_CTX(dev);
	return sim_host_unregister((uint64_t)(uintptr_t)addr);
}

DRV(cuMemcpyHtoD_v2, uint64_t dst, const void *src, size_t size)
{
	DRV_ENTER_CTX(dev);
	(void)dst, (void)src, (void)size;
	sim_stream_wait_idle(sim_stream_get(NULL, dev));
	return SIM_OK;
}

DRV(cuMemcpyDtoH_v2, void *dst, uint64_t src, size_t size)
{
	DRV_ENTER_CTX(dev);
	sim_stream_wait_idle(sim_stream_get(NULL, dev));
	sim_copy(dst, (const void *)(uintptr_t)src, size);
	return SIM_OK;
}

DRV(cuMemsetD32Async, uint64_t dst, unsigned value, size_t n, void *stream)
{
	DRV_ENTER_CTX(dev);
	(void)dst, (void)value, (void)n;
	sim_stream_work(sim_stream_get(stream, dev));
	return SIM_OK;
}

/* ---- what an address is ---- */

DRV(cuMemGetAddressRange_v2, uint64_t *base, size_t *size, uint64_t addr)
{
	struct sim_where w;

	DRV_ENTER_CTX(dev);
	if (sim_where(addr, &w) || !w.mapped)
		return SIM_ENOTFOUND;
	if (base)
		*base = w.kind == SIM_ARRAY ? 0 : w.base;
	if (size)
		*size = w.size;
	return SIM_OK;
}

enum { /* CUpointer_attribute */
       ATTR_CONTEXT = 1,
       ATTR_MEMORY_TYPE,
       ATTR_DEVICE_POINTER,
       ATTR_HOST_POINTER,
       ATTR_P2P_TOKENS,
       ATTR_SYNC_MEMOPS,
       ATTR_BUFFER_ID,
       ATTR_IS_MANAGED,
       ATTR_DEVICE_ORDINAL,
       ATTR_LEGACY_IPC,
       ATTR_RANGE_START,
       ATTR_RANGE_SIZE,
       ATTR_MAPPED,
       ATTR_HANDLE_TYPES,
       ATTR_GDR_CAPABLE,
       ATTR_ACCESS_FLAGS,
       ATTR_MEMPOOL,
       ATTR_MAPPING_SIZE,
       ATTR_MAPPING_BASE,
       ATTR_BLOCK_ID,
       ATTR_LAST = ATTR_BLOCK_ID,
};

static const unsigned char attr_width[ATTR_LAST + 1] = {
	[ATTR_CONTEXT] = 8,      [ATTR_MEMORY_TYPE] = 4,    [ATTR_DEVICE_POINTER] = 8,
	[ATTR_HOST_POINTER] = 8, [ATTR_SYNC_MEMOPS] = 4,    [ATTR_BUFFER_ID] = 8,
	[ATTR_IS_MANAGED] = 4,   [ATTR_DEVICE_ORDINAL] = 4, [ATTR_LEGACY_IPC] = 4,
	[ATTR_RANGE_START] = 8,  [ATTR_RANGE_SIZE] = 8,     [ATTR_MAPPED] = 4,
	[ATTR_HANDLE_TYPES] = 8, [ATTR_GDR_CAPABLE] = 4,    [ATTR_ACCESS_FLAGS] = 4,
	[ATTR_MEMPOOL] = 8,      [ATTR_MAPPING_SIZE] = 8,   [ATTR_MAPPING_BASE] = 8,
	[ATTR_BLOCK_ID] = 8,
};

static uint64_t attr_value(int attr, uint64_t addr, const struct sim_where *w)
{
	int host = w->kind == SIM_HOST || w->kind == SIM_HOSTREG;

	switch (attr) {
	case ATTR_CONTEXT:
		if (w->device < 0 || w->kind == SIM_RESERVED || w->kind == SIM_ASYNC ||
		    w->kind == SIM_GRAPH)
			return 0;
		return (uint64_t)(uintptr_t)sim_ctx_primary_of(w->device);
	case ATTR_MEMORY_TYPE:
		return host ? 1 : 2;
	case ATTR_DEVICE_POINTER:
		return addr;
	case ATTR_HOST_POINTER:
		return host || w->kind == SIM_MANAGED ? addr : 0;
	case ATTR_BUFFER_ID:
		return w->id;
	case ATTR_BLOCK_ID:
		return w->block;
	case ATTR_IS_MANAGED:
		return w->kind == SIM_MANAGED;
	case ATTR_DEVICE_ORDINAL:
		return (uint64_t)(int64_t)w->device;
	case ATTR_LEGACY_IPC:
		return w->kind == SIM_DEVICE;
	case ATTR_RANGE_START:
		return w->range_base;
	case ATTR_RANGE_SIZE:
		return w->range_size;
	case ATTR_MAPPED:
		return (uint64_t)w->mapped;
	case ATTR_ACCESS_FLAGS:
		return 3;
	case ATTR_MEMPOOL:
		return w->kind == SIM_ASYNC ? (uint64_t)(uintptr_t)w->pool : 0;
	case ATTR_HANDLE_TYPES:
		return w->handle_types;
	case ATTR_MAPPING_SIZE:
		return w->mapping_size;
	case ATTR_MAPPING_BASE:
		return w->mapping_base;
	default:
		return 0;
	}
}

static int put_attr(void *data, int attr, uint64_t addr, const struct sim_where *w)
{
	uint64_t value;

	if (attr < 1 || attr > ATTR_LAST || !attr_width[attr])
		return SIM_EINVAL;
	value = w ? attr_value(attr, addr, w) : attr == ATTR_DEVICE_ORDINAL ? ~0ull : 0;
	memcpy(data, &value, attr_width[attr]); /* little endian */
	return SIM_OK;
}

DRV(cuPointerGetAttribute, void *data, int attr, uint64_t addr)
{
	struct sim_where w;

	DRV_ENTER();
	if (sim_where(addr, &w) || !w.mapped)
		return SIM_EINVAL;
	return put_attr(data, attr, addr, &w);
}

DRV(cuPointerGetAttributes, unsigned n, const int *attrs, void **data, uint64_t addr)
{
	struct sim_where w;
	int known, err = SIM_OK;

	DRV_ENTER();
	known = !sim_where(addr, &w) && w.mapped;
	for (unsigned i = 0; i < n && !err; i++)
		err = put_attr(data[i], attrs[i], addr, known ? &w : NULL);
	return err;
}

/* ---- memory pools ---- */

DRV(cuDeviceGetDefaultMemPool, struct sim_pool **pool, int device)
{
	DRV_ENTER();
	if (sim_check_device(device))
		return SIM_EBADDEVICE;
	*pool = sim_pool_default(device);
	return SIM_OK;
}

DRV(cuDeviceGetMemPool, struct sim_pool **pool, int device)
{
	DRV_ENTER();
	if (sim_check_device(device))
		return SIM_EBADDEVICE;
	*pool = sim_pool_current(device);
	return SIM_OK;
}

DRV(cuDeviceSetMemPool, int device, struct sim_pool *pool)
{
	DRV_ENTER();
	if (sim_check_device(device) || !sim_pool_valid(pool))
		return SIM_EINVAL;
	sim_pool_set_current(device, pool);
	return SIM_OK;
}

#define POOL_PROPS_LOCATION_ID 12

DRV(cuMemPoolCreate, struct sim_pool **pool, const void *props)
{
	int device;

	DRV_ENTER();
	memcpy(&device, (const char *)props + POOL_PROPS_LOCATION_ID, sizeof(device));
	return sim_check_device(device) ? SIM_EINVAL : sim_pool_create(device, pool);
}

DRV(cuMemPoolDestroy, struct sim_pool *pool)
{
	DRV_ENTER();
	return sim_pool_valid(pool) ? sim_pool_destroy(pool) : SIM_EINVAL;
}

DRV(cuMemPoolGetAttribute, struct sim_pool *pool, int attr, void *value)
{
	int err;

	DRV_ENTER();
	err = sim_capture_unsafe();
	return err ? err : sim_pool_valid(pool) ? sim_pool_get(pool, attr, value) : SIM_EINVAL;
}

DRV(cuMemPoolSetAttribute, struct sim_pool *pool, int attr, void *value)
{
	DRV_ENTER();
	return sim_pool_valid(pool) ? sim_pool_set(pool, attr, value) : SIM_EINVAL;
}

DRV(cuMemPoolTrimTo, struct sim_pool *pool, size_t keep)
{
	DRV_ENTER();
	return sim_pool_valid(pool) ? sim_pool_trim(pool, keep) : SIM_EINVAL;
}

DRV(cuMemAllocAsync, uint64_t *addr, size_t size, void *stream)
{
	DRV_ENTER_CTX(dev);
	return sim_call_pool_alloc(sim_pool_current(dev), size, stream, addr);
}

DRV(cuMemAllocFromPoolAsync, uint64_t *addr, size_t size, struct sim_pool *pool, void *stream)
{
	DRV_ENTER();
	return sim_pool_valid(pool) ? sim_call_pool_alloc(pool, size, stream, addr) : SIM_EINVAL;
}

enum { /* CUgraphMem_attribute */
       GRAPH_USED_CURRENT,
       GRAPH_USED_HIGH,
       GRAPH_RESERVED_CURRENT,
       GRAPH_RESERVED_HIGH,
};

DRV(cuDeviceGetGraphMemAttribute, int device, int attr, uint64_t *value)
{
	struct sim_pool *pool;

	DRV_ENTER();
	if (sim_check_device(device))
		return SIM_EBADDEVICE;
	pool = sim_pool_of_graphs(device);
	if (attr == GRAPH_USED_CURRENT || attr == GRAPH_USED_HIGH)
		*value = sim_pool_used_blocks(pool);
	else
		return sim_pool_get(pool, attr == GRAPH_RESERVED_CURRENT ? 5 : 6, value);
	return SIM_OK;
}

/* ---- arrays: memory without an address of its own ---- */

DRV(cuArrayCreate_v2, void **array, const void *descriptor)
{
	static const unsigned char bytes_of[] = { [0x01] = 1, [0x02] = 2, [0x03] = 4, [0x08] = 1,
						  [0x09] = 2, [0x0a] = 4, [0x10] = 2, [0x20] = 4 };
	struct {
		size_t width, height;
		unsigned format, channels;
	} d;
	uint64_t addr;
	int err;

	DRV_ENTER_CTX(dev);
	memcpy(&d, descriptor, sizeof(d));
	if (d.format >= sizeof(bytes_of) || !bytes_of[d.format])
		return SIM_EINVAL;
	err = sim_mem_alloc(dev,
			    d.width * (d.height ? d.height : 1) * d.channels * bytes_of[d.format],
			    SIM_ARRAY, &addr);
	if (!err)
		*array = (void *)(uintptr_t)addr;
	return err;
}

DRV(cuArrayDestroy, void *array)
{
	DRV_ENTER_CTX(dev);
	return sim_mem_free((uint64_t)(uintptr_t)array);
}

DRV(cuMemFreeAsync, uint64_t addr, void *stream)
{
	DRV_ENTER_CTX(dev);
	return sim_call_pool_free(addr, stream);
}
