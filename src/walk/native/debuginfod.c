/* SPDX-License-Identifier: Apache-2.0 */
#include "walk/native/debuginfod.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"

#define PROGRAM "debuginfod-find"
#define MAX_ID 64
#define MAX_PATH 4096

const char *vt_debuginfod_problem(void)
{
	const char *urls = getenv("DEBUGINFOD_URLS"), *path = getenv("PATH");

	if (!urls || !urls[strspn(urls, " ")])
		return "DEBUGINFOD_URLS names no server";
	while (path && *path) {
		size_t n = strcspn(path, ":");
		VT_FREE char *file = NULL;

		if (asprintf(&file, "%.*s/" PROGRAM, (int)n, path) < 0)
			file = NULL;
		if (file && access(file, X_OK) == 0)
			return NULL;
		path += n + (path[n] == ':');
	}
	return "the program " PROGRAM " (package debuginfod) is not installed";
}

/* Started with its output in the pipe's other end; -1 when that fails. */
static pid_t start(char *const argv[], int out)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t defaults;
	pid_t pid;
	bool ok;

	/* What this program ignores is not for others. */
	sigemptyset(&defaults);
	sigaddset(&defaults, SIGPIPE);
	sigaddset(&defaults, SIGXFSZ);
	if (posix_spawn_file_actions_init(&actions))
		return -1;
	if (posix_spawnattr_init(&attributes)) {
		posix_spawn_file_actions_destroy(&actions);
		return -1;
	}
	ok = !posix_spawnattr_setsigdefault(&attributes, &defaults) &&
	     !posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF) &&
	     !posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0) &&
	     !posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO) &&
	     !posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0) &&
	     !posix_spawnp(&pid, PROGRAM, &actions, &attributes, argv, environ);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	return ok ? pid : -1;
}

/* Its output until it ends; false when it does not in time, or says more than a path. */
static bool read_output(int in, struct vt_str *text, uint64_t deadline_ns)
{
	while (text->n <= MAX_PATH) {
		struct pollfd pollfd = { .fd = in, .events = POLLIN };
		uint64_t now = vt_now_ns();
		char piece[512];

		if (now >= deadline_ns)
			return false;

		int ready = poll(&pollfd, 1, (int)((deadline_ns - now) / VT_NS_PER_MS) + 1);
		ssize_t n = ready > 0 ? read(in, piece, sizeof(piece)) : -1;

		if (ready == 0 || (n < 0 && errno == EINTR))
			continue;
		if (n <= 0)
			return n == 0 && !text->failed;
		vt_str_addn(text, piece, (size_t)n);
	}
	return false;
}

/* Ends it when it has not ended by itself at the deadline. */
static bool has_succeeded(pid_t pid, uint64_t deadline_ns)
{
	int status = 0;
	pid_t ended;

	while ((ended = waitpid(pid, &status, WNOHANG)) == 0 && !vt_deadline_passed(deadline_ns))
		vt_sleep_ns(VT_NS_PER_MS);
	if (ended == 0) {
		kill(pid, SIGKILL);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
	}
	return ended == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

char *vt_debuginfod_find(const uint8_t *build_id, size_t len, uint64_t deadline_ns)
{
	char hex[2 * MAX_ID + 1] = "";
	char program[] = PROGRAM, what[] = "debuginfo";
	char *argv[] = { program, what, hex, NULL };
	struct vt_str text = { 0 };
	char *path = NULL;
	int fds[2];

	if (len == 0 || len > MAX_ID || pipe2(fds, O_CLOEXEC) != 0)
		return NULL;
	for (size_t i = 0; i < len; i++)
		snprintf(hex + 2 * i, 3, "%02x", build_id[i]);

	pid_t pid = start(argv, fds[1]);

	close(fds[1]);
	if (pid > 0) {
		bool done = read_output(fds[0], &text, deadline_ns);

		/* The path is the only line. */
		if (has_succeeded(pid, done ? deadline_ns : 0) && done && text.n > 1 &&
		    text.data[0] == '/')
			path = strndup(text.data, strcspn(text.data, "\n"));
	}
	close(fds[0]);
	vt_str_deinit(&text);
	return path;
}
