/* SPDX-License-Identifier: Apache-2.0 */
/* Allocation, copies, pointer attributes and pools of the runtime API. */
#include "rt.h"

#include <string.h>

static uint64_t num(const void *p)
{
	return (uint64_t)(uintptr_t)p;
}

static int store_ptr(void **out, uint64_t addr, int err)
{
	if (!err)
		*out = (void *)(uintptr_t)addr;
	return rt_result(err);
}

RT(cudaMalloc, void **ptr, size_t size)
{
	uint64_t addr = 0;
	int err;

	RT_ENTER_CTX(dev);
	if (!size) {
		*ptr = NULL;
		return SIM_OK;
	}
	err = sim_call_mem_alloc(dev, size, SIM_DEVICE, &addr);
	return store_ptr(ptr, addr, err);
}

RT(cudaMallocManaged, void **ptr, size_t size, unsigned flags)
{
	uint64_t addr = 0;
	int err;

	RT_ENTER_CTX(dev);
	(void)flags;
	err = sim_call_mem_alloc(dev, size, SIM_MANAGED, &addr);
	return store_ptr(ptr, addr, err);
}

/* Waits for the whole device, and so for ever on one that hangs. */
RT(cudaFree, void *ptr)
{
	RT_ENTER_CTX(dev);
	return ptr ? rt_result(sim_call_mem_free(num(ptr))) : SIM_OK;
}

RT(cudaMemGetInfo, size_t *free_bytes, size_t *total)
{
	uint64_t f, t;

	RT_ENTER_CTX(dev);
	sim_mem_info(dev, &f, &t);
	*free_bytes = f;
	*total = t;
	return SIM_OK;
}

/* ---- host memory ---- */

RT(cudaHostAlloc, void **ptr, size_t size, unsigned flags)
{
	uint64_t addr = 0;
	int err;

	RT_ENTER_CTX(dev);
	(void)flags;
	err = sim_call_host_alloc(size, dev, &addr);
	return store_ptr(ptr, addr, err);
}

RT(cudaMallocHost, void **ptr, size_t size)
{
	return cudaHostAlloc(ptr, size, 0);
}

RT(cudaFreeHost, void *ptr)
{
	RT_ENTER_CTX(dev);
	return ptr ? rt_result(sim_call_host_free(num(ptr))) : SIM_OK;
}

RT(cudaHostRegister, void *ptr, size_t size, unsigned flags)
{
	RT_ENTER_CTX(dev);
	(void)flags;
	return rt_result(sim_host_register(num(ptr), size, dev));
}

RT(cudaHostUnregister, void *ptr)
{
	RT_ENTER_CTX(dev);
	return rt_result(sim_host_unregister(num(ptr)));
}

RT(cudaHostGetDevicePointer, void **device_ptr, void *ptr, unsigned flags)
{
	RT_ENTER_CTX(dev);
	(void)flags;
	*device_ptr = ptr;
	return SIM_OK;
}

/* ---- copies ---- */

RT(cudaMemcpy, void *dst, const void *src, size_t size, int kind)
{
	RT_ENTER_CTX(dev);
	(void)kind;
	sim_stream_wait_idle(sim_stream_get(NULL, dev));
	sim_copy(dst, src, size);
	return SIM_OK;
}

RT(cudaMemcpyAsync, void *dst, const void *src, size_t size, int kind, void *stream)
{
	RT_ENTER_CTX(dev);
	RT_STREAM(s, stream, dev);
	(void)kind;
	sim_stream_work(s);
	if (!sim_hung(dev))
		sim_copy(dst, src, size);
	return SIM_OK;
}

RT(cudaMemcpyPeerAsync, void *dst, int dst_device, const void *src, int src_device, size_t size,
   void *stream)
{
	(void)dst_device, (void)src_device;
	return cudaMemcpyAsync(dst, src, size, 3, stream);
}

RT(cudaMemcpy2DAsync, char *dst, size_t dst_pitch, const char *src, size_t src_pitch, size_t width,
   size_t height, int kind, void *stream)
{
	int err = SIM_OK;

	for (size_t row = 0; row < height && !err; row++)
		err = cudaMemcpyAsync(dst + row * dst_pitch, src + row * src_pitch, width, kind,
				      stream);
	return err;
}

RT(cudaMemcpyToSymbol, const void *symbol, const void *src, size_t size, size_t offset, int kind)
{
	RT_ENTER_CTX(dev);
	(void)symbol, (void)src, (void)size, (void)offset, (void)kind;
	return SIM_OK;
}

RT(cudaMemset, void *ptr, int value, size_t size)
{
	RT_ENTER_CTX(dev);
	(void)ptr, (void)value, (void)size;
	return SIM_OK;
}

RT(cudaMemsetAsync, void *ptr, int value, size_t size, void *stream)
{
	RT_ENTER_CTX(dev);
	RT_STREAM(s, stream, dev);
	(void)ptr, (void)value, (void)size;
	sim_stream_work(s);
	return SIM_OK;
}

/* ---- what an address is ---- */

struct pointer_attributes { /* CUDA 13 appended reserved words */
	int type, device;
	void *device_pointer, *host_pointer;
#if SIMCUDA_CUDART >= 13
	long reserved[8];
#endif
};

RT(cudaPointerGetAttributes, struct pointer_attributes *attr, const void *ptr)
{
	struct sim_where w;
	int host;

	RT_ENTER_CTX(dev);
	memset(attr, 0, sizeof(*attr));
	attr->device = -2; /* cudaInvalidDeviceId */
	if (sim_where(num(ptr), &w)) {
		attr->host_pointer = (void *)(uintptr_t)ptr; /* plain host memory: type 0 */
		return SIM_OK;
	}
	host = w.kind == SIM_HOST || w.kind == SIM_HOSTREG;
	attr->type = w.kind == SIM_MANAGED ? 3 : host ? 1 : 2;
	attr->device = w.device;
	attr->device_pointer = (void *)(uintptr_t)ptr;
	if (host || w.kind == SIM_MANAGED)
		attr->host_pointer = (void *)(uintptr_t)ptr;
	return SIM_OK;
}

/* ---- pools ---- */

RT(cudaDeviceGetDefaultMemPool, struct sim_pool **pool, int device)
{
	RT_ENTER();
	if (sim_check_device(device))
		return rt_result(SIM_EBADDEVICE);
	*pool = sim_pool_default(device);
	return SIM_OK;
}

RT(cudaDeviceGetMemPool, struct sim_pool **pool, int device)
{
	RT_ENTER();
	if (sim_check_device(device))
		return rt_result(SIM_EBADDEVICE);
	*pool = sim_pool_current(device);
	return SIM_OK;
}

RT(cudaMemPoolGetAttribute, struct sim_pool *pool, int attr, void *value)
{
	int err;

	RT_ENTER();
	err = sim_capture_unsafe();
	return rt_result(err                  ? err :
			 sim_pool_valid(pool) ? sim_pool_get(pool, attr, value) :
						SIM_EINVAL);
}

RT(cudaMemPoolSetAttribute, struct sim_pool *pool, int attr, void *value)
{
	RT_ENTER();
	return rt_result(sim_pool_valid(pool) ? sim_pool_set(pool, attr, value) : SIM_EINVAL);
}

RT(cudaMemPoolSetAccess, struct sim_pool *pool, const void *desc, size_t count)
{
	RT_ENTER();
	(void)desc, (void)count;
	return rt_result(sim_pool_valid(pool) ? SIM_OK : SIM_EINVAL);
}

RT(cudaMemPoolTrimTo, struct sim_pool *pool, size_t keep)
{
	RT_ENTER();
	return rt_result(sim_pool_valid(pool) ? sim_pool_trim(pool, keep) : SIM_EINVAL);
}

RT(cudaMallocAsync, void **ptr, size_t size, void *stream)
{
	uint64_t addr = 0;
	int err;

	RT_ENTER_CTX(dev);
	RT_STREAM(s, stream, dev);
	err = sim_call_pool_alloc(sim_pool_current(sim_stream_device(s)), size, stream, &addr);
	return store_ptr(ptr, addr, err);
}

RT(cudaFreeAsync, void *ptr, void *stream)
{
	RT_ENTER_CTX(dev);
	RT_STREAM(s, stream, dev);
	return ptr ? rt_result(sim_call_pool_free(num(ptr), stream)) : SIM_OK;
}
