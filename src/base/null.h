/* SPDX-License-Identifier: Apache-2.0 */
/* A descriptor to read nothing from and to write nothing to. */
#ifndef VT_BASE_NULL_H
#define VT_BASE_NULL_H

/*
 * flags: O_CLOEXEC or 0. Without /dev/null, in a chroot that has nothing but the program, it is a
 * file in memory, which keeps what is written to it. -1: there is none.
 */
int vt_open_null(int flags);

#endif
