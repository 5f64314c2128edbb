/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much local memory the kernels of each device can have: VT_OP_LIMITS. cuCtxGetLimit() waits
 * while a thread frees memory on a device that hangs (seen with the driver 580.159.04), so the tool
 * asks for this last, and only where it has seen that no thread is inside the driver.
 */
#include "vramtap/freestanding.h"

#include <string.h>

#include "context.h"
#include "ops.h"
#include "vramtap/driver_abi.h"

#define PTR(field, type) ((type *)shared->imports.field)

typedef CUresult count_fn(int *count);
typedef CUresult attribute_fn(int *value, CUdevice_attribute attribute, CUdevice device);
typedef CUresult limit_fn(size_t *value, CUlimit limit);

static int ask_attribute(struct vt_helper_shared *shared, CUdevice_attribute attribute, int device,
			 uint32_t *value)
{
	int answer = 0;

	if (PTR(cuDeviceGetAttribute, attribute_fn)(&answer, attribute, device) != CUDA_SUCCESS ||
	    answer <= 0)
		return 0;
	*value = (uint32_t)answer;
	return 1;
}

static void ask_device(struct vt_helper_shared *shared, int ordinal, struct vt_device_limits *out)
{
	size_t stack = 0;
	int device = 0;

	if (!vt_helper_borrow_context_of(shared, ordinal, &device))
		return;
	if (ask_attribute(shared, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device,
			  &out->multiprocessors) &&
	    ask_attribute(shared, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, device,
			  &out->threads) &&
	    PTR(cuCtxGetLimit, limit_fn)(&stack, CU_LIMIT_STACK_SIZE) == CUDA_SUCCESS) {
		out->stack_bytes = stack;
		out->known = 1;
	}
	vt_helper_return_context(shared, device);
}

uint32_t vt_helper_op_limits(struct vt_helper_shared *shared)
{
	const struct vt_helper_imports *imports = &shared->imports;
	int n = 0;

	memset(shared->limits, 0, sizeof(shared->limits));
	if (!imports->cuCtxGetLimit || !imports->cuDeviceGetAttribute ||
	    !imports->cuDeviceGetCount || PTR(cuDeviceGetCount, count_fn)(&n) != CUDA_SUCCESS)
		return VT_HELPER_OK;
	vt_helper_spare_captures(shared);
	for (int i = 0; i < n && i < VT_MAX_CUDA_DEVICES; i++)
		ask_device(shared, i, &shared->limits[i]);
	return VT_HELPER_OK;
}
