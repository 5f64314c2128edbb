/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What protects the tool from the target's files: the confined child, pages that vanish, and
 * programs that do not end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/regular.h"
#include "base/sandbox.h"
#include "base/sigbus.h"
#include "walk/native/debuginfod.h"

#define PAGE 4096
#define MEMORY ((size_t)64 * 1024 * 1024)

static const int keep_from = 10;

/* What the child found out: one character for each try. */
static void attempts(void)
{
	char result[16];
	size_t n = 0;
	char *p = malloc(MEMORY / 4);

	result[n++] = open("/dev/null", O_RDONLY) < 0 && errno == EPERM ? 'y' : 'n';
	result[n++] = socket(AF_UNIX, SOCK_STREAM, 0) < 0 && errno == EPERM ? 'y' : 'n';
	result[n++] = kill(getppid(), 0) < 0 && errno == EPERM ? 'y' : 'n';
	result[n++] =
		fcntl(VT_SANDBOX_OUT + 1, F_GETFD) < 0 && fcntl(keep_from, F_GETFD) < 0 ? 'y' : 'n';
	/* Standard output is not the pipe. */
	result[n++] = write(STDOUT_FILENO, "lost", 4) == 4 ? 'y' : 'n';
	result[n++] = p ? 'y' : 'n';
	if (p)
		memset(p, 1, MEMORY / 4);
	/*
	 * More than the limit; mapped, since a sanitizer's malloc() ends the program instead of
	 * returning NULL.
	 */
	result[n++] = mmap(NULL, 4 * MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0) == MAP_FAILED ?
			      'y' :
			      'n';
	_exit(write(VT_SANDBOX_OUT, result, n) == (ssize_t)n ? 0 : 1);
}

/* Runs work in a confined child; its status, and what it wrote. */
static int confined(void (*work)(void), char *text, size_t size)
{
	static const struct vt_sandbox_limits limits = { .memory_bytes = MEMORY,
							 .cpu_ns = 200 * VT_NS_PER_MS };
	pid_t parent = getpid(), pid;
	int fds[2], status;
	size_t n = 0;

	/* With number 3 free, which the child wants for itself. */
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	for (int i = 0; i < 2; i++) {
		int moved = fcntl(fds[i], F_DUPFD_CLOEXEC, keep_from);

		assert_true(moved >= 0);
		close(fds[i]);
		fds[i] = moved;
	}
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (vt_sandbox_enter(parent, fds[1], &limits))
			work();
		_exit(99);
	}
	close(fds[1]);
	for (ssize_t got = 1; got > 0 && n<size - 1; n += got> 0 ? (size_t)got : 0)
		got = read(fds[0], text + n, size - 1 - n);
	text[n] = '\0';
	close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void test_confined(void **state)
{
	char text[64];
	int status = confined(attempts, text, sizeof(text));

	(void)state;
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_string_equal(text, "yyyyyyy");
}

static volatile uint64_t count;

static void never_ends(void)
{
	for (;;)
		count++;
}

/* Also when the signal for it is blocked. */
static void test_cpu_limit(void **state)
{
	char text[8];
	sigset_t set;
	int status;

	(void)state;
	sigemptyset(&set);
	sigaddset(&set, SIGPROF);
	sigprocmask(SIG_BLOCK, &set, NULL);
	status = confined(never_ends, text, sizeof(text));
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGPROF);
}

/* When memory runs out, the kernel ends this one and not the process that is looked at. */
static void test_first_to_go(void **state)
{
	static const struct vt_sandbox_limits limits = { .memory_bytes = MEMORY,
							 .cpu_ns = 100 * VT_NS_PER_S };
	pid_t parent = getpid(), pid;
	char path[64], text[16] = "", entered = 0;
	int fds[2], fd;

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (!vt_sandbox_enter(parent, fds[1], &limits) ||
		    write(VT_SANDBOX_OUT, "y", 1) != 1)
			_exit(99);
		never_ends();
	}
	close(fds[1]);
	assert_int_equal(read(fds[0], &entered, 1), 1);
	close(fds[0]);
	snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_true(read(fd, text, sizeof(text) - 1) > 0);
	close(fd);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_string_equal(text, "1000\n");
}

/* A page that is gone reads as zeros; what is there stays. */
static void test_truncated(void **state)
{
	char path[] = "/tmp/vramtap-test-XXXXXX";
	int fd = mkstemp(path);
	struct sigaction before;
	uint8_t page[PAGE];
	uint8_t *p;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(unlink(path), 0);
	memset(page, 7, sizeof(page));
	for (int i = 0; i < 4; i++)
		assert_int_equal(write(fd, page, PAGE), PAGE);
	p = mmap(NULL, 4 * PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
	assert_true(p != MAP_FAILED);
	assert_int_equal(p[3 * PAGE], 7);
	sigaction(SIGBUS, NULL, &before);
	vt_sigbus_survive();
	assert_int_equal(ftruncate(fd, PAGE), 0);
	assert_int_equal(p[0], 7);
	assert_int_equal(p[2 * PAGE + 5], 0);
	assert_int_equal(p[3 * PAGE], 0);
	sigaction(SIGBUS, &before, NULL);
	munmap(p, 4 * PAGE);
	close(fd);
}

/* The sender of the signal wants an end. */
static void test_sent_sigbus(void **state)
{
	pid_t pid = fork();
	int status;

	(void)state;
	if (pid == 0) {
		vt_sigbus_survive();
		kill(getpid(), SIGBUS);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
}

/* Only files, under whatever link. */
static void test_regular(void **state)
{
	char directory[] = "/tmp/vramtap-test-XXXXXX", file[64], name[64];
	int fd;

	(void)state;
	assert_non_null(mkdtemp(directory));
	snprintf(file, sizeof(file), "%s/file", directory);
	snprintf(name, sizeof(name), "%s/name", directory);
	fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, "text", 4), 4);
	close(fd);
	assert_int_equal(symlink(file, name), 0);
	fd = vt_open_regular(name);
	assert_true(fd >= 0);
	assert_int_equal(lseek(fd, 0, SEEK_END), 4);
	close(fd);
	unlink(name);
	assert_int_equal(symlink("/dev/null", name), 0);
	assert_int_equal(vt_open_regular(name), -1);
	unlink(name);
	assert_int_equal(vt_open_regular(name), -1);
	/* With a writer, so that it does not block if it is opened after all. */
	assert_int_equal(mkfifo(name, 0600), 0);
	fd = open(name, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(vt_open_regular(name), -1);
	close(fd);
	assert_int_equal(vt_open_regular(directory), -1);
	assert_int_equal(vt_open_regular("/sys/kernel/uevent_seqnum"), -1);
	unlink(name);
	unlink(file);
	assert_int_equal(rmdir(directory), 0);
}

/* ---- a debuginfod-find that does what its name in the build id says ---- */

static char directory[] = "/tmp/vramtap-test-XXXXXX";

static int make_program(void **state)
{
	static const char script[] = "#!/bin/sh\n"
				     "[ \"$1\" = debuginfo ] || exit 1\n"
				     "case $2 in\n"
				     "0001) echo /found/it ;;\n"
				     "0002) echo relative ;;\n"
				     "0003) echo /found/it; exit 1 ;;\n"
				     "0004) exec sleep 300 ;;\n"
				     "0005) exec yes ;;\n"
				     "0007) echo /found/it; exec >&-; exec sleep 300 ;;\n"
				     "esac\n";
	char path[128], env[256];
	FILE *file;

	(void)state;
	if (!mkdtemp(directory))
		return -1;
	snprintf(path, sizeof(path), "%s/debuginfod-find", directory);
	file = fopen(path, "we");
	if (!file || fputs(script, file) < 0 || fclose(file) != 0 || chmod(path, 0755) != 0)
		return -1;
	snprintf(env, sizeof(env), "%s:/usr/bin:/bin", directory);
	return setenv("PATH", env, 1) || setenv("DEBUGINFOD_URLS", "http://localhost:1", 1);
}

static int remove_program(void **state)
{
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/debuginfod-find", directory);
	return unlink(path) || rmdir(directory);
}

static char *ask(uint8_t kind, uint64_t for_ns)
{
	const uint8_t build_id[] = { 0, kind };

	return vt_debuginfod_find(build_id, sizeof(build_id), vt_now_ns() + for_ns);
}

static void test_debuginfod(void **state)
{
	uint64_t begin = vt_now_ns();
	char *path = ask(1, 100 * VT_NS_PER_S);

	(void)state;
	assert_null(vt_debuginfod_problem());
	assert_non_null(path);
	assert_string_equal(path, "/found/it");
	free(path);
	assert_null(ask(2, 100 * VT_NS_PER_S));
	assert_null(ask(3, 100 * VT_NS_PER_S));
	assert_null(ask(5, 100 * VT_NS_PER_S));
	assert_null(ask(6, 100 * VT_NS_PER_S));
	/* It is ended when it takes too long. */
	assert_null(ask(4, 50 * VT_NS_PER_MS));
	assert_null(ask(7, 50 * VT_NS_PER_MS));
	assert_true(vt_now_ns() - begin < 100 * VT_NS_PER_S);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);

	setenv("PATH", "/nowhere", 1);
	assert_non_null(vt_debuginfod_problem());
	assert_null(ask(1, VT_NS_PER_S));
	setenv("DEBUGINFOD_URLS", " ", 1);
	assert_non_null(strstr(vt_debuginfod_problem(), "DEBUGINFOD_URLS"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_confined),
		cmocka_unit_test(test_cpu_limit),
		cmocka_unit_test(test_first_to_go),
		cmocka_unit_test(test_truncated),
		cmocka_unit_test(test_sent_sigbus),
		cmocka_unit_test(test_regular),
		cmocka_unit_test_setup_teardown(test_debuginfod, make_program, remove_program),
	};

	return cmocka_run_group_tests_name("sandbox", tests, NULL, NULL);
}
