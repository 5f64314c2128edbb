/* SPDX-License-Identifier: Apache-2.0 */
#include "target/timens.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "target/proc.h"

/* the kernel allows offsets that keep the clock below 146 years (KTIME_SEC_MAX / 2) */
#define MAX_SECONDS (INT64_C(1) << 32)

/*
 * The namespace that the process is in; its future children's is in another file,
 * time_for_children.
 */
static bool same_namespace(pid_t pid)
{
	struct stat ours, theirs;
	char path[48];

	snprintf(path, sizeof(path), "/proc/%d/ns/time", (int)vt_proc_view(pid));
	/* An older kernel has neither file. */
	return stat("/proc/self/ns/time", &ours) ||
	       (!stat(path, &theirs) && ours.st_dev == theirs.st_dev &&
		ours.st_ino == theirs.st_ino);
}

/*
 * The file describes the namespace of future children: that of the process itself, except between
 * unshare() and exec.
 */
static bool read_offset(const char *path, int64_t *ns)
{
	FILE *file = fopen(path, "re");
	char line[96];
	bool found = false;

	while (file && !found && fgets(line, sizeof(line), file)) {
		/* Linux 5.6 wrote the number of the clock, CLOCK_MONOTONIC. */
		size_t name = !strncmp(line, "monotonic ", 10) ? 10 :
			      !strncmp(line, "1 ", 2)          ? 2 :
								 0;
		char *end = NULL, *last = NULL;
		int64_t s = name ? strtoll(line + name, &end, 10) : 0,
			rest = name ? strtoll(end, &last, 10) : 0;

		if (!name || end == line + name || last == end)
			continue;
		found = s > -MAX_SECONDS && s < MAX_SECONDS && rest >= 0 &&
			rest < (int64_t)VT_NS_PER_S;
		*ns = found ? s * (int64_t)VT_NS_PER_S + rest : 0;
	}
	if (file)
		fclose(file);
	return found;
}

bool vt_timens_ahead(pid_t pid, int64_t *ahead_ns)
{
	int64_t ours, theirs;
	char path[48];

	*ahead_ns = 0;
	if (same_namespace(pid))
		return true;
	snprintf(path, sizeof(path), "/proc/%d/timens_offsets", (int)vt_proc_view(pid));
	if (!read_offset("/proc/self/timens_offsets", &ours) || !read_offset(path, &theirs))
		return false;
	*ahead_ns = theirs - ours;
	return true;
}

uint64_t vt_timens_now(pid_t pid)
{
	int64_t ahead_ns;

	vt_timens_ahead(pid, &ahead_ns);
	return vt_now_ns() + (uint64_t)ahead_ns;
}
