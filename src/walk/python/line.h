/* SPDX-License-Identifier: Apache-2.0 */
/* The three formats in which CPython says which instruction belongs to which line. No memory source: plain bytes. */
#ifndef VT_WALK_PYTHON_LINE_H
#define VT_WALK_PYTHON_LINE_H

#include <stddef.h>
#include <stdint.h>

#include "walk/python/layout.h"

/*
 * The line of the instruction at byte offset lasti, as the interpreter's own tracebacks have it; first when lasti is negative
 * (the function has not begun); 0 when the table gives it none.
 */
int vt_python_line(enum vt_python_line_table kind, const uint8_t *table, size_t size, int first, int32_t lasti);

#endif
