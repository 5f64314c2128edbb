/* SPDX-License-Identifier: Apache-2.0 */
/* One file for each architecture: victim_probe_ARCH.c. */
#ifndef VT_TESTS_VICTIM_PROBE_H
#define VT_TESTS_VICTIM_PROBE_H

#include "spy.h"

/*
 * Makes a system call through syscall() of the C library with every register set to random values,
 * and control words of the floating point unit that nobody else has. What is different afterwards
 * is wrong.
 */
long victim_probe_call(struct spy *spy, long nr, const void *a, long b, long c, const void *d);

#endif
