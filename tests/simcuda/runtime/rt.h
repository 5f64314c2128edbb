/* SPDX-License-Identifier: Apache-2.0 */
/* What the runtime API files share. Exported functions have the names of the real libcudart. */
#ifndef RT_H
#define RT_H

#include "../core/sim.h"

#ifndef SIMCUDA_CUDART
#error "SIMCUDA_CUDART is the major version of the libcudart to build: 11, 12 or 13"
#endif

/* Remember the error of this thread, as cudaGetLastError reports it, and return it. */
int rt_result(int err);
/* Before anything else: faults, and the driver's initialisation. */
int rt_enter(const char *function);
/* The device of this thread's context, which becomes active if it is not. */
int rt_context(int *device);
/* The device of this thread, without a context. */
int rt_device(void);

/* The name of a kernel that the stand-in has to know; NULL for all others. */
int rt_is_spin_kernel(const void *function);

#define RT_ENTER()                                    \
	do {                                          \
		int enter_err_ = rt_enter(__func__);  \
		if (enter_err_)                       \
			return rt_result(enter_err_); \
	} while (0)

#define RT_ENTER_CTX(dev)                           \
	int dev;                                    \
	RT_ENTER();                                 \
	do {                                        \
		int ctx_err_ = rt_context(&(dev));  \
		if (ctx_err_)                       \
			return rt_result(ctx_err_); \
	} while (0)

#define RT_STREAM(s, handle, dev)                               \
	struct sim_stream *s = sim_stream_get((handle), (dev)); \
	if (!s)                                                 \
	return rt_result(SIM_EBADHANDLE)

/* Prototype and definition in one: there is no header of ours to include. */
#define RT(name, ...)          \
	int name(__VA_ARGS__); \
	int name(__VA_ARGS__)

#endif
