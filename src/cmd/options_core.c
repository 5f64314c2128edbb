/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/options_core.h"

#include "cmd/output.h"

enum {
	KEY_CORE = 384, /* between those of cmd/output.c and VT_KEY_COMMAND */
	KEY_EXE,
	KEY_SYSROOT,
};

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "Read a core instead of a process:", VT_OUTPUT_GROUP - 1 },
	{ "core", KEY_CORE, "FILE", 0, "A core of a process, from gcore, the kernel or cuda-gdb",
	  0 },
	{ "exe", KEY_EXE, "FILE", 0, "The core's executable, if it is not where the core says", 0 },
	{ "sysroot", KEY_SYSROOT, "DIR", 0,
	  "The files of the machine that made the core: under their own paths, by build id "
	  "(.build-id), or anywhere with the same name",
	  0 },
	{ 0 },
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct vt_subject *subject = state->input;

	switch (key) {
	case KEY_CORE:
		if (subject->core)
			argp_error(state, "one core at a time");
		subject->core = arg;
		return 0;
	case KEY_EXE:
		subject->paths.exe = arg;
		return 0;
	case KEY_SYSROOT:
		subject->paths.sysroot = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp vt_core_argp = { .options = options, .parser = parse_option };

bool vt_choose_origin(struct argp_state *state, struct vt_subject *subject, bool have_pid)
{
	if (subject->core && have_pid)
		argp_error(state, "a PID and --core exclude each other");
	if (!subject->core && (subject->paths.exe || subject->paths.sysroot))
		argp_error(state, "--exe and --sysroot go with --core");
	subject->origin = subject->core ? &vt_origin_core : &vt_origin_process;
	return subject->core || have_pid;
}
