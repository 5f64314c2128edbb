/* SPDX-License-Identifier: Apache-2.0 */
/* The processes that a process has started, and those that these have started. */
#ifndef VT_TARGET_CHILDREN_H
#define VT_TARGET_CHILDREN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * At most max descendants of pid, children first. Zombies and those whose memory cannot be read
 * without waiting are left out. Returns their number; *whole: there are no more. A kernel without
 * CONFIG_PROC_CHILDREN tells none, and not whole.
 */
size_t vt_children_list(pid_t pid, pid_t *pids, size_t max, bool *whole);

#endif
