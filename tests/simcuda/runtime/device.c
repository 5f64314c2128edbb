/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, contexts and errors of the runtime API. */
#define _GNU_SOURCE
#include "rt.h"

#include <dlfcn.h>

static __thread int last_error;
static __thread int my_device;
static int retained[SIM_MAX_DEVICES]; /* the runtime keeps one reference a device */

int rt_result(int err)
{
	/* "Not ready" is an answer; the real runtime remembers it all the same. */
	if (err)
		last_error = err;
	return err;
}

/* The real runtime loads the driver library at its first call, and so do we. */
static void *driver_library(void)
{
	static void *handle;

	if (!__atomic_load_n(&handle, __ATOMIC_ACQUIRE))
		__atomic_store_n(&handle, dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL),
				 __ATOMIC_RELEASE);
	return handle;
}

int rt_enter(const char *function)
{
	int err = sim_enter(function);

	if (err || sim_ready())
		return err;
	driver_library();
	return sim_init();
}

int rt_device(void)
{
	struct sim_ctx *ctx = sim_ctx_current();

	return ctx ? sim_ctx_device(ctx) : my_device;
}

static int activate(int device)
{
	struct sim_ctx *ctx = sim_ctx_primary_of(device);
	int err;

	if (!ctx || !__atomic_load_n(&retained[device], __ATOMIC_ACQUIRE)) {
		err = sim_ctx_primary_retain(device, &ctx);
		if (err)
			return err;
		if (__atomic_exchange_n(&retained[device], 1, __ATOMIC_ACQ_REL))
			sim_ctx_primary_release(device); /* another thread was faster */
	}
	return sim_ctx_set(ctx);
}

int rt_context(int *device)
{
	struct sim_ctx *ctx = sim_ctx_current();

	if (ctx) {
		*device = sim_ctx_device(ctx);
		return SIM_OK;
	}
	*device = my_device;
	return activate(my_device);
}

RT(cudaGetDeviceCount, int *count)
{
	*count = 0;
	RT_ENTER();
	*count = sim_config.devices;
	return SIM_OK;
}

RT(cudaGetDevice, int *device)
{
	RT_ENTER();
	*device = rt_device();
	return SIM_OK;
}

/* Since CUDA 12 this makes the primary context active. */
RT(cudaSetDevice, int device)
{
	RT_ENTER();
	if (sim_check_device(device))
		return rt_result(SIM_EBADDEVICE);
	my_device = device;
	return rt_result(activate(device));
}

RT(cudaInitDevice, int device, unsigned device_flags, unsigned flags)
{
	(void)device_flags, (void)flags;
	return cudaSetDevice(device);
}

RT(cudaDeviceReset, void)
{
	RT_ENTER();
	__atomic_store_n(&retained[rt_device()], 0, __ATOMIC_RELEASE);
	return rt_result(sim_call_primary_reset(rt_device()));
}

RT(cudaDeviceGetAttribute, int *value, int attr, int device)
{
	RT_ENTER();
	if (sim_check_device(device))
		return rt_result(SIM_EBADDEVICE);
	*value = sim_device_attr(attr, device);
	return SIM_OK;
}

RT(cudaDeviceGetPCIBusId, char *text, int len, int device)
{
	RT_ENTER();
	if (sim_check_device(device))
		return rt_result(SIM_EBADDEVICE);
	sim_device_pci(device, text, (size_t)len);
	return SIM_OK;
}

RT(cudaDeviceCanAccessPeer, int *can, int device, int peer)
{
	RT_ENTER();
	if (sim_check_device(device) || sim_check_device(peer))
		return rt_result(SIM_EBADDEVICE);
	*can = device != peer;
	return SIM_OK;
}

RT(cudaDeviceEnablePeerAccess, int peer, unsigned flags)
{
	static int enabled[SIM_MAX_DEVICES][SIM_MAX_DEVICES];

	RT_ENTER_CTX(dev);
	(void)flags;
	if (sim_check_device(peer) || peer == dev)
		return rt_result(SIM_EBADDEVICE);
	if (__atomic_exchange_n(&enabled[dev][peer], 1, __ATOMIC_RELAXED))
		return rt_result(SIM_EPEERENABLED);
	return SIM_OK;
}

RT(cudaDeviceGetStreamPriorityRange, int *least, int *greatest)
{
	RT_ENTER_CTX(dev);
	*least = 0;
	*greatest = -5;
	return SIM_OK;
}

RT(cudaDeviceSynchronize, void)
{
	RT_ENTER_CTX(dev);
	sim_device_wait_idle(dev);
	return SIM_OK;
}

RT(cudaDriverGetVersion, int *version)
{
	*version = sim_config.devices ? SIM_DRIVER_VERSION : 0;
	return rt_result(sim_enter(__func__));
}

RT(cudaRuntimeGetVersion, int *version)
{
	*version = SIMCUDA_CUDART == 11 ? 11070 : SIMCUDA_CUDART == 12 ? 12080 : 13000;
	return rt_result(sim_enter(__func__));
}

/* ---- errors ---- */

RT(cudaGetLastError, void)
{
	int err = last_error;

	last_error = SIM_OK;
	return err;
}

RT(cudaPeekAtLastError, void)
{
	return last_error;
}

const char *cudaGetErrorName(int error);
const char *cudaGetErrorName(int error)
{
	return sim_error_name_rt(error);
}

const char *cudaGetErrorString(int error);
const char *cudaGetErrorString(int error)
{
	return sim_error_text(error);
}

/* ---- the way from the runtime to the driver ---- */

RT(cudaGetDriverEntryPointByVersion, const char *symbol, void **fn, unsigned version,
   unsigned long long flags, int *status)
{
	int (*get)(const char *, void **, int, uint64_t, int *);
	int found = 1, err;

	RT_ENTER();
	*fn = NULL;
	*(void **)&get = dlsym(driver_library(), "cuGetProcAddress_v2");
	err = get ? get(symbol, fn, (int)version, flags, &found) : SIM_ENOTFOUND;
	if (!status)
		return rt_result(err);
	*status = found; /* then a missing symbol is not an error */
	return err == SIM_ENOTFOUND ? SIM_OK : rt_result(err);
}

RT(cudaGetDriverEntryPoint, const char *symbol, void **fn, unsigned long long flags, int *status)
{
	return cudaGetDriverEntryPointByVersion(symbol, fn, SIM_DRIVER_VERSION, flags, status);
}

RT(cudaProfilerStart, void)
{
	RT_ENTER();
	return SIM_OK;
}

RT(cudaProfilerStop, void)
{
	RT_ENTER();
	return SIM_OK;
}
