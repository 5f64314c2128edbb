/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostile_spawn STATS_FILE: storms of fork, vfork, posix_spawn and exec. A child that finds
 * anything but its parent's memory as it was, or that does not come back with its own exit code,
 * is harm; so is one that is left.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "targets/spy.h"

#define CHILD "--child" /* hostile_spawn --child: exits with CHILD_CODE */
#define CHILD_CODE 17
#define WORDS 4096

extern char **environ;
static const char *self;
static char *const child_args[] = { (char *)(uintptr_t) "hostile_spawn", (char *)(uintptr_t)CHILD,
				    NULL };

static void rest(void)
{
	usleep(2000);
}

static void expect(struct spy *spy, pid_t pid, int code)
{
	int status = -1;

	if (pid < 0) {
		spy_wrong(spy, "no child: errno %d", errno);
		return;
	}
	spy_check(spy, "waitpid", waitpid(pid, &status, 0), pid);
	spy_check(spy, "the child's status", status, code << 8);
	rest();
}

static void fill(struct spy *spy)
{
	uint64_t *words = malloc(WORDS * sizeof(*words));

	for (uint64_t i = 0; words && i < WORDS; i++)
		words[i] = i * 0x9e3779b97f4a7c15u;
	spy->seq = (uintptr_t)words;
}

/*
 * The child allocates, so that locks of malloc must be free in it, and looks at what it inherited.
 */
static void do_fork(struct spy *spy)
{
	const uint64_t *words = (const uint64_t *)(uintptr_t)spy->seq;
	pid_t pid = fork();

	if (pid == 0) {
		char *p = malloc(100000);
		int code = p ? CHILD_CODE : 2;

		for (uint64_t i = 0; i < WORDS; i++)
			if (words[i] != i * 0x9e3779b97f4a7c15u)
				code = 3;
		free(p);
		_exit(code);
	}
	expect(spy, pid, CHILD_CODE);
}

/* Between vfork() and execve() the parent's memory is the child's. */
static void do_vfork(struct spy *spy)
{
	pid_t pid = vfork();

	if (pid == 0) {
		execve(self, child_args, environ);
		_exit(4);
	}
	expect(spy, pid, CHILD_CODE);
}

/* The parent waits in vfork() for longer than usual. */
static void do_slow_vfork(struct spy *spy)
{
	pid_t pid = vfork();

	if (pid == 0) {
		usleep(15000);
		_exit(5);
	}
	expect(spy, pid, 5);
}

static void do_spawn(struct spy *spy)
{
	posix_spawn_file_actions_t actions;
	pid_t pid = -1;
	int err;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 3, "/dev/null", O_RDONLY, 0);
	err = posix_spawn(&pid, self, &actions, NULL, child_args, environ);
	posix_spawn_file_actions_destroy(&actions);
	errno = err;
	expect(spy, err ? -1 : pid, CHILD_CODE);
}

static void do_exec(struct spy *spy)
{
	pid_t pid = fork();

	if (pid == 0) {
		execve(self, child_args, environ);
		_exit(4);
	}
	expect(spy, pid, CHILD_CODE);
}

/* A child that lives on while it is borrowed from: what it inherits of us must not harm it. */
static void do_long_child(struct spy *spy)
{
	pid_t pid = fork();

	if (pid == 0) {
		for (int i = 0; i < 20; i++)
			usleep(5000);
		_exit(6);
	}
	expect(spy, pid, 6);
}

static void do_parked(struct spy *spy)
{
	double start = spy_now_ms();

	spy_check(spy, "usleep", usleep(20000), 0);
	spy_check_duration(spy, start, 20);
}

static const struct spy_kind kinds[] = {
	{ "fork", do_fork, fill },
	{ "vfork", do_vfork, NULL },
	{ "slow_vfork", do_slow_vfork, NULL },
	{ "spawn", do_spawn, NULL },
	{ "exec", do_exec, NULL },
	{ "long_child", do_long_child, NULL },
	{ "parked", do_parked, NULL },
	{ "parked", do_parked, NULL },
};

int main(int argc, char **argv)
{
	if (argc != 2)
		return 64;
	if (!strcmp(argv[1], CHILD))
		return CHILD_CODE;
	self = argv[0];
	return spy_main(argv[1], kinds, sizeof(kinds) / sizeof(kinds[0]));
}
