/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reborn PID PROGRAM [ARGUMENT...]: starts the program as a process with this pid (clone3(), Linux
 * 5.5; root only), as a child of the caller's. It has 127 as exit code if that cannot be done.
 */
#include <errno.h>
#include <linux/sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FAILED 127

int main(int argc, char **argv)
{
	pid_t wanted = argc > 2 ? (pid_t)strtol(argv[1], NULL, 10) : 0;
	struct clone_args args = {
		.flags = CLONE_PARENT,
		.set_tid = (uintptr_t)&wanted,
		.set_tid_size = 1,
	};
	long pid;

	if (wanted <= 0)
		return 64;
	pid = syscall(SYS_clone3, &args, sizeof(args));
	if (pid < 0) {
		fprintf(stderr, "clone3: %s\n", strerror(errno));
		return FAILED;
	}
	if (pid > 0)
		return 0;
	execv(argv[2], argv + 2);
	_exit(FAILED);
}
