/* SPDX-License-Identifier: Apache-2.0 */
/* vramtap gdb-script: gdb's commands, with the place of this very program in them. */
#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"

#define PLACE "@VRAMTAP@"

extern const char vt_gdb_script[], vt_gdb_script_end[];

static const struct argp argp = {
	.doc = "Prints the commands for gdb and cuda-gdb, for gdb -x <(vramtap gdb-script) -p PID, or for a file that gdb sources; see "
	       "vramtap-gdb(7).",
};

/* It becomes a word of a shell's command in a gdb script: gdb ends its own part at |, and substitutes $arg0. */
static bool is_harmless(const char *path)
{
	return !path[strcspn(path, "'|$\\\n")];
}

static struct vt_error *own_path(char path[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);

	if (n < 0)
		return vt_error_create_os(errno, "cannot find the place of this program");
	path[n] = '\0';
	if (!is_harmless(path))
		return vt_error_create(VT_ERR_UNSUPPORTED, "gdb's command language cannot take the name %s of this program: copy it "
				       "to another place", path);
	return NULL;
}

static struct vt_error *print_script(void)
{
	char path[PATH_MAX];

	VT_TRY(own_path(path));
	for (const char *at = vt_gdb_script, *place; *at; at = place + strlen(PLACE)) {
		place = strstr(at, PLACE);
		if (!place) {
			fputs(at, stdout);
			break;
		}
		printf("%.*s'%s'", (int)(place - at), at, path);
	}
	if (fflush(stdout) || ferror(stdout))
		return vt_error_create_os(errno, "cannot write the script");
	return NULL;
}

int vt_cmd_gdb_script(int argc, char **argv)
{
	argp_err_exit_status = VT_EXIT_USAGE;
	argp_parse(&argp, argc, argv, 0, NULL, NULL);

	VT_ERROR struct vt_error *err = print_script();

	return err ? vt_cmd_fail(err) : VT_EXIT_COMPLETE;
}
