/* SPDX-License-Identifier: Apache-2.0 */
/* What a thread may do inside the CUDA driver without keeping a lock that questions to it need. */
#ifndef VT_COLLECT_DRIVER_WAITS_H
#define VT_COLLECT_DRIVER_WAITS_H

#include <stdbool.h>

/* A function of the driver or its runtime that waits for the device; NULL is none. */
bool vt_driver_only_waits(const char *function);

/*
 * One that has work to do, with locks, but that waits for the device first: no obstacle to
 * questions, if a thread was in the same call some time before.
 */
bool vt_driver_waits_first(const char *function);

/*
 * A system call in which the driver's own threads wait for work, or for the device; NULL is none.
 * In ioctl() they may be at work, with locks.
 */
bool vt_driver_is_idle_in(const char *call);

#endif
