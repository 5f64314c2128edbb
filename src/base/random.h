/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VT_BASE_RANDOM_H
#define VT_BASE_RANDOM_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Random bytes, at once: on a machine that has just booted, Linux before 5.6 lets getrandom() wait
 * for minutes until it has gathered enough. False when there are none.
 */
bool vt_random(void *bytes, size_t size);

#endif
