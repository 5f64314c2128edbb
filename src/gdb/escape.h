/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes as gdb's commands can have them. */
#ifndef VT_GDB_ESCAPE_H
#define VT_GDB_ESCAPE_H

#include <stddef.h>

#include "base/str.h"

/*
 * Adds what a command of gdb has between its quotes. Characters that gdb may interpret are octal: a
 * backslash, quotes, $ and #. Also non-ASCII ones, which still go out as bytes.
 */
void vt_gdb_add_escaped(struct vt_str *out, const char *text, size_t n);

#endif
