/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the subcommand and runs it. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sigbus.h"
#include "base/nearest.h"
#include "cmd/cmd.h"
#include "cmd/output.h"
#include "cmd/symptoms.h"

static const struct vt_command commands[] = {
	{ "ps", "list all processes that use CUDA: memory, devices, state", vt_cmd_ps },
	{ "report", "show the GPU memory, blocks and stacks of one process", vt_cmd_report },
	{ "stacks", "show where each thread is and what it waits for", vt_cmd_stacks },
	{ "triage", "compare the processes of a job: which differ, what they hold", vt_cmd_triage },
	{ "record", "record allocations in a running process: on, status, off", vt_cmd_record },
	{ "relieve", "give cached memory of a running process back", vt_cmd_relieve },
	{ "diff", "compare two reports: what grew, and what allocated it", vt_cmd_diff },
	{ "html", "make a page with pictures of what was saved as JSON", vt_cmd_html },
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
	fputs("\nWhat to do when:\n", out);
	vt_print_symptoms(out);
	fputs("\nvramtap PID is vramtap report PID. vramtap help COMMAND describes a command; vramtap "
	      "--version\nprints the version.\n",
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

static const struct vt_command *find_command(const char *name)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(name, commands[i].name))
			return &commands[i];
	return NULL;
}

/* argv[0] is the command's name. argp prints it in its usage texts. */
static int run_command(const struct vt_command *command, int argc, char **argv)
{
	char name[64];

	snprintf(name, sizeof(name), "vramtap %s", command->name);
	argv[0] = name;
	return command->run(argc, argv);
}

/* vramtap PID...: the name is missing, so that the words before it (argv[0]) are its place. */
static int report_on(int argc, char **argv)
{
	return run_command(find_command("report"), argc, argv);
}

static int unknown_command(const char *name)
{
	const char *nearest = NULL;
	unsigned int distance = 3; /* farther words are not meant */

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		unsigned int d = commands[i].summary ? vt_word_distance(name, commands[i].name) :
						       VT_NEAREST_FAR;

		if (d < distance) {
			distance = d;
			nearest = commands[i].name;
		}
	}
	fprintf(stderr, "vramtap: unknown command \"");
	vt_print_escaped(stderr, name);
	if (nearest)
		fprintf(stderr, "\"; did you mean vramtap %s?\n", nearest);
	else
		fprintf(stderr, "\"; vramtap --help lists the commands\n");
	return VT_EXIT_USAGE;
}

/* vramtap help COMMAND */
static int help_with(const char *name)
{
	const struct vt_command *command = find_command(name);
	char word[] = "--help";
	char *argv[] = { NULL, word, NULL };

	return command ? run_command(command, 2, argv) : unknown_command(name);
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

	const char *word = argv[1];
	const struct vt_command *command = find_command(word);

	if (command)
		return run_command(command, argc - 1, argv + 1);
	if (!strcmp(word, "help") && argc > 2)
		return help_with(argv[2]);
	if (!strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "-?") ||
	    !strcmp(word, "help")) {
		print_usage(stdout);
		return 0;
	}
	if (!strcmp(word, "--version") || !strcmp(word, "-V")) {
		puts("vramtap " PACKAGE_VERSION);
		return 0;
	}
	/* A number can only be a process, and the first question is what uses its memory. */
	if (*word && !word[strspn(word, "0123456789")])
		return report_on(argc, argv);
	return unknown_command(word);
}
