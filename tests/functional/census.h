/* SPDX-License-Identifier: Apache-2.0 */
/* What an injection may not leave behind in a process: threads, descriptors, mappings. */
#ifndef VT_TESTS_CENSUS_H
#define VT_TESTS_CENSUS_H

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "base/cleanup.h"

/* Entries of /proc/PID/task or fd; -2 when there is no such process. */
static inline int count_entries(pid_t pid, const char *what)
{
	char path[64];
	int n = 0;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, what);

	VT_CLOSEDIR DIR *dir = opendir(path);

	while (dir && readdir(dir))
		n++;
	return n - 2;
}

/*
 * Mappings of ours: by name, and by the range of addresses that they are put into, which nothing
 * else uses in a process that is not built with ASan (its shadow lies there).
 */
static inline int count_maps(pid_t pid, bool by_range)
{
	char path[64], line[512];
	int n = 0;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);

	VT_FCLOSE FILE *fp = fopen(path, "re");

	while (fp && fgets(line, sizeof(line), fp)) {
		unsigned long long at = strtoull(line, NULL, 16);

		n += strstr(line, "/memfd:vramtap") ||
		     (by_range && at >= 1ULL << 44 && at < (1ULL << 44) + (1ULL << 46));
	}
	return n;
}

#endif
