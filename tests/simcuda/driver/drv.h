/* SPDX-License-Identifier: Apache-2.0 */
/* What the driver API files share. Exported functions have the exact names of the real libcuda. */
#ifndef DRV_H
#define DRV_H

#include "../core/sim.h"

/* The entry of every function that needs cuInit to have been called. */
#define DRV_ENTER()                                   \
	do {                                          \
		int enter_err_ = sim_enter(__func__); \
		if (enter_err_)                       \
			return enter_err_;            \
		if (!sim_ready())                     \
			return SIM_ENOTINIT;          \
	} while (0)

/* The same for one that needs a current context; dev becomes its device. */
#define DRV_ENTER_CTX(dev)                           \
	DRV_ENTER();                                 \
	if (!sim_ctx_current())                      \
		return SIM_EBADCTX;                  \
	int dev = sim_ctx_device(sim_ctx_current()); \
	(void)dev

/* Prototype and definition in one: there is no header of ours to include. */
#define DRV(name, ...)         \
	int name(__VA_ARGS__); \
	int name(__VA_ARGS__)

#endif
