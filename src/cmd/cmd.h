/* SPDX-License-Identifier: Apache-2.0 */
/* Subcommands: one file each. main.c only parses the name and dispatches. */
#ifndef VT_CMD_CMD_H
#define VT_CMD_CMD_H

#include "base/error.h"
#include "model/model.h"

/* Exit codes; 0, 1 and 2 are enum vt_completeness. Documented in --help and the man pages. */
enum {
	VT_EXIT_COMPLETE = VT_COMPLETE,
	VT_EXIT_PARTIAL = VT_PARTIAL,
	VT_EXIT_NOTHING = VT_NOTHING,
	VT_EXIT_NOT_PERMITTED = 3,
	VT_EXIT_NO_EVENT = 4, /* what was watched for did not happen */
	VT_EXIT_USAGE = 64,
};

struct vt_command {
	const char *name;
	const char *summary; /* one line for vramtap --help; NULL: not for people */
	int (*run)(int argc, char **argv); /* argv[0] is "vramtap NAME"; returns the exit code */
};

int vt_cmd_diff(int argc, char **argv);
int vt_cmd_gdb(int argc, char **argv);
int vt_cmd_gdb_script(int argc, char **argv);
int vt_cmd_layouts(int argc, char **argv);
int vt_cmd_record(int argc, char **argv);
int vt_cmd_report(int argc, char **argv);
int vt_cmd_run(int argc, char **argv);
int vt_cmd_stacks(int argc, char **argv);
int vt_cmd_triage(int argc, char **argv);
int vt_cmd_watch(int argc, char **argv);

/* Prints "vramtap: message" to standard error, escaped, and returns the exit code that belongs to the error. */
int vt_cmd_fail(const struct vt_error *err);

/* The last paragraph of every --help. */
#define VT_EXIT_CODES_DOC                                                                                   \
	"Exit status: 0 the report is complete; 1 partial (it says what is missing and why); 2 nothing could be " \
	"learned; 3 not permitted (the message says what would allow it); 64 wrong usage."

#endif
