/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the subcommand and runs it. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sigbus.h"
#include "base/str.h"
#include "cmd/cmd.h"

static const struct vt_command commands[] = {
	{ "report", "show the GPU memory, blocks and stacks of one process", vt_cmd_report },
	{ "stacks", "show where each thread is and what it waits for", vt_cmd_stacks },
	{ "triage", "compare the processes of a job: which differ, what they hold", vt_cmd_triage },
	{ "record", "record allocations in a running process: on, status, off", vt_cmd_record },
	{ "diff", "compare two reports: what grew, and what allocated it", vt_cmd_diff },
	{ "watch", "catch the next out-of-memory error, or find what grows", vt_cmd_watch },
	{ "run", "run a program and record its allocations from the first one", vt_cmd_run },
	{ "gdb", NULL, vt_cmd_gdb },
	{ "gdb-script", "start gdb or cuda-gdb with vramtap's commands, or print them",
	  vt_cmd_gdb_script },
	{ "layouts", "show known layouts of PyTorch's allocator, or that of a process",
	  vt_cmd_layouts },
};

static void print_usage(FILE *out)
{
	fputs("Usage: vramtap COMMAND [OPTION...] ARGUMENT...\n"
	      "Show what is using a live CUDA process's GPU memory, and where the process is "
	      "stuck.\n"
	      "\n"
	      "Commands:\n",
	      out);
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (commands[i].summary)
			fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].summary);
	fputs("\nvramtap COMMAND --help describes a command; vramtap --version prints the version.\n",
	      out);
}

/*
 * The next open() would reuse a closed standard descriptor, perhaps for /proc/PID/mem, and a
 * message for standard error would go there. We open it the wrong way round, so that its use still
 * fails.
 */
static void keep_standard_descriptors(void)
{
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 &&
		    open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd)
			_exit(VT_EXIT_USAGE);
}

int main(int argc, char **argv)
{
	keep_standard_descriptors();
	/*
	 * A closed pipe or a limit on file sizes is an error that is reported, not a silent death
	 * in the middle of a session.
	 */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	/* Where it is ignored, children that ended leave no status to wait for. */
	signal(SIGCHLD, SIG_DFL);
	vt_sigbus_survive();
	if (argc < 2) {
		print_usage(stderr);
		return VT_EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-?") || !strcmp(argv[1], "help")) {
		print_usage(stdout);
		return 0;
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		puts("vramtap " PACKAGE_VERSION);
		return 0;
	}
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		char name[64];

		if (strcmp(argv[1], commands[i].name) != 0)
			continue;
		/* argp prints argv[0] in its usage texts. */
		snprintf(name, sizeof(name), "vramtap %s", commands[i].name);
		argv[1] = name;
		return commands[i].run(argc - 1, argv + 1);
	}
	fprintf(stderr, "vramtap: unknown command \"%s\"; vramtap --help lists the commands\n",
		argv[1]);
	return VT_EXIT_USAGE;
}
