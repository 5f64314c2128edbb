/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libnvidia-ml.so.1: what PyTorch and a report ask the management library. It knows this process
 * only; a real one answers for all of them, and to everybody.
 */
#include "../core/sim.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { /* nvmlReturn_t */
       NVML_SUCCESS = 0,
       NVML_INVALID_ARGUMENT = 2,
       NVML_NOT_SUPPORTED = 3,
       NVML_NOT_FOUND = 6,
       NVML_INSUFFICIENT_SIZE = 7,
};

#define NVML(name, ...)        \
	int name(__VA_ARGS__); \
	int name(__VA_ARGS__)

/* A device handle is a pointer into this. */
static char handles[SIM_MAX_DEVICES];

static int device_of(const char *handle)
{
	return handle >= handles && handle < handles + sim_config.devices ?
		       (int)(handle - handles) :
		       -1;
}

NVML(nvmlInit_v2, void)
{
	return sim_enter(__func__);
}

NVML(nvmlInit, void)
{
	return nvmlInit_v2();
}

NVML(nvmlShutdown, void)
{
	return NVML_SUCCESS;
}

const char *nvmlErrorString(int code);
const char *nvmlErrorString(int code)
{
	return code ? "Not Supported" : "Success";
}

NVML(nvmlSystemGetCudaDriverVersion_v2, int *version)
{
	*version = SIM_DRIVER_VERSION;
	return NVML_SUCCESS;
}

NVML(nvmlSystemGetDriverVersion, char *text, unsigned len)
{
	snprintf(text, len, "580.0-simulated");
	return NVML_SUCCESS;
}

NVML(nvmlDeviceGetCount_v2, unsigned *count)
{
	*count = (unsigned)sim_config.devices;
	return sim_enter(__func__);
}

NVML(nvmlDeviceGetHandleByIndex_v2, unsigned index, char **handle)
{
	if (index >= (unsigned)sim_config.devices)
		return NVML_INVALID_ARGUMENT;
	*handle = &handles[index];
	return sim_enter(__func__);
}

NVML(nvmlDeviceGetHandleByPciBusId_v2, const char *pci, char **handle)
{
	unsigned domain, bus;

	if (sscanf(pci, "%x:%x:", &domain, &bus) != 2 || !bus || bus > (unsigned)sim_config.devices)
		return NVML_NOT_FOUND;
	*handle = &handles[bus - 1];
	return sim_enter(__func__);
}

NVML(nvmlDeviceGetIndex, const char *handle, unsigned *index)
{
	int d = device_of(handle);

	if (d < 0)
		return NVML_INVALID_ARGUMENT;
	*index = (unsigned)d;
	return NVML_SUCCESS;
}

NVML(nvmlDeviceGetName, const char *handle, char *name, unsigned len)
{
	int d = device_of(handle);

	if (d < 0)
		return NVML_INVALID_ARGUMENT;
	sim_device_name(d, name, len);
	return NVML_SUCCESS;
}

struct nvml_memory {
	unsigned long long total, free, used;
};

NVML(nvmlDeviceGetMemoryInfo, const char *handle, struct nvml_memory *m)
{
	int d = device_of(handle), err = sim_enter(__func__);
	uint64_t free_bytes, total;

	if (err || d < 0)
		return err ? err : NVML_INVALID_ARGUMENT;
	sim_mem_info(d, &free_bytes, &total);
	*m = (struct nvml_memory){ .total = total, .free = free_bytes, .used = total - free_bytes };
	return NVML_SUCCESS;
}

/* The record grew by two words in version 2. */
static int processes(const char *handle, unsigned *count, void *out, size_t record)
{
	struct {
		unsigned pid;
		unsigned long long used;
		unsigned gpu_instance, compute_instance;
	} p = { .pid = (unsigned)getpid(), .gpu_instance = ~0u, .compute_instance = ~0u };
	int d = device_of(handle);
	unsigned room = *count;
	uint64_t free_bytes, total;

	if (d < 0)
		return NVML_INVALID_ARGUMENT;
	*count = sim_ctx_primary_of(d) ? 1 : 0;
	if (room < *count)
		return NVML_INSUFFICIENT_SIZE;
	sim_mem_info(d, &free_bytes, &total);
	p.used = total - free_bytes - sim_others_hold(d);
	if (*count)
		memcpy(out, &p, record);
	return NVML_SUCCESS;
}

NVML(nvmlDeviceGetComputeRunningProcesses, const char *handle, unsigned *count, void *out)
{
	int err = sim_enter(__func__);

	return err ? err : processes(handle, count, out, 16);
}

NVML(nvmlDeviceGetComputeRunningProcesses_v2, const char *handle, unsigned *count, void *out)
{
	int err = sim_enter(__func__);

	return err ? err : processes(handle, count, out, 24);
}

NVML(nvmlDeviceGetComputeRunningProcesses_v3, const char *handle, unsigned *count, void *out)
{
	return nvmlDeviceGetComputeRunningProcesses_v2(handle, count, out);
}

/* No NVLink, no fabric. */

#define FABRIC_STATE 28 /* offset in nvmlGpuFabricInfoV_t; state 0 is "not supported" */

NVML(nvmlDeviceGetGpuFabricInfoV, const char *handle, char *info)
{
	info[FABRIC_STATE] = 0;
	return device_of(handle) < 0 ? NVML_INVALID_ARGUMENT : NVML_SUCCESS;
}

NVML(nvmlDeviceGetNvLinkRemoteDeviceType, const char *handle, unsigned link, int *type)
{
	(void)handle, (void)link, (void)type;
	return NVML_NOT_SUPPORTED;
}

NVML(nvmlDeviceGetNvLinkRemotePciInfo_v2, const char *handle, unsigned link, void *pci)
{
	(void)handle, (void)link, (void)pci;
	return NVML_NOT_SUPPORTED;
}
