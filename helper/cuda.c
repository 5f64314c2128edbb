/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices, contexts and memory, from the driver that the target has loaded. Nothing here may create
 * a context: this fails on a full device, and costs hundreds of MiB. So the driver is never
 * initialised, and memory is only queried with a primary context that the target itself made
 * active.
 *
 * Each call may block when the target's other threads hold a lock of the driver. Each result goes
 * into the answer at once, so the tool has it even if the next call never returns.
 */
#include "vramtap/freestanding.h"

#include <string.h>

#include "context.h"
#include "ops.h"
#include "vramtap/driver_abi.h"

#define PTR(field, type) ((type *)shared->imports.field)

/*
 * The prototypes as types. NVIDIA's header renames the functions to the newest version, and so do
 * the imports.
 */
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
typedef CUresult pool_fn(CUmemoryPool *pool, CUdevice device);
typedef CUresult pool_attribute_fn(CUmemoryPool pool, CUmemPool_attribute attribute, void *value);
typedef CUresult exchange_fn(CUstreamCaptureMode *mode);
typedef CUresult driver_memory_fn(size_t *free_bytes, size_t *total);
/* cudaError_t is an enum too; its success is 0 like the driver's */
typedef int runtime_memory_fn(size_t *free_bytes, size_t *total);
typedef int runtime_version_fn(int *version);

int vt_helper_spare_captures(const struct vt_helper_shared *shared)
{
	exchange_fn *exchange = PTR(cuThreadExchangeStreamCaptureMode, exchange_fn);
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	return exchange && exchange(&mode) == CUDA_SUCCESS;
}

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
 * The driver keeps its data about a thread in pthread-specific storage. glibc has the values of the
 * first 32 keys inside struct pthread, and those of the others in tables of 32 pairs that struct
 * pthread points to. The right one is found on our own thread: it leads to the context that was
 * just pushed, and no longer does once that is popped.
 * Seen with the drivers 580.159.03 and .04.
 */
#define PTHREAD_BYTES VT_ARCH_PTHREAD_BYTES
#define TABLE_WORDS 64

/* The context that the driver's data at this address leads to, 0 none. */
static uint64_t context_of(uint64_t data)
{
	uint64_t top = 0, context = 0;

	if (data < 4096 || data % 8 || vt_sys_peek(data, &top, sizeof(top)) || top < 4096 ||
	    top % 8 || vt_sys_peek(top, &context, sizeof(context)))
		return 0;
	return context;
}

struct path {
	int32_t slot, inner;
};

/*
 * Other paths can lead to the context by chance, for example through the list of all threads to a
 * neighbour that has the same context.
 */
struct paths {
	struct path path[16];
	int n;
};

static void add_path(struct paths *paths, int slot, int inner)
{
	if (paths->n < 16)
		paths->path[paths->n++] = (struct path){ slot, inner };
}

static void find_paths(uint64_t context, struct paths *paths)
{
	uint64_t self[PTHREAD_BYTES / 8], table[TABLE_WORDS];

	paths->n = 0;
	/*
	 * The kernel reads it: in a C library with a smaller struct pthread, the stack's mapping
	 * may end earlier.
	 */
	if (vt_sys_peek(vt_arch_thread_pointer() + (uint64_t)VT_ARCH_PTHREAD_AT, self,
			sizeof(self)))
		return;
	for (int i = 0; i < PTHREAD_BYTES / 8; i++) {
		if (context_of(self[i]) == context)
			add_path(paths, VT_ARCH_PTHREAD_AT + i * 8, -1);
		if (self[i] < 4096 || self[i] % 8 || vt_sys_peek(self[i], table, sizeof(table)))
			continue;
		/* Pairs of a sequence number and a value: even words are not values. */
		for (int k = 1; k < TABLE_WORDS; k += 2)
			if (context_of(table[k]) == context)
				add_path(paths, VT_ARCH_PTHREAD_AT + i * 8, k * 8);
	}
}

static int leads_to(const struct path *path, uint64_t context)
{
	uint64_t data;

	if (vt_sys_peek(vt_arch_thread_pointer() + (uint64_t)path->slot, &data, sizeof(data)))
		return 0;
	if (path->inner >= 0 && vt_sys_peek(data + (uint64_t)path->inner, &data, sizeof(data)))
		return 0;
	return context_of(data) == context;
}

/* Keeps the paths that lead to the context now, or those that do not. */
static void keep_paths(struct paths *paths, uint64_t context, int leading)
{
	int kept = 0;

	for (int i = 0; i < paths->n; i++)
		if (leads_to(&paths->path[i], context) == leading)
			paths->path[kept++] = paths->path[i];
	paths->n = kept;
}

/*
 * With the context popped: a path that follows the push and the pop is right. (There can be two:
 * glibc's table of tables also has the first table, which lies inside struct pthread.)
 */
static void find_context_slot(struct vt_helper_shared *shared, CUcontext context,
			      struct paths *paths)
{
	push_fn *push = PTR(cuCtxPushCurrent, push_fn);
	pop_fn *pop = PTR(cuCtxPopCurrent, pop_fn);
	CUcontext popped = NULL;

	keep_paths(paths, (uint64_t)context, 0);
	if (!paths->n || push(context) != CUDA_SUCCESS)
		return;
	keep_paths(paths, (uint64_t)context, 1);
	pop(&popped);
	keep_paths(paths, (uint64_t)context, 0);
	if (paths->n > 0) {
		shared->cuda.context_slot = paths->path[0].slot;
		shared->cuda.context_inner = paths->path[0].inner;
	}
}

/*
 * The primary context is active: borrows it for one query and leaves the thread and the context's
 * count as they were.
 */
static void ask_in_context(struct vt_helper_shared *shared, CUdevice device,
			   struct vt_cuda_device *out)
{
	retain_fn *retain = PTR(cuDevicePrimaryCtxRetain, retain_fn);
	release_fn *release = PTR(cuDevicePrimaryCtxRelease, release_fn);
	push_fn *push = PTR(cuCtxPushCurrent, push_fn);
	pop_fn *pop = PTR(cuCtxPopCurrent, pop_fn);
	CUcontext context = NULL, popped = NULL;
	struct paths paths;
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
		find_paths(out->context, &paths);
		pop(&popped);
		find_context_slot(shared, context, &paths);
	} else {
		out->error = (int32_t)err;
	}
	release(device);
}

static int borrow_primary(struct vt_helper_shared *shared, CUdevice device)
{
	state_fn *state = PTR(cuDevicePrimaryCtxGetState, state_fn);
	retain_fn *retain = PTR(cuDevicePrimaryCtxRetain, retain_fn);
	release_fn *release = PTR(cuDevicePrimaryCtxRelease, release_fn);
	push_fn *push = PTR(cuCtxPushCurrent, push_fn);
	CUcontext context = NULL;
	unsigned int flags = 0;
	int active = 0;

	if (state(device, &flags, &active) != CUDA_SUCCESS || !active ||
	    retain(&context, device) != CUDA_SUCCESS)
		return 0;
	if (push(context) == CUDA_SUCCESS)
		return 1;
	release(device);
	return 0;
}

int vt_helper_borrow_context_of(struct vt_helper_shared *shared, int ordinal, int *device)
{
	const struct vt_helper_imports *imports = &shared->imports;
	device_fn *get = PTR(cuDeviceGet, device_fn);

	return get && imports->cuDevicePrimaryCtxGetState && imports->cuDevicePrimaryCtxRetain &&
	       imports->cuDevicePrimaryCtxRelease && imports->cuCtxPushCurrent &&
	       imports->cuCtxPopCurrent && get(device, ordinal) == CUDA_SUCCESS &&
	       borrow_primary(shared, *device);
}

int vt_helper_borrow_context(struct vt_helper_shared *shared, int *device)
{
	count_fn *count = PTR(cuDeviceGetCount, count_fn);
	int n = 0;

	if (!count || count(&n) != CUDA_SUCCESS)
		return 0;
	for (int i = 0; i < n && i < VT_MAX_CUDA_DEVICES; i++)
		if (vt_helper_borrow_context_of(shared, i, device))
			return 1;
	return 0;
}

void vt_helper_return_context(struct vt_helper_shared *shared, int device)
{
	CUcontext popped = NULL;

	PTR(cuCtxPopCurrent, pop_fn)(&popped);
	PTR(cuDevicePrimaryCtxRelease, release_fn)(device);
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
	vt_helper_spare_captures(shared); /* none of these queries was seen to harm a capture */
	for (int i = 0; i < n && i < VT_MAX_CUDA_DEVICES; i++) {
		shared->cuda.n_devices = i + 1;
		ask_device(shared, i, &shared->cuda.devices[i]);
	}
	return VT_HELPER_OK;
}

/* ---- memory pools ---- */

#define POOL_TRIES 8

static CUresult read_pool(struct vt_helper_shared *shared, CUmemoryPool pool,
			  struct vt_cuda_pool *out)
{
	pool_attribute_fn *attribute = PTR(cuMemPoolGetAttribute, pool_attribute_fn);
	const struct {
		CUmemPool_attribute which;
		uint64_t *value;
	} asked[] = {
		{ CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &out->reserved },
		{ CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &out->reserved_high },
		{ CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &out->used },
		{ CU_MEMPOOL_ATTR_USED_MEM_HIGH, &out->used_high },
	};
	CUresult err = CUDA_SUCCESS;

	for (unsigned int i = 0; err == CUDA_SUCCESS && i < sizeof(asked) / sizeof(asked[0]); i++)
		err = attribute(pool, asked[i].which, asked[i].value);
	return err;
}

/*
 * The four numbers are queried one by one, and belong together when a second query gives the same.
 */
void vt_helper_read_pool(struct vt_helper_shared *shared, uint64_t handle, struct vt_cuda_pool *out)
{
	CUmemoryPool pool = (CUmemoryPool)handle;
	struct vt_cuda_pool before, now;
	CUresult err;

	memset(&now, 0, sizeof(now));
	err = read_pool(shared, pool, &now);
	for (int i = 0; err == CUDA_SUCCESS && i < POOL_TRIES; i++) {
		before = now;
		err = read_pool(shared, pool, &now);
		if (!memcmp(&before, &now, sizeof(now))) {
			*out = now;
			out->handle = handle;
			return;
		}
	}
	out->error = err == CUDA_SUCCESS ? VT_POOL_CHANGES : (int32_t)err;
}

static void ask_pool(struct vt_helper_shared *shared, pool_fn *get, CUdevice device,
		     struct vt_cuda_pool *out)
{
	CUmemoryPool pool = NULL;
	CUresult err;

	if (!get)
		return;
	err = get(&pool, device);
	if (err == CUDA_SUCCESS)
		vt_helper_read_pool(shared, (uint64_t)pool, out);
	else
		out->error = (int32_t)err;
}

/* On a device without an active context, this process has nothing in the pools. */
static void ask_pools(struct vt_helper_shared *shared, int ordinal,
		      struct vt_cuda_pool pools[VT_N_POOLS])
{
	device_fn *get = PTR(cuDeviceGet, device_fn);
	state_fn *state = PTR(cuDevicePrimaryCtxGetState, state_fn);
	CUdevice device = 0;
	unsigned int flags = 0;
	int active = 0;

	if (get(&device, ordinal) != CUDA_SUCCESS || !state ||
	    state(device, &flags, &active) != CUDA_SUCCESS || !active)
		return;
	ask_pool(shared, PTR(cuDeviceGetDefaultMemPool, pool_fn), device, &pools[VT_POOL_DEFAULT]);
	ask_pool(shared, PTR(cuDeviceGetMemPool, pool_fn), device, &pools[VT_POOL_CURRENT]);
	if (pools[VT_POOL_CURRENT].handle == pools[VT_POOL_DEFAULT].handle)
		memset(&pools[VT_POOL_CURRENT], 0, sizeof(pools[VT_POOL_CURRENT]));
}

uint32_t vt_helper_op_cuda_pools(struct vt_helper_shared *shared)
{
	count_fn *count = PTR(cuDeviceGetCount, count_fn);
	int n = 0;

	memset(&shared->pools, 0, sizeof(shared->pools));
	if (!count || !shared->imports.cuDeviceGet || !shared->imports.cuMemPoolGetAttribute ||
	    count(&n) != CUDA_SUCCESS)
		return VT_HELPER_OK;
	if (!vt_helper_spare_captures(shared)) {
		vt_helper_say_why(shared,
				  "asking for them could break a CUDA graph that a thread "
				  "is capturing",
				  NULL);
		return VT_HELPER_FAILED;
	}
	for (int i = 0; i < n && i < VT_MAX_CUDA_DEVICES; i++) {
		ask_pools(shared, i, shared->pools.pools[i]);
		shared->pools.n_devices = i + 1;
	}
	return VT_HELPER_OK;
}
