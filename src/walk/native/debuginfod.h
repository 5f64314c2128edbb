/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Debug files from the servers in $DEBUGINFOD_URLS, through elfutils' program debuginfod-find,
 * which has its own cache. The servers learn a build id, so use this only when the user asked for
 * it.
 */
#ifndef VT_WALK_NATIVE_DEBUGINFOD_H
#define VT_WALK_NATIVE_DEBUGINFOD_H

#include <stddef.h>
#include <stdint.h>

/*
 * The path of the debug file for a build id; NULL when there is none, or none arrived in time. The
 * caller frees it.
 */
char *vt_debuginfod_find(const uint8_t *build_id, size_t len, uint64_t deadline_ns);

/* Why a query cannot succeed at all; NULL when it may. */
const char *vt_debuginfod_problem(void);

#endif
