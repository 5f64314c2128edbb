/* SPDX-License-Identifier: Apache-2.0 */
/* Text as commands of gdb that print it, so that no byte of it is taken for a command. */
#ifndef VT_GDB_PRINT_H
#define VT_GDB_PRINT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

/* Adds the commands that print the text. They need nothing but gdb's own language. */
void vt_gdb_add_text(struct vt_str *out, const char *text, size_t n);

/*
 * The same where gdb has Python, which reads a file by the block: gdb itself reads its commands
 * with two system calls a byte. The text must be in a file. The first function adds the command
 * that opens it; once that has run, the file may go. The second adds those that print the text.
 */
bool vt_gdb_serves_python(const char *text, size_t n);
void vt_gdb_add_open(struct vt_str *out, const char *path);
void vt_gdb_add_text_of_file(struct vt_str *out, const char *text, size_t n);

#endif
