/* SPDX-License-Identifier: Apache-2.0 */
/* Which container a process is in, by its cgroup. */
#ifndef VT_TARGET_CONTAINER_H
#define VT_TARGET_CONTAINER_H

#include <stdbool.h>
#include <stddef.h>

/*
 * text: the contents of /proc/PID/cgroup, which this changes. Puts the short id (12 digits, as
 * docker ps and crictl ps show it) or the name of the innermost container into id; false when there
 * is no container.
 */
bool vt_container_of_cgroup(char *text, char *id, size_t size);

#endif
