/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the memory of a process waits for the lock of its memory map. The wait never ends when a
 * thread of the process holds that lock and hangs in the kernel, for example on a file system that
 * does not answer. A listing of all processes must not hang with it.
 */
#ifndef VT_TARGET_PROCESSES_PROBE_H
#define VT_TARGET_PROCESSES_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * blocks[n] is false at first; sets the entries of those pids whose processes block a child of
 * ours. Takes seconds at most.
 */
void vt_processes_probe(const pid_t *pids, size_t n, bool *blocks);

#endif
