/* SPDX-License-Identifier: Apache-2.0 */
/* Files of the target are mapped; another process may truncate them while they are read. */
#ifndef VT_BASE_SIGBUS_H
#define VT_BASE_SIGBUS_H

/*
 * From here on, a page of a mapped file that no longer exists (the file was truncated, or its
 * server is gone) reads as zeros instead of ending this program with SIGBUS. Readers of files treat
 * zeros as damage, which they expect anyway.
 */
void vt_sigbus_survive(void);

#endif
