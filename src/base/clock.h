/* SPDX-License-Identifier: Apache-2.0 */
/* Deadlines. Where no clock is named, all times are nanoseconds of CLOCK_MONOTONIC. */
#ifndef VT_BASE_CLOCK_H
#define VT_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define VT_NS_PER_US UINT64_C(1000)
#define VT_NS_PER_MS UINT64_C(1000000)
#define VT_NS_PER_S UINT64_C(1000000000)

static inline uint64_t vt_clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * VT_NS_PER_S + (uint64_t)ts.tv_nsec;
}

static inline uint64_t vt_now_ns(void)
{
	return vt_clock_ns(CLOCK_MONOTONIC);
}

static inline bool vt_deadline_passed(uint64_t deadline_ns)
{
	return vt_now_ns() >= deadline_ns;
}

/* Sleeps about this long; returns early when a signal arrives. */
static inline void vt_sleep_ns(uint64_t ns)
{
	struct timespec ts = { .tv_sec = (time_t)(ns / VT_NS_PER_S),
			       .tv_nsec = (long)(ns % VT_NS_PER_S) };

	nanosleep(&ts, NULL);
}

#endif
