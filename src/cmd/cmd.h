/* SPDX-License-Identifier: Apache-2.0 */
/* Subcommands: one file each. main.c only parses the name and dispatches. */
#ifndef VT_CMD_CMD_H
#define VT_CMD_CMD_H

#include "base/exit.h"
#include "model/model.h"

_Static_assert((int)VT_EXIT_COMPLETE == (int)VT_COMPLETE &&
		       (int)VT_EXIT_PARTIAL == (int)VT_PARTIAL &&
		       (int)VT_EXIT_NOTHING == (int)VT_NOTHING,
	       "a report's exit code is how complete it is");

struct vt_command {
	const char *name;
	const char *summary;               /* one line for vramtap --help; NULL: not for people */
	int (*run)(int argc, char **argv); /* argv[0] is "vramtap NAME"; returns the exit code */
};

int vt_cmd_html(int argc, char **argv);
int vt_cmd_diff(int argc, char **argv);
int vt_cmd_gdb(int argc, char **argv);
int vt_cmd_gdb_script(int argc, char **argv);
int vt_cmd_layouts(int argc, char **argv);
int vt_cmd_ps(int argc, char **argv);
int vt_cmd_record(int argc, char **argv);
int vt_cmd_relieve(int argc, char **argv);
int vt_cmd_report(int argc, char **argv);
int vt_cmd_run(int argc, char **argv);
int vt_cmd_stacks(int argc, char **argv);
int vt_cmd_triage(int argc, char **argv);
int vt_cmd_watch(int argc, char **argv);

/* The last paragraph of every --help. */
#define VT_EXIT_CODES_DOC                                                                                         \
	"Exit status: 0 the report is complete; 1 partial (it says what is missing and why); 2 nothing could be " \
	"learned; 3 not permitted (the message says what would allow it); 64 wrong usage."

#endif
