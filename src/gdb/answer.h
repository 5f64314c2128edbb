/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What gdb is told: a file of its own commands, "printf" and "echo" for text and "set" for convenience variables, which the script
 * sources. So the text goes through gdb: it is paged, logged, piped and shown by front ends as gdb's own is.
 */
#ifndef VT_GDB_ANSWER_H
#define VT_GDB_ANSWER_H

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/str.h"

/*
 * The exit status that says that there is a file: none of a shell's own, and none after a signal (gdbcmds/vramtap.gdb.in). With any
 * other there is none of ours, whatever is in that place.
 */
#define VT_GDB_ANSWERED 0xd5

struct vt_gdb_answer {
	FILE *text;      /* what is to be shown: writers write here */
	char *data;      /* private: of text */
	size_t n;        /* private: of text */
	struct vt_str commands; /* private */
};

struct vt_error *vt_gdb_answer_init(struct vt_gdb_answer *answer);
void vt_gdb_answer_deinit(struct vt_gdb_answer *answer);

/* Values of $name. A void variable is one that is not known. */
void vt_gdb_set_number(struct vt_gdb_answer *answer, const char *name, uint64_t value);
void vt_gdb_set_text(struct vt_gdb_answer *answer, const char *name, const char *text);
void vt_gdb_set_void(struct vt_gdb_answer *answer, const char *name);

/* A command of gdb's, as it is. These and the values come before the text, which somebody may not want to see to its end. */
void vt_gdb_command(struct vt_gdb_answer *answer, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The file for the gdb with this pid: in a directory of ours alone, /tmp/vramtap-gdb-PID; its last command removes it. */
struct vt_error *vt_gdb_answer_write(struct vt_gdb_answer *answer, pid_t gdb);

/* Without the file: the text goes to standard output, and no variable is set. */
void vt_gdb_answer_print(struct vt_gdb_answer *answer);

#endif
