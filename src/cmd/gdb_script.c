/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vramtap gdb-script [GDB ARGUMENT...]: gdb's commands, with the place of this very program in
 * them; or gdb with them.
 */
#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/arguments.h"
#include "cmd/cmd.h"

#define MARK "@VRAMTAP@"

extern const char vt_gdb_script[], vt_gdb_script_end[];

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	char ***command = state->input;

	if (key != ARGP_KEY_ARG)
		return ARGP_ERR_UNKNOWN;
	/* The rest is the debugger's, options included. */
	*command = &state->argv[state->next - 1];
	state->next = state->argc;
	(void)arg;
	return 0;
}

static const struct argp argp = {
	.parser = parse_option,
	.args_doc = "\n[--] GDB [ARGUMENT...]",
	.doc = "Print vramtap's commands for gdb and cuda-gdb, to a file for gdb to source; or "
	       "start gdb with them: vramtap gdb-script gdb -p PID. See vramtap-gdb(7).",
};

/*
 * It becomes a word of a shell's command in a gdb script: gdb ends its own part at |, and
 * substitutes $arg0.
 */
static bool is_harmless(const char *path)
{
	return !path[strcspn(path, "'|$\\\n")];
}

/* Our file may have been deleted or replaced since, or have no name at all. */
static bool is_own(const char *path)
{
	struct stat own, there;

	return !stat("/proc/self/exe", &own) && !stat(path, &there) && own.st_dev == there.st_dev &&
	       own.st_ino == there.st_ino;
}

static struct vt_error *own_path(char path[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);

	if (n < 0)
		return vt_error_create_os(errno, "cannot find the place of this program");
	path[n] = '\0';
	if (!is_own(path))
		return vt_error_create(VT_ERR_NOTFOUND,
				       "this program is not there any more for gdb to call: %s",
				       path);
	if (!is_harmless(path))
		return vt_error_create(
			VT_ERR_UNSUPPORTED,
			"gdb's command language cannot take the name %s of this program: copy it "
			"to another place",
			path);
	return NULL;
}

static struct vt_error *write_script(FILE *out)
{
	char path[PATH_MAX];

	VT_TRY(own_path(path));
	for (const char *at = vt_gdb_script, *mark; *at; at = mark + strlen(MARK)) {
		mark = strstr(at, MARK);
		if (!mark) {
			fputs(at, out);
			break;
		}
		fprintf(out, "%.*s'%s'", (int)(mark - at), at, path);
	}
	if (fflush(out) || ferror(out))
		return vt_error_create_os(errno, "cannot write the script");
	return NULL;
}

/*
 * gdb sources regular files only. <(vramtap gdb-script) in a shell is a pipe; a memfd is a regular
 * file.
 */
static struct vt_error *start_gdb(char **command, int n)
{
	char script[32];
	int fd = memfd_create("vramtap.gdb", 0);
	FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
	VT_FREE char **args = calloc((size_t)n + 3, sizeof(*args));

	if (!out || !args)
		return vt_error_create_os(errno, "cannot make a file for the commands");
	VT_TRY(write_script(out));
	snprintf(script, sizeof(script), "/proc/self/fd/%d", fd);
	args[0] = command[0];
	args[1] = "-x";
	args[2] = script;
	memcpy(args + 3, command + 1, ((size_t)n - 1) * sizeof(*args));
	/* As main() found them. */
	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	execvp(args[0], args);
	return vt_error_create_os(errno, "cannot start %s", command[0]);
}

int vt_cmd_gdb_script(int argc, char **argv)
{
	char **command = NULL;

	vt_parse_command(&argp, argc, argv, ARGP_IN_ORDER, &command);

	VT_ERROR struct vt_error *err = command ? start_gdb(command, (int)(argv + argc - command)) :
						  write_script(stdout);

	return err ? vt_exit_with(err) : VT_EXIT_COMPLETE;
}
