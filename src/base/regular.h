/* SPDX-License-Identifier: Apache-2.0 */
/* Opening files whose names come from the target. */
#ifndef VT_BASE_REGULAR_H
#define VT_BASE_REGULAR_H

/*
 * Opens a regular file for reading; -1 when it is not a regular file or cannot be opened. Anything
 * else is not opened even for an instant: the name may be a link to a FIFO, or to a device that
 * reacts to being opened (/dev/watchdog). Files in /sys are not opened either.
 */
int vt_open_regular(const char *path);

#endif
