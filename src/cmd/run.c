/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vramtap run [OPTION...] -- COMMAND [ARGUMENT...]: runs the command as usual, with one difference:
 * when the driver is initialised, it loads the recorder and waits until recording is on
 * (vramtap/gate.h). A separate process serves each process that comes to the gate, because several
 * ranks of a job come at once.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/vec.h"
#include "cmd/cmd.h"
#include "cmd/options_record.h"
#include "cmd/output.h"
#include "record/oom_file.h"
#include "record/run_gate.h"
#include "inject/recorder/gate.h"

/* As env, nice, timeout and others have it. */
#define EXIT_OURSELVES 125
#define EXIT_NOT_EXECUTABLE 126
#define EXIT_NOT_FOUND 127

#define WORKERS_END_NS (3 * VT_NS_PER_S)
/* The report of the error that ended the command is being written, to a disk that may be slow. */
#define WORKERS_SAVE_NS (60 * VT_NS_PER_S)

enum {
	KEY_CHILDREN = VT_KEY_COMMAND,
	KEY_ON_OOM,
};

struct arguments {
	struct vt_record_options record;
	bool children, quiet;
	const char *on_oom; /* pattern of the files; NULL: errors are not caught */
	char **command;
};

struct run {
	const struct arguments *args;
	struct vt_gate gate;
	sigset_t mask; /* as it was */
	int signals;   /* signalfd */
	int life[2];   /* workers read from it: it ends with us */
	pid_t command; /* 0: it has ended */
	int status;    /* of it, as wait() has it */
	unsigned int n_workers, n_came, n_left;
	unsigned int *n_recorded; /* shared with the workers */
	bool interrupted;         /* when the command had ended */
};

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "Where to record:", 2 },
	{ "children", KEY_CHILDREN, NULL, 0, "Also record in all processes that COMMAND starts",
	  0 },
	{ "on-oom", KEY_ON_OOM, "FILE", OPTION_ARG_OPTIONAL,
	  "When a GPU allocation runs out of memory, in COMMAND or a process that it starts: hold "
	  "the thread for a moment, save what used the memory, which code asked for more and where "
	  "all threads were, then let the exception go on. FILE (default "
	  "vramtap-oom-%h-%p-%t.json) may be a directory, or have %h (the host), %p (the process) "
	  "and %t (the time); the text goes beside it, and no file is overwritten",
	  0 },
	{ "quiet", 'q', NULL, 0, "Do not name the recorded process on standard error", 0 },
	{ 0 },
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct arguments *args = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &args->record;
		return 0;
	case KEY_CHILDREN:
		args->children = true;
		return 0;
	case KEY_ON_OOM:
		args->on_oom = arg ? arg : VT_OOM_FILE_PATTERN;
		args->children = true;
		if (!*args->on_oom || !strcmp(args->on_oom, "-") ||
		    !vt_oom_pattern_is_valid(args->on_oom))
			argp_error(
				state,
				"--on-oom takes the name of a file, in which %%h is the host, %%p the process, %%t the time and %%%% a percent sign, not \"%s\"",
				args->on_oom);
		return 0;
	case 'q':
		args->quiet = true;
		return 0;
	case ARGP_KEY_ARG:
		/* The rest is the command's, options included. */
		args->command = &state->argv[state->next - 1];
		state->next = state->argc;
		(void)arg;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "no command given; it goes after the options");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_child children[] = {
	{ &vt_record_argp, 0, NULL, 1 },
	{ 0 },
};

static const struct argp argp = {
	.options = options,
	.parser = parse_option,
	.children = children,
	.args_doc = "[--] COMMAND [ARGUMENT...]",
	.doc = "Run COMMAND and record the backtraces of its GPU memory allocations, from the "
	       "first one. vramtap record PID on does the same in a process that already runs. "
	       "While COMMAND runs, vramtap report PID shows what was recorded.\v"
	       "Exit status: that of COMMAND; 125 vramtap itself failed; 126 COMMAND cannot be "
	       "run; 127 there is no such command; 64 wrong usage.",
};

/* ---- the command ---- */

static _Noreturn void exec_command(const struct run *run, int report)
{
	int err;

	setenv(VT_GATE_INJECTION, run->gate.path, 1);
	setenv(VT_GATE_VARIABLE, run->gate.name, 1);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	sigprocmask(SIG_SETMASK, &run->mask, NULL);
	execvp(run->args->command[0], run->args->command);
	err = errno;
	if (write(report, &err, sizeof(err)) < 0)
		_exit(EXIT_OURSELVES);
	_exit(EXIT_NOT_FOUND);
}

/* 0, or the exit status of a failed start. */
static int start_command(struct run *run)
{
	int report[2], err = 0;
	ssize_t n;

	if (pipe2(report, O_CLOEXEC))
		return EXIT_OURSELVES;
	run->command = fork();
	if (run->command == 0)
		exec_command(run, report[1]);
	close(report[1]);
	while ((n = read(report[0], &err, sizeof(err))) < 0 && errno == EINTR)
		;
	close(report[0]);
	if (run->command < 0) {
		perror("vramtap: fork");
		return EXIT_OURSELVES;
	}
	if (n != sizeof(err))
		return 0;
	waitpid(run->command, NULL, 0);
	fprintf(stderr, "vramtap: %s: %s\n", run->args->command[0], strerror(err));
	return err == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}

/* ---- processes that come to the gate ---- */

static void work(struct run *run, pid_t pid, int fd)
{
	const struct vt_run_gate gate = {
		.request = run->args->record.request,
		.children = run->args->children,
		.quiet = run->args->quiet,
		.on_oom = run->args->on_oom,
		.processes = run->n_recorded,
		.life = run->life[0],
	};

	/*
	 * Our ends must close with us, so that processes that wait at the gate, or come later,
	 * notice.
	 */
	close(run->life[1]);
	close(run->signals);
	vt_gate_deinit(&run->gate);
	_exit(vt_run_gate(&gate, pid, fd));
}

/* At once: the job may run for days. */
static void say_left(struct run *run, pid_t pid)
{
	char path[32], name[64] = "";
	VT_CLOSE int fd = -1;
	ssize_t n = 0;

	if (run->n_left++ || run->args->quiet)
		return;
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		n = read(fd, name, sizeof(name) - 1);
	if (n > 0 && name[n - 1] == '\n')
		name[n - 1] = '\0';
	fputs("vramtap: ", stderr);
	vt_print_escaped(stderr, name);
	fprintf(stderr,
		" (%d), started by %s, uses CUDA and is not recorded: --children records it, too\n",
		(int)pid, run->args->command[0]);
}

static void receive(struct run *run)
{
	struct vt_error *err VT_ERROR = NULL;
	pid_t pid, worker;
	int fd;

	err = vt_gate_accept(&run->gate, &pid, &fd);
	if (err)
		return;
	if (pid != run->command && !run->args->children) {
		vt_gate_go(fd);
		close(fd);
		say_left(run, pid);
		return;
	}
	run->n_came++;
	worker = fork();
	if (worker == 0)
		work(run, pid, fd);
	if (worker > 0)
		run->n_workers++;
	else
		perror("vramtap: fork");
	/* Closed everywhere, the process at the gate goes on. */
	close(fd);
}

/* ---- until it ends ---- */

static void reap(struct run *run)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == run->command) {
			run->command = 0;
			run->status = status;
		} else {
			run->n_workers--;
		}
	}
}

static void take_signal(struct run *run)
{
	struct signalfd_siginfo info;

	if (read(run->signals, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo == SIGCHLD) {
		reap(run);
		return;
	}
	/*
	 * Signals of the terminal go to the whole foreground group; the others were meant for the
	 * command.
	 */
	if (run->command <= 0)
		run->interrupted = true;
	else if (info.ssi_code <= 0)
		kill(run->command, (int)info.ssi_signo);
}

static void watch(struct run *run)
{
	struct pollfd fds[] = {
		{ .fd = run->signals, .events = POLLIN },
		{ .fd = run->gate.listener, .events = POLLIN },
	};

	while (run->command) {
		if (poll(fds, 2, -1) < 0)
			continue;
		if (fds[0].revents)
			take_signal(run);
		if (fds[1].revents)
			receive(run);
	}
}

/* They exit when they see that the pipe has closed. */
static void end_workers(struct run *run)
{
	uint64_t deadline = vt_now_ns() + (run->args->on_oom ? WORKERS_SAVE_NS : WORKERS_END_NS);

	close(run->life[1]);
	while (run->n_workers && !run->interrupted && !vt_deadline_passed(deadline)) {
		struct pollfd signals = { .fd = run->signals, .events = POLLIN };

		if (poll(&signals, 1, 100) > 0)
			take_signal(run);
	}
}

static bool prepare(struct run *run)
{
	static const int forwarded[] = {
		SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD
	};
	struct vt_error *err VT_ERROR = vt_gate_init(&run->gate);
	sigset_t set;

	if (err) {
		fprintf(stderr, "vramtap: %s\n", err->message);
		return false;
	}
	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(forwarded) / sizeof(forwarded[0]); i++)
		sigaddset(&set, forwarded[i]);
	sigprocmask(SIG_BLOCK, &set, &run->mask);
	run->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	run->n_recorded = mmap(NULL, sizeof(*run->n_recorded), PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (run->signals < 0 || run->n_recorded == MAP_FAILED || pipe2(run->life, O_CLOEXEC)) {
		perror("vramtap");
		return false;
	}
	return true;
}

/* Said at once, and not when the job has run for nine hours. */
static bool can_save(const struct arguments *args)
{
	VT_ERROR struct vt_error *err = args->on_oom ? vt_oom_pattern_check(args->on_oom) : NULL;

	if (err)
		vt_exit_with(err);
	return !err;
}

static void say_what_was_not_recorded(const struct run *run)
{
	if (run->args->quiet)
		return;
	if (run->n_left > 1)
		fprintf(stderr,
			"vramtap: %u processes started by %s used CUDA and were not recorded: --children records them, too\n",
			run->n_left, run->args->command[0]);
	else if (!run->n_left && !run->n_came)
		fprintf(stderr, "vramtap: %s did not initialise CUDA; nothing was recorded\n",
			run->args->command[0]);
}

/* We exit as the command did. */
static int end_as(int status)
{
	const struct rlimit no_core = { 0, 0 };
	sigset_t set;

	if (!WIFSIGNALED(status))
		return WEXITSTATUS(status);
	setrlimit(RLIMIT_CORE, &no_core);
	prctl(PR_SET_DUMPABLE, 0);
	signal(WTERMSIG(status), SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, WTERMSIG(status));
	raise(WTERMSIG(status));
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	return 128 + WTERMSIG(status);
}

int vt_cmd_run(int argc, char **argv)
{
	struct arguments args = { 0 };
	struct run run = { .args = &args };
	const char *other = getenv(VT_GATE_INJECTION);
	int status;

	vt_parse_command(&argp, argc, argv, ARGP_IN_ORDER, &args);
	if (other && *other) {
		fprintf(stderr,
			"vramtap: " VT_GATE_INJECTION
			" is already set (%s): the driver can load only one tool, and another one (a profiler?) asks for it. Unset it, or start the program without vramtap run and use vramtap record\n",
			other);
		return EXIT_OURSELVES;
	}
	if (!can_save(&args) || !prepare(&run))
		return EXIT_OURSELVES;
	status = start_command(&run);
	if (status)
		return status;
	watch(&run);
	vt_gate_deinit(&run.gate);
	end_workers(&run);
	say_what_was_not_recorded(&run);
	return end_as(run.status);
}
