/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The only operating system interface of the helper (and of the stub that starts it): raw system
 * calls of Linux (vramtap/arch.h). They return the result or a negative errno; nothing here touches
 * errno, the C library or any state of the target.
 */
#ifndef VRAMTAP_FREESTANDING_H
#define VRAMTAP_FREESTANDING_H

#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "vramtap/arch.h"

static inline __attribute__((always_inline)) long vt_sys2(long nr, long a, long b)
{
	return vt_sys4(nr, a, b, 0, 0);
}

static inline __attribute__((always_inline)) long vt_sys0(long nr)
{
	return vt_sys4(nr, 0, 0, 0, 0);
}

struct vt_sys_timespec {
	int64_t sec;
	int64_t nsec;
};

/* CLOCK_MONOTONIC in nanoseconds. */
static inline __attribute__((always_inline)) uint64_t vt_sys_now_ns(void)
{
	struct vt_sys_timespec ts = { 0, 0 };

	vt_sys2(SYS_clock_gettime, 1 /* CLOCK_MONOTONIC */, (long)&ts);
	return (uint64_t)ts.sec * UINT64_C(1000000000) + (uint64_t)ts.nsec;
}

static inline __attribute__((always_inline)) void vt_sys_sleep_ns(uint64_t ns)
{
	struct vt_sys_timespec ts = { (int64_t)(ns / UINT64_C(1000000000)),
				      (int64_t)(ns % UINT64_C(1000000000)) };

	vt_sys2(SYS_nanosleep, (long)&ts, 0);
}

/*
 * Reads the target's own memory without ever faulting: 0, or -EFAULT (14) when any byte of it is
 * not readable, or another negative errno when the call is forbidden.
 */
static inline int vt_sys_peek(uint64_t addr, void *buf, size_t len)
{
	struct {
		void *base;
		size_t len;
	} to = { buf, len }, from = { (void *)addr, len };
	long n =
		vt_sys6(SYS_process_vm_readv, vt_sys0(SYS_getpid), (long)&to, 1, (long)&from, 1, 0);

	if (n < 0)
		return (int)n;
	return (size_t)n == len ? 0 : -14;
}

#endif
