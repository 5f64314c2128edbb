/* SPDX-License-Identifier: Apache-2.0 */
/* How many devices there are and what they look like: compute capability 9.0, 132 SMs. */
#include "sim.h"

#include <stdio.h>
#include <string.h>

static int ready;

int sim_init(void)
{
	if (!sim_config.devices)
		return 100; /* CUDA_ERROR_NO_DEVICE */
	sim_init_begin();
	if (!sim_ready())
		sim_inject();
	__atomic_store_n(&ready, 1, __ATOMIC_RELEASE);
	sim_init_end();
	return SIM_OK;
}

int sim_ready(void)
{
	return __atomic_load_n(&ready, __ATOMIC_ACQUIRE);
}

int sim_check_device(int device)
{
	return device >= 0 && device < sim_config.devices ? SIM_OK : SIM_EBADDEVICE;
}

void sim_device_name(int device, char *buf, size_t len)
{
	snprintf(buf, len, "Simulated GPU %d", device);
}

void sim_device_pci(int device, char *buf, size_t len)
{
	snprintf(buf, len, "0000:%02X:00.0", device + 1);
}

void sim_device_uuid(int device, uint8_t uuid[16])
{
	memcpy(uuid, "vramtap-simcuda", 15);
	uuid[15] = (uint8_t)device;
}

/* CUdevice_attribute values; only those with a value other than 0. */
static const struct {
	int attr, value;
} attributes[] = {
	{ 1, 1024 },        /* MAX_THREADS_PER_BLOCK */
	{ 2, 1024 },        /* MAX_BLOCK_DIM_X */
	{ 3, 1024 },        /* MAX_BLOCK_DIM_Y */
	{ 4, 64 },          /* MAX_BLOCK_DIM_Z */
	{ 5, 2147483647 },  /* MAX_GRID_DIM_X */
	{ 6, 65535 },       /* MAX_GRID_DIM_Y */
	{ 7, 65535 },       /* MAX_GRID_DIM_Z */
	{ 8, 49152 },       /* MAX_SHARED_MEMORY_PER_BLOCK */
	{ 9, 65536 },       /* TOTAL_CONSTANT_MEMORY */
	{ 10, 32 },         /* WARP_SIZE */
	{ 11, 2147483647 }, /* MAX_PITCH */
	{ 12, 65536 },      /* MAX_REGISTERS_PER_BLOCK */
	{ 13, 1785000 },    /* CLOCK_RATE, kHz */
	{ 14, 512 },        /* TEXTURE_ALIGNMENT */
	{ 16, 132 },        /* MULTIPROCESSOR_COUNT */
	{ 19, 1 },          /* CAN_MAP_HOST_MEMORY */
	{ 31, 1 },          /* CONCURRENT_KERNELS */
	{ 36, 2619000 },    /* MEMORY_CLOCK_RATE */
	{ 37, 5120 },       /* GLOBAL_MEMORY_BUS_WIDTH */
	{ 38, 50 << 20 },   /* L2_CACHE_SIZE */
	{ 39, 2048 },       /* MAX_THREADS_PER_MULTIPROCESSOR */
	{ 40, 3 },          /* ASYNC_ENGINE_COUNT */
	{ 41, 1 },          /* UNIFIED_ADDRESSING */
	{ 75, 9 },          /* COMPUTE_CAPABILITY_MAJOR */
	{ 76, 0 },          /* COMPUTE_CAPABILITY_MINOR */
	{ 78, 1 },          /* STREAM_PRIORITIES_SUPPORTED */
	{ 81, 233472 },     /* MAX_SHARED_MEMORY_PER_MULTIPROCESSOR */
	{ 82, 65536 },      /* MAX_REGISTERS_PER_MULTIPROCESSOR */
	{ 83, 1 },          /* MANAGED_MEMORY */
	{ 90, 1 },          /* COMPUTE_PREEMPTION_SUPPORTED */
	{ 91, 1 },          /* CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM */
	{ 95, 1 },          /* COOPERATIVE_LAUNCH */
	{ 97, 232448 },     /* MAX_SHARED_MEMORY_PER_BLOCK_OPTIN */
	{ 99, 1 },          /* HOST_REGISTER_SUPPORTED */
	{ 102, 1 },         /* VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED */
	{ 103, 1 },         /* HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED */
	{ 106, 32 },        /* MAX_BLOCKS_PER_MULTIPROCESSOR */
	{ 111, 1024 },      /* RESERVED_SHARED_MEMORY_PER_BLOCK */
	{ 115, 1 },         /* MEMORY_POOLS_SUPPORTED */
	{ 120, 1 },         /* CLUSTER_LAUNCH */
};

int sim_device_attr(int attr, int device)
{
	if (attr == 33) /* PCI_BUS_ID */
		return device + 1;
	for (size_t i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++)
		if (attributes[i].attr == attr)
			return attributes[i].value;
	return 0;
}
