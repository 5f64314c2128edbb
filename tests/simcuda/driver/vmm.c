/* SPDX-License-Identifier: Apache-2.0 */
/* The virtual memory management calls (expandable segments). */
#include "drv.h"

#include <string.h>

/* Offsets in CUmemAllocationProp and CUmemAccessDesc: type, handle types, then the location. */
#define PROP_LOCATION_TYPE 8
#define PROP_LOCATION_ID 12
#define ACCESS_SIZE 12
#define ACCESS_FLAGS 8
#define LOCATION_DEVICE 1

static int int_at(const void *base, size_t offset)
{
	int value;

	memcpy(&value, (const char *)base + offset, sizeof(value));
	return value;
}

static int prop_device(const void *prop, int *device)
{
	if (int_at(prop, PROP_LOCATION_TYPE) != LOCATION_DEVICE)
		return SIM_EUNSUPPORTED;
	*device = int_at(prop, PROP_LOCATION_ID);
	return sim_check_device(*device);
}

DRV(cuMemGetAllocationGranularity, size_t *granularity, const void *prop, int option)
{
	int device;

	DRV_ENTER();
	(void)option;
	*granularity = SIM_PAGE;
	return prop_device(prop, &device);
}

DRV(cuMemAddressReserve, uint64_t *addr, size_t size, size_t align, uint64_t hint,
    unsigned long long flags)
{
	DRV_ENTER();
	(void)flags;
	return sim_vmm_reserve(size, align, hint, addr);
}

DRV(cuMemAddressFree, uint64_t addr, size_t size)
{
	DRV_ENTER();
	return sim_vmm_unreserve(addr, size);
}

DRV(cuMemCreate, struct sim_handle **handle, size_t size, const void *prop,
    unsigned long long flags)
{
	const uint64_t params[] = { (uint64_t)(uintptr_t)handle, size, (uint64_t)(uintptr_t)prop,
				    flags };
	struct sim_call call;
	int device, err;

	DRV_ENTER();
	sim_call_begin(&call, 549, __func__, params);
	err = prop_device(prop, &device);
	return sim_call_end(&call, err ? err : sim_vmm_create(device, size, prop, handle));
}

DRV(cuMemRelease, struct sim_handle *handle)
{
	const uint64_t params[] = { (uint64_t)(uintptr_t)handle };
	struct sim_call call;

	DRV_ENTER();
	sim_call_begin(&call, 550, __func__, params);
	return sim_call_end(&call, sim_vmm_release(handle));
}

DRV(cuMemMap, uint64_t addr, size_t size, size_t offset, struct sim_handle *handle,
    unsigned long long flags)
{
	const uint64_t params[] = { addr, size, offset, (uint64_t)(uintptr_t)handle, flags };
	struct sim_call call;

	DRV_ENTER();
	sim_call_begin(&call, 551, __func__, params);
	return sim_call_end(&call, sim_vmm_map(addr, size, offset, handle));
}

DRV(cuMemUnmap, uint64_t addr, size_t size)
{
	const uint64_t params[] = { addr, size };
	struct sim_call call;

	DRV_ENTER();
	sim_call_begin(&call, 552, __func__, params);
	return sim_call_end(&call, sim_vmm_unmap(addr, size));
}

DRV(cuMemSetAccess, uint64_t addr, size_t size, const void *desc, size_t count)
{
	int err = SIM_OK;

	DRV_ENTER();
	for (size_t i = 0; i < count && !err; i++)
		err = sim_vmm_access(addr, size,
				     (unsigned)int_at(desc, i * ACCESS_SIZE + ACCESS_FLAGS));
	return err;
}

DRV(cuMemGetAccess, unsigned long long *flags, const void *location, uint64_t addr)
{
	DRV_ENTER();
	(void)location;
	return sim_vmm_access_get(addr, flags);
}

DRV(cuMemRetainAllocationHandle, struct sim_handle **handle, void *addr)
{
	DRV_ENTER();
	return sim_vmm_retain((uint64_t)(uintptr_t)addr, handle);
}

DRV(cuMemGetAllocationPropertiesFromHandle, void *prop, struct sim_handle *handle)
{
	DRV_ENTER();
	return sim_vmm_prop(handle, prop);
}
