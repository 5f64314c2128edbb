/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer to gdb: a file of gdb commands that the script sources. "printf" and "echo" print
 * text, "set" sets convenience variables. The text goes through gdb, so gdb pages, logs and pipes
 * it, and front ends show it, like gdb's own output.
 */
#ifndef VT_GDB_ANSWER_H
#define VT_GDB_ANSWER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/str.h"

/*
 * The exit status for "there is a file". No shell uses it, and no signal leads to it
 * (gdbcmds/vramtap.gdb.in). With any other status, a file in that place is not ours.
 */
#define VT_GDB_ANSWERED 0xd5

struct vt_gdb_answer {
	FILE *text;             /* what gdb shows: writers write here */
	bool python;            /* this gdb has Python, which the caller knows */
	char *data;             /* private: of text */
	size_t n;               /* private: of text */
	struct vt_str commands; /* private */
};

struct vt_error *vt_gdb_answer_init(struct vt_gdb_answer *answer);
void vt_gdb_answer_deinit(struct vt_gdb_answer *answer);

/* Set the value of $name. A void variable means unknown. */
void vt_gdb_set_number(struct vt_gdb_answer *answer, const char *name, uint64_t value);
void vt_gdb_set_text(struct vt_gdb_answer *answer, const char *name, const char *text);
void vt_gdb_set_void(struct vt_gdb_answer *answer, const char *name);

/*
 * Adds a gdb command unchanged. Commands and values come before the text, because the user may quit
 * the pager early.
 */
void vt_gdb_command(struct vt_gdb_answer *answer, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Writes the file for the gdb with this pid, into a directory of our own, /tmp/vramtap-gdb-PID. The
 * first commands in the file remove it. A long text is a second file there, if gdb has Python.
 */
struct vt_error *vt_gdb_answer_write(struct vt_gdb_answer *answer, pid_t gdb);

/* Writes no file: prints the text to standard output and sets no variable. */
void vt_gdb_answer_print(struct vt_gdb_answer *answer);

#endif
