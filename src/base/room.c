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

/* Documentation/admin-guide/cgroup-v2.rst; cgroup-v1/memory.rst */
struct names {
	const char *limit, *used;
	const char *file_pages[2]; /* in memory.stat: what is dropped when room is needed */
};

/* What a group could give up, as far as the kernel counts it. */
static uint64_t of_file_pages(const char *directory, const struct names *names)
{
	char path[4096 + 64], line[128];
	uint64_t bytes = 0;

	if (snprintf(path, sizeof(path), "%s/memory.stat", directory) >= (int)sizeof(path))
		return 0;

	FILE *file VT_FCLOSE = fopen(path, "re");

	while (file && fgets(line, sizeof(line), file))
		for (int i = 0; i < 2; i++) {
			size_t n = strlen(names->file_pages[i]);

			if (!strncmp(line, names->file_pages[i], n) && line[n] == ' ')
				bytes += strtoull(line + n, NULL, 10);
		}
	return bytes;
}

/* Room below the limit of one group; with or without the pages of files that are in it. */
static uint64_t of_directory(const char *directory, bool with_file_pages)
{
	static const struct names names[] = {
		{ "memory.max", "memory.current", { "inactive_file", "active_file" } },
		{ "memory.limit_in_bytes",
		  "memory.usage_in_bytes",
		  { "total_inactive_file", "total_active_file" } },
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		uint64_t limit, used;

		if (!read_number(directory, names[i].limit, &limit) ||
		    !read_number(directory, names[i].used, &used))
			continue;
		if (with_file_pages && limit < UNLIMITED / 2) {
			uint64_t pages = of_file_pages(directory, &names[i]);

			used -= least(used, pages);
		}
		return limit > used ? limit - used : 0;
	}
	return UNLIMITED;
}

/* A group and all above it, since each has a limit. */
static uint64_t of_group(const char *root, char *group, bool with_file_pages)
{
	uint64_t room = UNLIMITED;
	char *slash;

	do {
		char directory[4096];

		if (snprintf(directory, sizeof(directory), "%s%s", root, group) <
		    (int)sizeof(directory))
			room = least(room, of_directory(directory, with_file_pages));
		slash = strrchr(group, '/');
		if (slash)
			*slash = '\0';
	} while (slash);
	return room;
}

/*
 * /proc/PID/cgroup: "0::/path" is version 2, "4:memory:/path" the controller of version 1. A path
 * that begins with "/.." is outside of our namespace.
 */
static uint64_t of_groups(const char *path, bool with_file_pages)
{
	FILE *file VT_FCLOSE = fopen(path, "re");
	uint64_t room = UNLIMITED;
	char line[4096];

	while (file && fgets(line, sizeof(line), file)) {
		char *group = strstr(line, ":/");

		line[strcspn(line, "\n")] = '\0';
		if (!group || strstr(group, "/.."))
			continue;
		group++;
		if (!strncmp(line, "0::", 3))
			room = least(room, of_group("/sys/fs/cgroup", group, with_file_pages));
		else if (strstr(line, ":memory:"))
			room = least(room,
				     of_group("/sys/fs/cgroup/memory", group, with_file_pages));
	}
	return room;
}

uint64_t vt_memory_room(void)
{
	uint64_t room = least(of_machine(), of_groups("/proc/self/cgroup", false));

	return room == UNLIMITED ? 0 : room;
}

uint64_t vt_memory_room_of(pid_t pid)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	return of_groups(path, true);
}
