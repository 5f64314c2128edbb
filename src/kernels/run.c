/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The debugger as a process, which is never ended by us. While it attaches it has breakpoints in
 * the process and calls functions there: killed 0.1 s after its start it took the process with it
 * (cuda-gdb 13.0, H100), and SIGTERM made it abort. So it has a session of its own, outlives us,
 * and writes to memory, not to a pipe that could break. What is bounded is how long we wait, and
 * what it can write.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/close.h"
#include "base/memfd.h"
#include "base/null.h"
#include "base/sandbox.h"
#include "kernels/kernels.h"

#define MAX_SAID ((size_t)4 << 20) /* a full H100, each warp at a place of its own: 1.1 MB */
#define LOOK_NS (5 * VT_NS_PER_MS)

/*
 * Without symbols of libraries it needs 0.3 s for a PyTorch process, with them 6 to 13 s; kernels
 * have their names all the same. --readnever makes it fail. Nothing of the user's, nor of the
 * process's files, may give it commands.
 */
#define BEFORE                                                                                   \
	"-nx", "-batch", "-iex", "set auto-solib-add off", "-iex", "set debuginfod enabled off", \
		"-iex", "set auto-load off"

#define ASK(what, command) "-ex", "echo \\n@@ " what "\\n", "-ex", command
/* The innermost frame, and where the code of its function begins. */
#define ASK_KERNEL(n) ASK("kernel " #n, "cuda kernel " #n), "-ex", "bt 1", "-ex", "info line *$pc"

static const char *const before[] = { BEFORE };
static const char *const questions[] = {
	ASK("devices", "info cuda devices"),
	ASK("kernels", "info cuda kernels"),
	ASK_KERNEL(0),
	ASK_KERNEL(1),
	ASK_KERNEL(2),
	ASK_KERNEL(3),
	/*
	 * Last, as it takes longest: 0.3 s for 270,000 threads. It shows those of the kernel in
	 * focus, which stays where it is if there is no such kernel; "kernel all" shows none.
	 */
	ASK("threads", "cuda kernel 0"),
	"-ex",
	"info cuda threads",
	ASK("threads", "cuda kernel 1"),
	"-ex",
	"info cuda threads",
};

#define N_BEFORE (sizeof(before) / sizeof(before[0]))
#define N_QUESTIONS (sizeof(questions) / sizeof(questions[0]))

struct arguments {
	char pid[16];
	const char *argv[N_BEFORE + N_QUESTIONS + 4];
	const char **envp;
};

static bool begins_with(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

/*
 * It speaks English, and asks no server. Root's environment can come from the user who became root
 * (sudo -E), and names files that are run.
 */
static bool is_passed_on(const char *variable, bool root)
{
	static const char *const left_out[] = { "LC_", "LANG", "TERM=", "DEBUGINFOD_URLS=" };

	if (root)
		return begins_with(variable, "TMPDIR=");
	for (size_t i = 0; i < sizeof(left_out) / sizeof(left_out[0]); i++)
		if (begins_with(variable, left_out[i]))
			return false;
	return true;
}

/* NULL: out of memory. */
static const char **make_environment(void)
{
	const char **envp;
	bool root = geteuid() == 0;
	size_t n = 0, kept = 0;

	while (environ[n])
		n++;
	envp = calloc(n + 5, sizeof(*envp));
	if (!envp)
		return NULL;
	for (size_t i = 0; i < n; i++)
		if (is_passed_on(environ[i], root))
			envp[kept++] = environ[i];
	if (root) {
		envp[kept++] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
		envp[kept++] = "HOME=/";
	}
	envp[kept++] = "LC_ALL=C";
	envp[kept] = "TERM=dumb";
	return envp;
}

static struct vt_error *fill_arguments(struct arguments *args, const char *path, pid_t pid)
{
	size_t n = 0;

	args->envp = make_environment();
	if (!args->envp)
		return &vt_enomem;
	snprintf(args->pid, sizeof(args->pid), "%d", (int)pid);
	args->argv[n++] = path;
	for (size_t i = 0; i < N_BEFORE; i++)
		args->argv[n++] = before[i];
	args->argv[n++] = "-p";
	args->argv[n++] = args->pid;
	for (size_t i = 0; i < N_QUESTIONS; i++)
		args->argv[n++] = questions[i];
	args->argv[n] = NULL;
	return NULL;
}

/* ---- the process ---- */

static _Noreturn void become_debugger(int said, const struct arguments *args)
{
	const char *why = vt_debugger_session_create();
	int null = vt_open_null(0);
	sigset_t none;

	/* Killed for want of anything, it could take the process with it. */
	vt_be_as_before();
	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	(void)setsid();
	if (null < 0 || dup2(said, 1) < 0 || dup2(said, 2) < 0 || dup2(null, 0) < 0)
		_exit(127);
	vt_close_from(3);
	if (why) {
		dprintf(2, "not started: %s\n", why);
		_exit(127);
	}
	execve(args->argv[0], (char *const *)args->argv, (char *const *)args->envp);
	dprintf(2, "cannot run it: %s\n", strerror(errno));
	_exit(127);
}

/* A file of a size that cannot change: what is written behind its end fails, and nothing else. */
static struct vt_error *create_output(int *output)
{
	VT_CLOSE int fd = vt_memfd_create("vramtap-debugger", MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)MAX_SAID) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK))
		return vt_error_create_os(errno, "cannot create a file in memory");
	*output = fd;
	fd = -1;
	return NULL;
}

static struct vt_error *start(const struct arguments *args, int said, pid_t *debugger)
{
	pid_t pid = fork();

	if (pid == 0)
		become_debugger(said, args);
	if (pid < 0)
		return vt_error_create_os(errno, "cannot start a process");
	*debugger = pid;
	return NULL;
}

/* ---- what it says ---- */

/* False: it has not ended by then. */
static bool wait_for(pid_t debugger, uint64_t deadline_ns, int *status)
{
	while (waitpid(debugger, status, WNOHANG) == 0) {
		if (vt_deadline_passed(deadline_ns))
			return false;
		vt_sleep_ns(LOOK_NS);
	}
	return true;
}

/* What was written until now: the debugger's offset in the file is ours. */
static void take_said(int said, struct vt_debugger_run *run)
{
	off_t end = lseek(said, 0, SEEK_CUR);
	size_t n = end <= 0 ? 0 : (size_t)end < MAX_SAID ? (size_t)end : MAX_SAID;
	void *text = n ? mmap(NULL, n, PROT_READ, MAP_SHARED, said, 0) : MAP_FAILED;

	run->cut = n == MAX_SAID;
	if (text == MAP_FAILED)
		return;
	vt_str_addn(&run->said, text, n);
	munmap(text, n);
}

static void read_end(bool ended, pid_t debugger, int status, struct vt_debugger_run *run)
{
	run->end = !ended              ? VT_DEBUGGER_RUNS :
		   WIFSIGNALED(status) ? VT_DEBUGGER_DIED :
					 VT_DEBUGGER_EXITED;
	run->status = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
	run->pid = debugger;
}

void vt_debugger_run_deinit(struct vt_debugger_run *run)
{
	vt_str_deinit(&run->said);
}

struct vt_error *vt_debugger_run(const char *path, pid_t pid, uint64_t deadline_ns,
				 struct vt_debugger_run *run)
{
	struct arguments args = { .envp = NULL };
	VT_CLOSE int said = -1;
	pid_t debugger = 0;
	int status = 0;
	bool ended;
	struct vt_error *err = fill_arguments(&args, path, pid);

	if (!err)
		err = create_output(&said);
	if (!err)
		err = start(&args, said, &debugger);
	free(args.envp);
	VT_TRY(err);
	ended = wait_for(debugger, deadline_ns, &status);
	take_said(said, run);
	read_end(ended, debugger, status, run);
	return run->said.failed ? &vt_enomem : NULL;
}
