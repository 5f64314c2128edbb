/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices, contexts and memory, asked of the driver that the target has loaded. Nothing here may create a context: on a full
 * device that is what fails, and it costs hundreds of MiB. So the driver is never initialised, and memory is only asked for
 * with the primary context that the target itself made active.
 *
 * Each call may block when the target's other threads hold a lock of the driver. What is known is in the answer at once, so
 * that the tool has it even if the next call never returns.
 */
#include "sys.h"

#include <cuda.h>
#include <string.h>

#include "ops.h"

#define PTR(field, type) ((type *)shared->imports.field)

/* The prototypes in cuda.h, as types: cuda.h renames the functions to the newest version, and so do the imports. */
typedef CUresult driver_version_fn(int *version);
typedef CUresult count_fn(int *count);
typedef CUresult device_fn(CUdevice *device, int ordinal);
typedef CUresult name_fn(char *name, int size, CUdevice device);
typedef CUresult total_fn(size_t *bytes, CUdevice device);
typedef CUresult uuid_fn(CUuuid *uuid, CUdevice device);
typedef CUresult state_fn(CUdevice device, unsigned int *flags, int *active);
typedef CUresult retain_fn(CUcontext *context, CUdevice device);
typedef CUresult release_fn(CUdevice device);
typedef CUresult push_fn(CUcontext context);
typedef CUresult pop_fn(CUcontext *context);
typedef CUresult driver_memory_fn(size_t *free_bytes, size_t *total);
/* cudaError_t is an enum too; its success is 0 like the driver's */
typedef int runtime_memory_fn(size_t *free_bytes, size_t *total);
typedef int runtime_version_fn(int *version);

static void ask_versions(struct vt_helper_shared *shared)
{
	driver_version_fn *driver = PTR(cuDriverGetVersion, driver_version_fn);
	runtime_version_fn *runtime = PTR(cudaRuntimeGetVersion, runtime_version_fn);
	int version = 0;

	if (driver && driver(&version) == CUDA_SUCCESS)
		shared->cuda.driver_version = version;
	version = 0;
	if (runtime && !runtime(&version))
		shared->cuda.runtime_version = version;
}

/* Free and total bytes, as the current context sees them. */
static void ask_memory(struct vt_helper_shared *shared, struct vt_cuda_device *out)
{
	runtime_memory_fn *runtime = PTR(cudaMemGetInfo, runtime_memory_fn);
	driver_memory_fn *driver = PTR(cuMemGetInfo, driver_memory_fn);
	size_t free_bytes = 0, total = 0;
	uint64_t start = vt_sys_now_ns();
	int err = -1;

	if (runtime) {
		err = runtime(&free_bytes, &total);
		out->memory_from = 0;
	}
	if (err && driver) {
		err = (int)driver(&free_bytes, &total);
		out->memory_from = 1;
	}
	out->call_ns = vt_sys_now_ns() - start;
	if (err) {
		out->error = err > 0 ? err : 0;
		return;
	}
	out->free_bytes = free_bytes;
	out->total_bytes = total;
	out->have_memory = 1;
}

/*
 * The driver keeps its data of a thread in pthread-specific storage, the first 32 keys of which lie inside glibc's struct
 * pthread (2,304 bytes at the thread pointer on x86-64). Which key is found on our own thread: it is the one that leads to
 * the context that was just pushed. Seen so with the drivers 580.159.03 and .04.
 */
#define PTHREAD_BYTES 2304

static uint64_t context_at(uint64_t slot)
{
	uint64_t data = 0, top = 0, context = 0;

	if (vt_sys_peek(slot, &data, sizeof(data)) || data < 4096 || data % 8 ||
	    vt_sys_peek(data, &top, sizeof(top)) || top < 4096 || top % 8 || vt_sys_peek(top, &context, sizeof(context)))
		return 0;
	return context;
}

static int32_t find_context_slot(uint64_t context)
{
	uint64_t self;

	__asm__("mov %%fs:0x10, %0" : "=r"(self));
	for (int32_t offset = 0; offset < PTHREAD_BYTES; offset += 8)
		if (context_at(self + (uint64_t)offset) == context)
			return offset;
	return 0;
}

static int leads_to_context(int32_t slot, uint64_t context)
{
	uint64_t self;

	__asm__("mov %%fs:0x10, %0" : "=r"(self));
	return slot && context_at(self + (uint64_t)slot) == context;
}

/* The primary context is active: borrows it for one question and leaves the thread and the context's count as they were. */
static void ask_in_context(struct vt_helper_shared *shared, CUdevice device, struct vt_cuda_device *out)
{
	retain_fn *retain = PTR(cuDevicePrimaryCtxRetain, retain_fn);
	release_fn *release = PTR(cuDevicePrimaryCtxRelease, release_fn);
	push_fn *push = PTR(cuCtxPushCurrent, push_fn);
	pop_fn *pop = PTR(cuCtxPopCurrent, pop_fn);
	CUcontext context = NULL, popped = NULL;
	int32_t slot;
	CUresult err;

	if (!retain || !release || !push || !pop)
		return;
	err = retain(&context, device);
	if (err != CUDA_SUCCESS) {
		out->error = (int32_t)err;
		return;
	}
	out->context = (uint64_t)context;
	err = push(context);
	if (err == CUDA_SUCCESS) {
		ask_memory(shared, out);
		slot = find_context_slot(out->context);
		pop(&popped);
		/* It counts only if the context is gone from there now. */
		if (slot && !leads_to_context(slot, out->context))
			shared->cuda.context_slot = slot;
	} else {
		out->error = (int32_t)err;
	}
	release(device);
}

static void ask_device(struct vt_helper_shared *shared, int ordinal, struct vt_cuda_device *out)
{
	device_fn *get = PTR(cuDeviceGet, device_fn);
	name_fn *name = PTR(cuDeviceGetName, name_fn);
	total_fn *total = PTR(cuDeviceTotalMem, total_fn);
	uuid_fn *uuid = PTR(cuDeviceGetUuid, uuid_fn);
	state_fn *state = PTR(cuDevicePrimaryCtxGetState, state_fn);
	CUdevice device = 0;
	CUuuid id;
	size_t bytes = 0;
	unsigned int flags = 0;
	int active = 0;
	CUresult err;

	out->ordinal = ordinal;
	err = get(&device, ordinal);
	if (err != CUDA_SUCCESS) {
		out->error = (int32_t)err;
		return;
	}
	if (name && name(out->name, sizeof(out->name), device) != CUDA_SUCCESS)
		out->name[0] = '\0';
	out->name[sizeof(out->name) - 1] = '\0';
	if (uuid && uuid(&id, device) == CUDA_SUCCESS)
		__builtin_memcpy(out->uuid, id.bytes, sizeof(out->uuid));
	if (total && total(&bytes, device) == CUDA_SUCCESS)
		out->total_bytes = bytes;
	if (!state)
		return;
	err = state(device, &flags, &active);
	if (err != CUDA_SUCCESS) {
		out->error = (int32_t)err;
		return;
	}
	out->context_active = active != 0;
	if (active)
		ask_in_context(shared, device, out);
}

uint32_t vt_helper_op_cuda(struct vt_helper_shared *shared)
{
	count_fn *count = PTR(cuDeviceGetCount, count_fn);
	int n = 0;
	CUresult err;

	memset(&shared->cuda, 0, sizeof(shared->cuda));
	ask_versions(shared);
	if (!count || !shared->imports.cuDeviceGet)
		return VT_HELPER_OK; /* no driver in the target: no devices */
	err = count(&n);
	if (err != CUDA_SUCCESS) {
		shared->cuda.error = (int32_t)err;
		return VT_HELPER_OK;
	}
	for (int i = 0; i < n && i < VT_MAX_CUDA_DEVICES; i++) {
		shared->cuda.n_devices = i + 1;
		ask_device(shared, i, &shared->cuda.devices[i]);
	}
	return VT_HELPER_OK;
}
