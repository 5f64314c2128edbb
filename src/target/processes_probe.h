/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whoever reads the memory of a process waits for the lock of its memory map: without end, when a thread of it holds that lock and hangs
 * in the kernel, on a file system that does not answer, say. A listing of all processes must not hang with it.
 */
#ifndef VT_TARGET_PROCESSES_PROBE_H
#define VT_TARGET_PROCESSES_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Sets those of blocks[n], which are false, whose pids are of processes that block a child of ours. Takes seconds at most. */
void vt_processes_probe(const pid_t *pids, size_t n, bool *blocks);

#endif
