/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the debugger and the driver in the process would meet. They do in files below $TMPDIR,
 * else /tmp, of each, whose names have pids in them. Where these differ the debugger gives up after
 * some seconds, and the process hangs in its next call of CUDA (cuda-gdb 13.0, driver 580, H100).
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "collect/collect.h"
#include "kernels/kernels.h"
#include "target/task.h"

#define MAX_ENVIRON ((size_t)1 << 20)
#define SHOWN_PATH 200

/* What the process was started with; a later setenv() is not seen. NULL: it cannot be read. */
static const char *tmp_of(pid_t pid, char *env)
{
	static const char key[] = "TMPDIR=";
	char path[40];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/environ", (int)vt_proc_view(pid));
	n = vt_task_slurp(AT_FDCWD, path, env, MAX_ENVIRON);
	if (n < 0 || (size_t)n >= MAX_ENVIRON - 1)
		return NULL;
	for (const char *at = env; at < env + n; at += strlen(at) + 1)
		if (!strncmp(at, key, sizeof(key) - 1))
			return at + sizeof(key) - 1;
	return "/tmp";
}

static bool is_same(pid_t pid, const char *theirs)
{
	char path[PATH_MAX + 40];
	struct stat a, b;

	snprintf(path, sizeof(path), "/proc/%d/root%s", (int)vt_proc_view(pid), theirs);
	return !stat(path, &a) && !stat(vt_debugger_tmp(), &b) && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

const char *vt_collect_why_debugger_misses(struct vt_collect *c)
{
	pid_t pid = c->target.proc.pid;
	VT_FREE char *env = NULL;
	const char *theirs;

	if (!c->target.proc.same_pid_ns)
		return "the process is in another pid namespace, as in a container: run vramtap there";
	env = malloc(MAX_ENVIRON);
	theirs = env ? tmp_of(pid, env) : NULL;
	if (!theirs)
		return "the environment of the process cannot be read, and so not where the debugger would meet it";
	if (*theirs != '/' || strlen(theirs) >= PATH_MAX)
		return "the process has a TMPDIR that is no absolute path";
	if (is_same(pid, theirs))
		return NULL;
	return vt_arena_printf(
		&c->model->arena,
		"the process and vramtap have different temporary directories, and the debugger would miss the process, which then hangs: run vramtap where TMPDIR=%.*s is the same directory",
		SHOWN_PATH, theirs);
}
