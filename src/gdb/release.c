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
 * When gdb lets go of a process, it delivers the signal that this was stopped with. These are a debugger's own or are kept from the
 * process by gdb (unless it was told otherwise), or do nothing: cuda-gdb stops with SIGURG.
 */
static bool is_harmless(const struct vt_gdb_state *state, int signo)
{
	static const int harmless[] = { 0, SIGTRAP, SIGSTOP, SIGINT, SIGURG, SIGCHLD, SIGWINCH, SIGCONT };

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
 * While gdb does not hold it, a process that gdb has started is in the background of the terminal that both have: should it read
 * from there, the kernel sends it SIGTTIN.
 */
static bool shares_input(pid_t pid, pid_t gdb)
{
	VT_CLOSE int fd = open_input(gdb);
	struct stat ours, theirs;
	struct vt_proc proc = { 0 };
	char path[32];
	bool is_child;

	snprintf(path, sizeof(path), "/proc/%d/fd/0", (int)pid);
	if (fd < 0 || !isatty(fd) || fstat(fd, &ours) || stat(path, &theirs) || ours.st_rdev != theirs.st_rdev || !S_ISCHR(theirs.st_mode))
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
			return vt_error_create(VT_ERR_BUSY, "gdb's thread %d stopped with %s, which it would get if gdb let go of the "
					       "process: not done", thread->number, strsignal(thread->signal));
	}
	return NULL;
}

struct vt_error *vt_gdb_may_release(const struct vt_gdb_state *state)
{
	if (state->core)
		return vt_error_create(VT_ERR_UNSUPPORTED, "this is a core: nothing in it can change, and nothing can run in it");
	/* It returns to where gdb has a breakpoint, which is taken out when gdb detaches: to a place that was never code. */
	if (state->in_call)
		return vt_error_create(VT_ERR_BUSY, "a function that was called from gdb has not returned, and would crash the process when it "
				       "does after gdb has let go of it: not done (finish, or return, ends it)");
	/* A thread that has stopped, and gdb has not seen that yet (non-stop), would be left with the SIGSTOP that it was sent. */
	if (vt_held_count_unknown(&state->held))
		return vt_error_create(VT_ERR_BUSY, "gdb gave no registers of %zu threads, as it does not take them to be stopped: not done "
				       "(interrupt -a stops them)", vt_held_count_unknown(&state->held));
	if (shares_input(state->pid, state->held.pid))
		return vt_error_create(VT_ERR_BUSY, "this gdb started the process, and both read from one terminal, which stops the process "
				       "if gdb lets go of it: not done (run </dev/null, or attach, allows it)");
	return refuse_signals(state);
}
