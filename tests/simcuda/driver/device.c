/* SPDX-License-Identifier: Apache-2.0 */
/* cuInit, device queries, contexts, error texts. */
#include "drv.h"

DRV(cuInit, unsigned flags)
{
	int err = sim_enter(__func__);

	if (err)
		return err;
	return flags ? SIM_EINVAL : sim_init();
}

DRV(cuDriverGetVersion, int *version)
{
	*version = SIM_DRIVER_VERSION;
	return sim_enter(__func__);
}

DRV(cuDeviceGetCount, int *count)
{
	DRV_ENTER();
	*count = sim_config.devices;
	return SIM_OK;
}

DRV(cuDeviceGet, int *device, int ordinal)
{
	DRV_ENTER();
	*device = ordinal;
	return sim_check_device(ordinal);
}

DRV(cuDeviceGetName, char *name, int len, int device)
{
	DRV_ENTER();
	if (sim_check_device(device))
		return SIM_EBADDEVICE;
	sim_device_name(device, name, (size_t)len);
	return SIM_OK;
}

DRV(cuDeviceGetUuid_v2, void *uuid, int device)
{
	DRV_ENTER();
	if (sim_check_device(device))
		return SIM_EBADDEVICE;
	sim_device_uuid(device, uuid);
	return SIM_OK;
}

DRV(cuDeviceGetUuid, void *uuid, int device)
{
	return cuDeviceGetUuid_v2(uuid, device);
}

DRV(cuDeviceGetPCIBusId, char *text, int len, int device)
{
	DRV_ENTER();
	if (sim_check_device(device))
		return SIM_EBADDEVICE;
	sim_device_pci(device, text, (size_t)len);
	return SIM_OK;
}

DRV(cuDeviceTotalMem_v2, size_t *bytes, int device)
{
	DRV_ENTER();
	if (sim_check_device(device))
		return SIM_EBADDEVICE;
	*bytes = sim_config.mem_bytes;
	return SIM_OK;
}

DRV(cuDeviceGetAttribute, int *value, int attr, int device)
{
	DRV_ENTER();
	if (sim_check_device(device))
		return SIM_EBADDEVICE;
	*value = sim_device_attr(attr, device);
	return SIM_OK;
}

DRV(cuDeviceCanAccessPeer, int *can, int device, int peer)
{
	DRV_ENTER();
	if (sim_check_device(device) || sim_check_device(peer))
		return SIM_EBADDEVICE;
	*can = device != peer;
	return SIM_OK;
}

/* ---- contexts ---- */

DRV(cuDevicePrimaryCtxGetState, int device, unsigned *flags, int *active)
{
	DRV_ENTER();
	return sim_ctx_primary_state(device, flags, active);
}

DRV(cuDevicePrimaryCtxRetain, struct sim_ctx **ctx, int device)
{
	DRV_ENTER();
	return sim_ctx_primary_retain(device, ctx);
}

DRV(cuDevicePrimaryCtxRelease_v2, int device)
{
	DRV_ENTER();
	return sim_ctx_primary_release(device);
}

DRV(cuDevicePrimaryCtxReset_v2, int device)
{
	DRV_ENTER();
	return sim_call_primary_reset(device);
}

DRV(cuDevicePrimaryCtxSetFlags_v2, int device, unsigned flags)
{
	DRV_ENTER();
	return sim_ctx_primary_flags(device, flags);
}

DRV(cuDevicePrimaryCtxRelease, int device)
{
	return cuDevicePrimaryCtxRelease_v2(device);
}

DRV(cuCtxCreate_v2, struct sim_ctx **ctx, unsigned flags, int device)
{
	DRV_ENTER();
	return sim_ctx_create(device, flags, ctx);
}

DRV(cuCtxCreate_v4, struct sim_ctx **ctx, void *params, unsigned flags, int device)
{
	(void)params;
	return cuCtxCreate_v2(ctx, flags, device);
}

DRV(cuCtxDestroy_v2, struct sim_ctx *ctx)
{
	const uint64_t params[] = { (uint64_t)(uintptr_t)ctx };
	struct sim_call call;

	DRV_ENTER();
	sim_call_begin(&call, 322, __func__, params);
	return sim_call_end(&call, sim_ctx_destroy(ctx));
}

DRV(cuCtxPushCurrent_v2, struct sim_ctx *ctx)
{
	DRV_ENTER();
	return sim_ctx_push(ctx);
}

DRV(cuCtxPopCurrent_v2, struct sim_ctx **ctx)
{
	DRV_ENTER();
	return sim_ctx_pop(ctx);
}

DRV(cuCtxSetCurrent, struct sim_ctx *ctx)
{
	DRV_ENTER();
	return sim_ctx_set(ctx);
}

DRV(cuCtxGetCurrent, struct sim_ctx **ctx)
{
	DRV_ENTER();
	*ctx = sim_ctx_current();
	return SIM_OK;
}

DRV(cuCtxGetDevice, int *device)
{
	DRV_ENTER_CTX(dev);
	*device = dev;
	return SIM_OK;
}

DRV(cuCtxGetFlags, unsigned *flags)
{
	DRV_ENTER_CTX(dev);
	*flags = sim_ctx_flags(sim_ctx_current());
	return SIM_OK;
}

DRV(cuCtxGetId, struct sim_ctx *ctx, unsigned long long *id)
{
	DRV_ENTER_CTX(dev);
	*id = sim_ctx_id(ctx ? ctx : sim_ctx_current());
	return SIM_OK;
}

DRV(cuCtxGetApiVersion, struct sim_ctx *ctx, unsigned *version)
{
	(void)ctx;
	DRV_ENTER();
	*version = 3020;
	return SIM_OK;
}

DRV(cuCtxGetStreamPriorityRange, int *least, int *greatest)
{
	DRV_ENTER_CTX(dev);
	*least = 0;
	*greatest = -5;
	return SIM_OK;
}

DRV(cuCtxGetLimit, size_t *value, int limit)
{
	DRV_ENTER_CTX(dev);
	return sim_ctx_limit(dev, limit, value);
}

DRV(cuCtxSetLimit, int limit, size_t value)
{
	DRV_ENTER_CTX(dev);
	return sim_ctx_set_limit(dev, limit, value);
}

DRV(cuCtxSynchronize, void)
{
	DRV_ENTER_CTX(dev);
	sim_device_wait_idle(dev);
	return SIM_OK;
}

/* ---- errors ---- */

DRV(cuGetErrorName, int error, const char **text)
{
	*text = sim_error_name(error);
	return SIM_OK;
}

DRV(cuGetErrorString, int error, const char **text)
{
	*text = sim_error_text(error);
	return SIM_OK;
}
