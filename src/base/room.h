/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory we may take: vramtap mostly runs in the container of the job that it examines,
 * and what it puts into a process counts as that one's.
 */
#ifndef VT_BASE_ROOM_H
#define VT_BASE_ROOM_H

#include <stdint.h>
#include <sys/types.h>

/*
 * Bytes that are available on this machine (MemAvailable of /proc/meminfo) and in each control
 * group that we are in (version 2, or the memory controller of version 1), the least of all. When
 * nothing is known: 0.
 */
uint64_t vt_memory_room(void);

/*
 * Bytes that a process may still take before a limit of its control groups has one of theirs
 * killed. Pages of files count as room, as they are dropped for it. UINT64_MAX: no limit is known.
 */
uint64_t vt_memory_room_of(pid_t pid);

#endif
