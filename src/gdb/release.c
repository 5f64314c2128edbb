/* SPDX-License-Identifier: Apache-2.0 */
#include "gdb/release.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

/*
 * When gdb detaches, it delivers the signal that stopped the process. These signals are a
 * debugger's own, or gdb keeps them from the process (unless the user changed that), or they do
 * nothing: cuda-gdb stops with SIGURG.
 */
static bool is_harmless(const struct vt_gdb_state *state, int signo)
{
	static const int harmless[] = { 0,      SIGTRAP, SIGSTOP,  SIGINT,
					SIGURG, SIGCHLD, SIGWINCH, SIGCONT };

	for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++)
		if (signo == harmless[i])
			return !(state->passed >> signo & 1);
	return false;
}

static int open_input(pid_t pid)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/fd/0", (int)pid);
	return open(path, O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
}

/*
 * A process that gdb has started shares gdb's terminal. While gdb is detached, the process is in
 * the background: if it reads from the terminal, the kernel sends it SIGTTIN.
 */
static bool shares_input(pid_t pid, pid_t gdb)
{
	VT_CLOSE int fd = open_input(gdb);
	struct stat ours, theirs;
	struct vt_proc proc = { 0 };
	char path[32];
	bool is_child;

	snprintf(path, sizeof(path), "/proc/%d/fd/0", (int)pid);
	if (fd < 0 || !isatty(fd) || fstat(fd, &ours) || stat(path, &theirs) ||
	    ours.st_rdev != theirs.st_rdev || !S_ISCHR(theirs.st_mode))
		return false;

	VT_ERROR struct vt_error *err = vt_proc_init(&proc, pid);

	is_child = !err && proc.ppid == gdb;
	vt_proc_deinit(&proc);
	return is_child;
}

static struct vt_error *refuse_signals(const struct vt_gdb_state *state)
{
	for (size_t i = 0; i < state->held.threads.n; i++) {
		const struct vt_held_thread *thread = &state->held.threads.data[i];

		if (!is_harmless(state, thread->signal))
			return vt_error_create(
				VT_ERR_BUSY,
				"thread %d of gdb stopped with %s, which it would get if gdb detached: not done",
				thread->number, strsignal(thread->signal));
	}
	return NULL;
}

struct vt_error *vt_gdb_may_release(const struct vt_gdb_state *state)
{
	if (state->core)
		return vt_error_create(
			VT_ERR_UNSUPPORTED,
			"this is a core: nothing in it can change, and nothing can run in it");
	/*
	 * It returns to a breakpoint of gdb's. When gdb detaches, it removes the breakpoint, and
	 * that place was never code.
	 */
	if (state->in_call)
		return vt_error_create(
			VT_ERR_BUSY,
			"a function called from gdb has not returned, and would crash the process when it does after gdb detached: not done (finish, or return, ends it)");
	/*
	 * If gdb has not yet seen that a thread stopped (non-stop), detaching would leave the
	 * thread its SIGSTOP.
	 */
	if (vt_held_count_unknown(&state->held))
		return vt_error_create(
			VT_ERR_BUSY,
			"gdb gave no registers for %zu threads, as it does not consider them stopped: not done (interrupt -a stops them)",
			vt_held_count_unknown(&state->held));
	if (shares_input(state->pid, state->held.pid))
		return vt_error_create(
			VT_ERR_BUSY,
			"this gdb started the process, and both read from one terminal, which stops the process if gdb detaches: not done (run </dev/null, or attach, allows it)");
	return refuse_signals(state);
}
