/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stop PID: stops all threads of a process and lets them go, as fast as ptrace can, and does
 * nothing else. What a tool's pause has on top of this is its own; what it has in common is the
 * kernel's. Threads that appear meanwhile are not looked for. A thread in epoll_wait() and its kin
 * sees EINTR: this is for bench/all.py and its own target only.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>

#define MAX_THREADS 4096

static pid_t tids[MAX_THREADS];

static int list(const char *pid)
{
	char path[64];
	const struct dirent *entry;
	DIR *dir;
	int n = 0;

	snprintf(path, sizeof(path), "/proc/%s/task", pid);
	dir = opendir(path);
	while (dir && n < MAX_THREADS && (entry = readdir(dir)))
		if (atoi(entry->d_name) > 0)
			tids[n++] = atoi(entry->d_name);
	if (dir)
		closedir(dir);
	return n;
}

int main(int argc, char **argv)
{
	int n = argc == 2 ? list(argv[1]) : 0;

	for (int i = 0; i < n; i++)
		if (ptrace(PTRACE_SEIZE, tids[i], NULL, NULL))
			return 1;
	for (int i = 0; i < n; i++)
		ptrace(PTRACE_INTERRUPT, tids[i], NULL, NULL);
	for (int i = 0; i < n; i++)
		if (waitpid(tids[i], NULL, __WALL) != tids[i])
			return 1;
	for (int i = 0; i < n; i++)
		ptrace(PTRACE_DETACH, tids[i], NULL, NULL);
	return n == 0;
}
