/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many columns text takes on a terminal. Own tables: a static binary has no locale data to ask.
 */
#ifndef VT_BASE_WIDTH_H
#define VT_BASE_WIDTH_H

#include <stddef.h>

/* Columns of one character: 0 combining, 2 wide, 1 else. Where terminals disagree, the larger. */
int vt_width_char(unsigned int code_point);

/* Columns of n bytes of valid UTF-8 without control characters (what vt_str_add_escaped yields). */
int vt_width(const char *text, size_t n);

/* How many bytes of text, from its start, fit into max columns. */
size_t vt_width_prefix(const char *text, size_t n, int max);

/* How many bytes of text, at its end, fit into max columns. */
size_t vt_width_suffix(const char *text, size_t n, int max);

#endif
