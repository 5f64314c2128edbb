/* SPDX-License-Identifier: Apache-2.0 */
/* Closing what a new process has inherited. */
#ifndef VT_BASE_CLOSE_H
#define VT_BASE_CLOSE_H

/* Closes all descriptors from first on. May be called between fork() and exec(). */
void vt_close_from(int first);

#endif
