/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPython's three formats of the table from instructions to lines. Works on plain bytes, without a
 * memory source.
 */
#ifndef VT_WALK_PYTHON_LINE_H
#define VT_WALK_PYTHON_LINE_H

#include <stddef.h>
#include <stdint.h>

#include "walk/python/layout.h"

/*
 * The line of the instruction at byte offset lasti, as the interpreter's own tracebacks show it.
 * Returns first when lasti is negative (the function has not begun), and 0 when the table has no
 * line for it.
 */
int vt_python_line(enum vt_python_line_table kind, const uint8_t *table, size_t size, int first,
		   int32_t lasti);

#endif
