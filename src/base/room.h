/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory we may take: vramtap mostly runs in the container of the job that it examines. */
#ifndef VT_BASE_ROOM_H
#define VT_BASE_ROOM_H

#include <stdint.h>

/*
 * Bytes that are available on this machine (MemAvailable of /proc/meminfo) and in each control
 * group that we are in (version 2, or the memory controller of version 1), the least of all. When
 * nothing is known: 0.
 */
uint64_t vt_memory_room(void);

#endif
