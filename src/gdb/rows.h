/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a table as commands of gdb: lines that begin with an address, as in the list of all
 * blocks. gdb takes a microsecond or two to read a byte of a command. So what is behind addresses,
 * in many rows the same, is sent once, as the value of a variable; and a command ("_vramtap r")
 * has of each row four digits of its address and the variable's letter. (Each variable costs gdb
 * some microseconds, too: it first looks for a register of that name.)
 */
#ifndef VT_GDB_ROWS_H
#define VT_GDB_ROWS_H

#include <stddef.h>

#include "base/str.h"

#define VT_GDB_TAILS 26 /* a letter each */

/* What the variables have. Zeroed at the beginning. */
struct vt_gdb_rows {
	struct vt_gdb_tail {
		const char *text; /* from the last two digits of the address on; NULL: none */
		size_t n;
		size_t used; /* when: the row's number */
	} tails[VT_GDB_TAILS];
	size_t n; /* rows so far */
};

/* The end of the rows at the beginning of a text, as many as whole commands take: text if none. */
const char *vt_gdb_rows_end(const char *text, const char *end);

/* Adds the commands for rows up to that end. */
void vt_gdb_add_rows(struct vt_gdb_rows *rows, struct vt_str *out, const char *text,
		     const char *end);

/* Adds the commands that leave the variables void. */
void vt_gdb_end_rows(const struct vt_gdb_rows *rows, struct vt_str *out);

#endif
