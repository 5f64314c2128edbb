/* SPDX-License-Identifier: Apache-2.0 */
/* struct cudaDeviceProp, written by offset. */
#include "rt.h"
#include "props.h"

#include <string.h>

#define PROP_UUID 256
#define PROP_TOTAL_MEM 288
#if SIMCUDA_CUDART == 11
#define PROP_SIZE PROP_SIZE_11
#undef PROP_MEMBERS_SINCE_12
#define PROP_MEMBERS_SINCE_12(X)
#define MEMBER(name, attr, width, twelve, thirteen) { twelve, attr, width },
#elif SIMCUDA_CUDART == 12
#define PROP_SIZE PROP_SIZE_12
#define MEMBER(name, attr, width, twelve, thirteen) { twelve, attr, width },
#else
#define PROP_SIZE PROP_SIZE_13
#define MEMBER(name, attr, width, twelve, thirteen) { thirteen, attr, width },
#endif

static const struct {
	unsigned short offset, attr, width;
} members[] = { PROP_MEMBERS(MEMBER) };

static int fill(char *prop, int device)
{
	uint64_t total = sim_config.mem_bytes;

	if (sim_check_device(device))
		return SIM_EBADDEVICE;
	memset(prop, 0, PROP_SIZE);
	sim_device_name(device, prop, 256);
	sim_device_uuid(device, (uint8_t *)prop + PROP_UUID);
	memcpy(prop + PROP_TOTAL_MEM, &total, sizeof(total));
	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
		uint64_t value = (uint64_t)sim_device_attr(members[i].attr, device);

		memcpy(prop + members[i].offset, &value, members[i].width); /* little endian */
	}
	return SIM_OK;
}

#if SIMCUDA_CUDART == 12
/* Under its old name it has the smaller structure of CUDA 11, which nobody asks for. */
RT(cudaGetDeviceProperties_v2, char *prop, int device)
#else
RT(cudaGetDeviceProperties, char *prop, int device)
#endif
{
	RT_ENTER();
	return rt_result(fill(prop, device));
}
