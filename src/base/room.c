/* SPDX-License-Identifier: Apache-2.0 */
#include "base/room.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define KIB UINT64_C(1024)
#define UNLIMITED UINT64_MAX

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* A number in a file of its own. False: there is none ("max" is none). */
static bool read_number(const char *directory, const char *name, uint64_t *number)
{
	char path[4096 + 64], line[64];
	char *end;

	if (snprintf(path, sizeof(path), "%s/%s", directory, name) >= (int)sizeof(path))
		return false;

	FILE *file VT_FCLOSE = fopen(path, "re");

	if (!file || !fgets(line, sizeof(line), file))
		return false;
	*number = strtoull(line, &end, 10);
	return end != line;
}

static uint64_t of_machine(void)
{
	FILE *file VT_FCLOSE = fopen("/proc/meminfo", "re");
	static const char key[] = "MemAvailable:";
	char line[128];

	while (file && fgets(line, sizeof(line), file)) {
		if (!strncmp(line, key, sizeof(key) - 1))
			return strtoull(line + sizeof(key) - 1, NULL, 10) * KIB;
	}
	return UNLIMITED;
}

/* Room below the limit of one group. Pages of files count, too, but can be given up. */
static uint64_t of_directory(const char *directory)
{
	/* Documentation/admin-guide/cgroup-v2.rst; cgroup-v1/memory.rst */
	static const struct {
		const char *limit, *used;
	} names[] = {
		{ "memory.max", "memory.current" },
		{ "memory.limit_in_bytes", "memory.usage_in_bytes" },
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		uint64_t limit, used;

		if (read_number(directory, names[i].limit, &limit) &&
		    read_number(directory, names[i].used, &used))
			return limit > used ? limit - used : 0;
	}
	return UNLIMITED;
}

/* A group and all above it, since each has a limit. */
static uint64_t of_group(const char *root, char *group)
{
	uint64_t room = UNLIMITED;
	char *slash;

	do {
		char directory[4096];

		if (snprintf(directory, sizeof(directory), "%s%s", root, group) <
		    (int)sizeof(directory))
			room = least(room, of_directory(directory));
		slash = strrchr(group, '/');
		if (slash)
			*slash = '\0';
	} while (slash);
	return room;
}

/* /proc/self/cgroup: "0::/path" is version 2, "4:memory:/path" the controller of version 1. */
static uint64_t of_groups(void)
{
	FILE *file VT_FCLOSE = fopen("/proc/self/cgroup", "re");
	uint64_t room = UNLIMITED;
	char line[4096];

	while (file && fgets(line, sizeof(line), file)) {
		char *group = strstr(line, ":/");

		line[strcspn(line, "\n")] = '\0';
		if (!group)
			continue;
		group++;
		if (!strncmp(line, "0::", 3))
			room = least(room, of_group("/sys/fs/cgroup", group));
		else if (strstr(line, ":memory:"))
			room = least(room, of_group("/sys/fs/cgroup/memory", group));
	}
	return room;
}

uint64_t vt_memory_room(void)
{
	uint64_t room = least(of_machine(), of_groups());

	return room == UNLIMITED ? 0 : room;
}
