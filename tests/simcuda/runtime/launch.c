/* SPDX-License-Identifier: Apache-2.0 */
/* Registration and launch of kernels: they do nothing, but for the one that only takes time. */
#include "rt.h"

#include <string.h>

struct dim3 {
	unsigned x, y, z;
};

struct launch_config { /* cudaLaunchConfig_t */
	struct dim3 grid, block;
	size_t shared;
	void *stream, *attrs;
	unsigned n_attrs;
};

static __thread struct {
	struct dim3 grid, block;
	size_t shared;
	void *stream;
} pushed[8];
static __thread int n_pushed;

/* ---- registration, at load time ---- */

/* torch.cuda._sleep(cycles) launches this: it is how a program makes a device hang by itself. */
#define SPIN_KERNEL "spin_kernel"
#define CYCLES_PER_US 1785

static const void *spin_kernels[8];
static int n_spin;

int rt_is_spin_kernel(const void *function)
{
	for (int i = 0; i < n_spin; i++)
		if (spin_kernels[i] == function)
			return 1;
	return 0;
}

void **__cudaRegisterFatBinary(void *fat);
void **__cudaRegisterFatBinary(void *fat)
{
	static void *handle;

	(void)fat;
	return &handle;
}

void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaRegisterFatBinaryEnd(void **handle)
{
	(void)handle;
}

void __cudaUnregisterFatBinary(void **handle);
void __cudaUnregisterFatBinary(void **handle)
{
	(void)handle;
}

char __cudaInitModule(void **handle);
char __cudaInitModule(void **handle)
{
	(void)handle;
	return 1;
}

void __cudaRegisterFunction(void **handle, const char *host_fn, char *device_fn, const char *name,
			    int limit, void *tid, void *bid, void *block, void *grid, int *wsize);
void __cudaRegisterFunction(void **handle, const char *host_fn, char *device_fn, const char *name,
			    int limit, void *tid, void *bid, void *block, void *grid, int *wsize)
{
	(void)handle, (void)device_fn, (void)limit;
	(void)tid, (void)bid, (void)block, (void)grid, (void)wsize;
	if (n_spin < 8 && strstr(name, SPIN_KERNEL))
		spin_kernels[n_spin++] = host_fn;
}

void __cudaRegisterVar(void **handle, char *host_var, char *device_addr, const char *name, int ext,
		       size_t size, int constant, int global);
void __cudaRegisterVar(void **handle, char *host_var, char *device_addr, const char *name, int ext,
		       size_t size, int constant, int global)
{
	(void)handle, (void)host_var, (void)device_addr, (void)name;
	(void)ext, (void)size, (void)constant, (void)global;
}

void __cudaRegisterManagedVar(void **handle, void **host_var, char *device_addr, const char *name,
			      int ext, size_t size, int constant, int global);
void __cudaRegisterManagedVar(void **handle, void **host_var, char *device_addr, const char *name,
			      int ext, size_t size, int constant, int global)
{
	(void)handle, (void)host_var, (void)device_addr, (void)name;
	(void)ext, (void)size, (void)constant, (void)global;
}

/* A kernel handle is the host function itself. */
RT(__cudaGetKernel, const void **kernel, const void *host_fn)
{
	*kernel = host_fn;
	return SIM_OK;
}

/* ---- launches ---- */

static int launch(const void *function, void **args, void *stream)
{
	int64_t cycles;

	RT_ENTER_CTX(dev);
	RT_STREAM(s, stream, dev);
	sim_stream_work(s);
	if (!n_spin || !rt_is_spin_kernel(function) || !args || sim_stream_capture(s)->graph)
		return SIM_OK;
	memcpy(&cycles, args[0], sizeof(cycles));
	if (cycles > 0)
		sim_stream_spin(s, (uint64_t)cycles / CYCLES_PER_US * 1000);
	return SIM_OK;
}

RT(cudaLaunchKernel, const void *function, struct dim3 grid, struct dim3 block, void **args,
   size_t shared, void *stream)
{
	(void)grid, (void)block, (void)shared;
	RT_ENTER();
	return launch(function, args, stream);
}

RT(__cudaLaunchKernel, const void *kernel, struct dim3 grid, struct dim3 block, void **args,
   size_t shared, void *stream)
{
	return cudaLaunchKernel(kernel, grid, block, args, shared, stream);
}

RT(cudaLaunchCooperativeKernel, const void *function, struct dim3 grid, struct dim3 block,
   void **args, size_t shared, void *stream)
{
	return cudaLaunchKernel(function, grid, block, args, shared, stream);
}

RT(cudaLaunchKernelExC, const struct launch_config *config, const void *function, void **args)
{
	return cudaLaunchKernel(function, config->grid, config->block, args, config->shared,
				config->stream);
}

unsigned __cudaPushCallConfiguration(struct dim3 grid, struct dim3 block, size_t shared,
				     void *stream);
unsigned __cudaPushCallConfiguration(struct dim3 grid, struct dim3 block, size_t shared,
				     void *stream)
{
	if (n_pushed == 8)
		return 1;
	pushed[n_pushed].grid = grid;
	pushed[n_pushed].block = block;
	pushed[n_pushed].shared = shared;
	pushed[n_pushed].stream = stream;
	n_pushed++;
	return 0;
}

RT(__cudaPopCallConfiguration, struct dim3 *grid, struct dim3 *block, size_t *shared, void *stream)
{
	if (!n_pushed)
		return rt_result(SIM_EINVAL);
	n_pushed--;
	*grid = pushed[n_pushed].grid;
	*block = pushed[n_pushed].block;
	*shared = pushed[n_pushed].shared;
	*(void **)stream = pushed[n_pushed].stream;
	return SIM_OK;
}

/* ---- attributes ---- */

struct func_attributes { /* cudaFuncAttributes */
	size_t shared, constant, local;
	int max_threads, regs, ptx_version, binary_version, cache_mode, max_dynamic_shared;
#if SIMCUDA_CUDART == 11
	int rest[2];
#else
	int rest[24];
#endif
};
_Static_assert(sizeof(struct func_attributes) == (SIMCUDA_CUDART == 11 ? 56 : 144),
	       "sizeof(cudaFuncAttributes)");

RT(cudaFuncGetAttributes, struct func_attributes *attr, const void *function)
{
	RT_ENTER_CTX(dev);
	(void)function;
	*attr = (struct func_attributes){ .max_threads = 1024,
					  .regs = 32,
					  .ptx_version = 90,
					  .binary_version = 90,
					  .max_dynamic_shared = 232448 };
	return SIM_OK;
}

RT(cudaFuncSetAttribute, const void *function, int attr, int value)
{
	RT_ENTER_CTX(dev);
	(void)function, (void)attr, (void)value;
	return SIM_OK;
}

RT(cudaKernelSetAttributeForDevice, const void *kernel, int attr, int value, int device)
{
	(void)device;
	return cudaFuncSetAttribute(kernel, attr, value);
}

RT(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, int *blocks, const void *function,
   int block_size, size_t shared, unsigned flags)
{
	RT_ENTER_CTX(dev);
	(void)function, (void)block_size, (void)shared, (void)flags;
	*blocks = 1;
	return SIM_OK;
}

RT(cudaOccupancyMaxActiveBlocksPerMultiprocessor, int *blocks, const void *function, int block_size,
   size_t shared)
{
	return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block_size,
								      shared, 0);
}
