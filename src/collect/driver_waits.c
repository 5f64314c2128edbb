/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/driver_waits.h"

#include <stddef.h>
#include <string.h>

/*
 * Measured while a kernel hangs, driver 580.159.04: cuCtxGetLimit(), cuStreamIsCapturing() and
 * cuStreamQuery() answer at once while a thread is in these.
 */
bool vt_driver_only_waits(const char *function)
{
	static const char *const functions[] = {
		"cuCtxSynchronize",     "cuCtxSynchronize_v2",   "cudaDeviceSynchronize",
		"cuStreamSynchronize",  "cudaStreamSynchronize", "cuEventSynchronize",
		"cudaEventSynchronize",
	};

	for (size_t i = 0; function && i < sizeof(functions) / sizeof(functions[0]); i++) {
		size_t n = strlen(functions[i]);

		/* The same for programs with a default stream for each thread. */
		if (!strncmp(function, functions[i], n) &&
		    (!function[n] || !strcmp(function + n, "_ptsz")))
			return true;
	}
	return false;
}

/* Measured likewise: freeing, copies of pageable memory, and a stream whose queue is full. */
bool vt_driver_waits_first(const char *function)
{
	static const char *const functions[] = {
		"cuMemFree_v2",    "cuMemcpyDtoH_v2",      "cuMemcpyDtoHAsync_v2",
		"cuMemcpyHtoD_v2", "cuMemcpyHtoDAsync_v2", "cuLaunchKernel",
	};

	for (size_t i = 0; function && i < sizeof(functions) / sizeof(functions[0]); i++)
		if (!strcmp(function, functions[i]))
			return true;
	return false;
}

bool vt_driver_is_idle_in(const char *call)
{
	/*
	 * A thread that was stopped in poll, futex, nanosleep or clock_nanosleep with a time limit
	 * goes on in restart_syscall (kernel/signal.c, ERESTART_RESTARTBLOCK); no others do.
	 */
	static const char *const calls[] = { "poll",           "ppoll",       "select",
					     "epoll_wait",     "epoll_pwait", "read",
					     "futex",          "nanosleep",   "clock_nanosleep",
					     "restart_syscall" };

	for (size_t i = 0; call && i < sizeof(calls) / sizeof(calls[0]); i++)
		if (!strcmp(call, calls[i]))
			return true;
	return false;
}
