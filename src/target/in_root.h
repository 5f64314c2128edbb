/* SPDX-License-Identifier: Apache-2.0 */
/* Finding files below a directory as if that were the root: no name and no link leads out of it. */
#ifndef VT_TARGET_IN_ROOT_H
#define VT_TARGET_IN_ROOT_H

/* An O_PATH descriptor of what path names, links followed, below the directory root; or -1. */
int vt_in_root_find(int root, const char *path);

/* The same without openat2(), which Linux has since 5.6 and some containers forbid. */
int vt_in_root_walk(int root, const char *path);

#endif
