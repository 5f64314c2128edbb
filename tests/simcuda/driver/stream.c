/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, events, launches and modules of the driver API. */
#include "drv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GET_STREAM(s, handle, dev)                              \
	struct sim_stream *s = sim_stream_get((handle), (dev)); \
	if (!s)                                                 \
	return SIM_EBADHANDLE

DRV(cuStreamCreateWithPriority, struct sim_stream **stream, unsigned flags, int priority)
{
	DRV_ENTER_CTX(dev);
	return sim_stream_create(dev, flags, priority, stream);
}

DRV(cuThreadExchangeStreamCaptureMode, int *mode)
{
	DRV_ENTER();
	sim_capture_exchange_mode(mode);
	return SIM_OK;
}

DRV(cuStreamCreate, struct sim_stream **stream, unsigned flags)
{
	return cuStreamCreateWithPriority(stream, flags, 0);
}

DRV(cuStreamDestroy_v2, void *stream)
{
	DRV_ENTER_CTX(dev);
	GET_STREAM(s, stream, dev);
	return sim_stream_destroy(s);
}

DRV(cuStreamQuery, void *stream)
{
	DRV_ENTER_CTX(dev);
	GET_STREAM(s, stream, dev);
	return sim_stream_query(s);
}

DRV(cuStreamSynchronize, void *stream)
{
	DRV_ENTER_CTX(dev);
	GET_STREAM(s, stream, dev);
	sim_stream_wait_idle(s);
	return SIM_OK;
}

DRV(cuStreamGetCtx, void *stream, struct sim_ctx **ctx)
{
	DRV_ENTER_CTX(dev);
	GET_STREAM(s, stream, dev);
	*ctx = sim_ctx_primary_of(sim_stream_device(s));
	return SIM_OK;
}

DRV(cuStreamIsCapturing, void *stream, int *status)
{
	DRV_ENTER_CTX(dev);
	GET_STREAM(s, stream, dev);
	*status = sim_stream_capture(s)->graph ? 1 : 0;
	return SIM_OK;
}

DRV(cuStreamBeginCapture_v2, void *stream, int mode)
{
	DRV_ENTER_CTX(dev);
	GET_STREAM(s, stream, dev);
	return sim_capture_begin(s, NULL, mode);
}

DRV(cuStreamEndCapture, void *stream, struct sim_graph **graph)
{
	DRV_ENTER_CTX(dev);
	GET_STREAM(s, stream, dev);
	return sim_capture_end(s, graph);
}

/* ---- values in memory ---- */

DRV(cuStreamWriteValue32_v2, void *stream, uint64_t addr, unsigned value, unsigned flags)
{
	DRV_ENTER_CTX(dev);
	GET_STREAM(s, stream, dev);
	(void)flags;
	return sim_stream_write_value(s, addr, value, 4);
}

DRV(cuStreamWriteValue64_v2, void *stream, uint64_t addr, uint64_t value, unsigned flags)
{
	DRV_ENTER_CTX(dev);
	GET_STREAM(s, stream, dev);
	(void)flags;
	return sim_stream_write_value(s, addr, value, 8);
}

DRV(cuStreamWaitValue32_v2, void *stream, uint64_t addr, unsigned value, unsigned flags)
{
	DRV_ENTER_CTX(dev);
	GET_STREAM(s, stream, dev);
	return sim_stream_wait_value(s, addr, value, 4, flags & 3);
}

DRV(cuStreamWaitValue64_v2, void *stream, uint64_t addr, uint64_t value, unsigned flags)
{
	DRV_ENTER_CTX(dev);
	GET_STREAM(s, stream, dev);
	return sim_stream_wait_value(s, addr, value, 8, flags & 3);
}

/* CUstreamBatchMemOpParams: operation, address, value, flags, alias, padding */
DRV(cuStreamBatchMemOp_v2, void *stream, unsigned n, const uint64_t (*ops)[6], unsigned flags)
{
	int err = SIM_OK;

	DRV_ENTER_CTX(dev);
	GET_STREAM(s, stream, dev);
	if (n >= 256 || flags)
		return SIM_EINVAL;
	for (unsigned i = 0; i < n && !err; i++) {
		unsigned op = (unsigned)ops[i][0], width = op < 4 ? 4 : 8;

		if (op == 1 || op == 4)
			err = sim_stream_wait_value(s, ops[i][1], ops[i][2], width,
						    (unsigned)ops[i][3] & 3);
		else if (op == 2 || op == 5)
			err = sim_stream_write_value(s, ops[i][1], ops[i][2], width);
		else if (op != 3 && op != 6) /* flushes of remote writes, barriers */
			err = SIM_EINVAL;
	}
	return err;
}

/* ---- */

DRV(cuLaunchHostFunc, void *stream, void (*fn)(void *), void *arg)
{
	DRV_ENTER_CTX(dev);
	GET_STREAM(s, stream, dev);
	return sim_stream_host_fn(s, fn, arg);
}

DRV(cuEventCreate, struct sim_event **event, unsigned flags)
{
	DRV_ENTER_CTX(dev);
	return sim_event_create(flags, dev, event);
}

DRV(cuEventDestroy_v2, struct sim_event *event)
{
	DRV_ENTER();
	return sim_event_destroy(event);
}

DRV(cuEventRecord, struct sim_event *event, void *stream)
{
	DRV_ENTER_CTX(dev);
	GET_STREAM(s, stream, dev);
	return sim_event_record(event, s);
}

/* Contexts of one device share their streams here. */
DRV(cuCtxRecordEvent, struct sim_ctx *context, struct sim_event *event)
{
	DRV_ENTER();
	if (!sim_ctx_valid(context))
		return SIM_EBADCTX;
	return sim_event_record_device(event, sim_ctx_device(context));
}

DRV(cuEventQuery, struct sim_event *event)
{
	int err;

	DRV_ENTER();
	err = sim_capture_unsafe();
	return err ? err : sim_event_query(event);
}

DRV(cuEventSynchronize, struct sim_event *event)
{
	DRV_ENTER();
	return sim_event_wait(event);
}

/* ---- modules: everything loads, every function exists, no launch does anything ---- */

static char a_module;

/*
 * Functions of all modules. When a module is unloaded their places are used again: a function of
 * another name then has the same handle.
 */
#define FUNCTION_MAGIC 0x434e5546
static struct function {
	uint32_t magic;
	char name[124];
} functions[64];
static unsigned n_functions;

DRV(cuModuleLoadData, void **module, const void *image)
{
	DRV_ENTER_CTX(dev);
	(void)image;
	*module = &a_module;
	return SIM_OK;
}

DRV(cuModuleLoadDataEx, void **module, const void *image, unsigned n, int *options, void **values)
{
	(void)n, (void)options, (void)values;
	return cuModuleLoadData(module, image);
}

DRV(cuModuleLoad, void **module, const char *name)
{
	return cuModuleLoadData(module, name);
}

/* Every variable exists; the number at the end of its name is its size: "weights_4096". */
DRV(cuModuleGetGlobal_v2, uint64_t *addr, size_t *size, void *module, const char *name)
{
	const char *digits = strrchr(name, '_');
	size_t bytes = digits ? strtoull(digits + 1, NULL, 10) : 0;

	DRV_ENTER_CTX(dev);
	(void)module;
	if (!bytes)
		return SIM_ENOTFOUND;
	*size = bytes;
	return sim_mem_alloc(dev, bytes, SIM_DATA, addr);
}

DRV(cuModuleUnload, void *module)
{
	DRV_ENTER();
	(void)module;
	n_functions = 0;
	return SIM_OK;
}

DRV(cuModuleGetFunction, struct function **function, void *module, const char *name)
{
	DRV_ENTER();
	(void)module;
	*function = &functions[n_functions++ % 64];
	(*function)->magic = FUNCTION_MAGIC;
	snprintf((*function)->name, sizeof((*function)->name), "%s", name);
	return SIM_OK;
}

/* A CUfunction; a CUkernel has its magic inverted, and is no function to the other call. */
DRV(cuFuncGetName, const char **name, const struct function *function)
{
	DRV_ENTER();
	if (function->magic != FUNCTION_MAGIC)
		return SIM_EBADHANDLE;
	*name = function->name;
	return SIM_OK;
}

DRV(cuKernelGetName, const char **name, const struct function *function)
{
	DRV_ENTER();
	if (function->magic != ~(uint32_t)FUNCTION_MAGIC)
		return SIM_EBADHANDLE;
	*name = function->name;
	return SIM_OK;
}

DRV(cuFuncGetAttribute, int *value, int attr, void *function)
{
	DRV_ENTER();
	(void)function;
	*value = attr == 0 ? 1024 : attr == 4 ? 32 : attr == 5 || attr == 6 ? 90 : 0;
	return SIM_OK;
}

DRV(cuFuncSetAttribute, void *function, int attr, int value)
{
	DRV_ENTER();
	(void)function, (void)attr, (void)value;
	return SIM_OK;
}

DRV(cuFuncSetCacheConfig, void *function, int config)
{
	DRV_ENTER();
	(void)function, (void)config;
	return SIM_OK;
}

DRV(cuOccupancyMaxActiveBlocksPerMultiprocessor, int *blocks, void *function, int block_size,
    size_t shared)
{
	DRV_ENTER();
	(void)function, (void)block_size, (void)shared;
	*blocks = 1;
	return SIM_OK;
}

DRV(cuLaunchKernel, void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
    unsigned bz, unsigned shared, void *stream, void **params, void **extra)
{
	DRV_ENTER_CTX(dev);
	GET_STREAM(s, stream, dev);
	(void)function, (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared;
	(void)params, (void)extra;
	sim_stream_work(s);
	return SIM_OK;
}

/* CUlaunchConfig */
struct launch_config {
	unsigned grid[3], block[3], shared;
	void *stream, *attrs;
	unsigned n_attrs;
};

DRV(cuLaunchKernelEx, const struct launch_config *c, void *function, void **params, void **extra)
{
	return cuLaunchKernel(function, c->grid[0], c->grid[1], c->grid[2], c->block[0],
			      c->block[1], c->block[2], c->shared, c->stream, params, extra);
}
