/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Debug files from the servers in $DEBUGINFOD_URLS, by elfutils' program debuginfod-find, which keeps them in a cache of its
 * own. This tells the servers a build id, so it is only for those who asked for it.
 */
#ifndef VT_WALK_NATIVE_DEBUGINFOD_H
#define VT_WALK_NATIVE_DEBUGINFOD_H

#include <stddef.h>
#include <stdint.h>

/* The path of the debug file for a build id; NULL when there is none, or not in time. The caller frees it. */
char *vt_debuginfod_find(const uint8_t *build_id, size_t len, uint64_t deadline_ns);

/* Why asking cannot succeed at all; NULL when it may. */
const char *vt_debuginfod_problem(void);

#endif
