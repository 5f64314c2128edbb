/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is around the process: who started it, which of its descendants use CUDA, and which limits
 * its host memory has. All from small files of the kernel's own; nothing waits for the process.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "collect/collect.h"
#include "collect/watchdog.h"
#include "target/children.h"
#include "target/maps.h"
#include "target/task.h"

#define MAX_DESCENDANTS 512
#define BUDGET_NS (300 * VT_NS_PER_MS)
#define WATCH_NS (30 * VT_NS_PER_S)
#define MAX_FILE 8192
#define MAX_CGROUP 4096
#define UNLIMITED (UINT64_C(1) << 60) /* version 1 writes a number where there is no limit */

/* ---- descendants ---- */

static bool has_driver(pid_t pid)
{
	struct vt_maps maps = { 0 };
	VT_ERROR struct vt_error *err = vt_maps_init(&maps, pid);
	bool found = false;

	for (size_t i = 0; !err && !found && i < maps.entries.n; i++)
		found = !strncmp(vt_base_name(maps.entries.data[i].path), "libcuda.so", 10);
	vt_maps_deinit(&maps);
	return found;
}

static bool is_among(const pid_t *pids, size_t n, pid_t pid)
{
	for (size_t i = 0; i < n; i++)
		if (pids[i] == pid)
			return true;
	return false;
}

/* The first of each branch that does: what that has started belongs to it. */
static void find_children(struct vt_collect *c)
{
	struct vt_model_around *around = &c->model->around;
	uint64_t end = vt_now_ns() + BUDGET_NS;
	VT_FREE pid_t *pids = calloc(MAX_DESCENDANTS, sizeof(*pids));
	VT_FREE pid_t *skipped = calloc(MAX_DESCENDANTS, sizeof(*skipped));
	size_t n, n_skipped = 0;
	bool whole = false;

	if (!pids || !skipped)
		return;
	n = vt_children_list(c->target.proc.pid, pids, MAX_DESCENDANTS, &whole);
	for (size_t i = 0; i < n && vt_now_ns() < end; i++) {
		if (is_among(skipped, n_skipped, pids[i]) || !has_driver(pids[i]))
			continue;
		if (around->n_children < VT_AROUND_MAX_CHILDREN)
			around->children[around->n_children] = pids[i];
		around->n_children++;
		n_skipped += vt_children_list(pids[i], skipped + n_skipped,
					      MAX_DESCENDANTS - n_skipped, &whole);
	}
}

/* ---- limits of host memory ---- */

static bool read_number(const char *path, uint64_t *value)
{
	char text[64], *end;

	if (vt_task_slurp(AT_FDCWD, path, text, sizeof(text)) <= 0)
		return false;
	*value = strtoull(text, &end, 10);
	return end != text && *value < UNLIMITED;
}

/* The number after "key " at the start of a line. */
static bool find_number(const char *text, const char *key, uint64_t *value)
{
	size_t n = strlen(key);

	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, n) != 0 || (line[n] != ' ' && line[n] != '\t'))
			continue;
		*value = strtoull(line + n, NULL, 10);
		return true;
	}
	return false;
}

struct cgroup_files {
	const char *root;
	const char *limit;
	const char *anonymous, *shared; /* of memory.stat */
};

/* What the kernel cannot drop when it runs short: not the page cache. */
static bool read_cgroup(const struct cgroup_files *files, const char *path, uint64_t *limit,
			uint64_t *used)
{
	char name[MAX_CGROUP + 128];
	VT_FREE char *stat = malloc(MAX_FILE);
	uint64_t anonymous = 0, shared = 0;

	snprintf(name, sizeof(name), "%s%s/%s", files->root, path, files->limit);
	if (!stat || !read_number(name, limit))
		return false;
	snprintf(name, sizeof(name), "%s%s/memory.stat", files->root, path);
	if (vt_task_slurp(AT_FDCWD, name, stat, MAX_FILE) <= 0 ||
	    !find_number(stat, files->anonymous, &anonymous))
		return false;
	find_number(stat, files->shared, &shared);
	*used = anonymous + shared;
	return true;
}

static uint64_t room(uint64_t limit, uint64_t used)
{
	return limit > used ? limit - used : 0;
}

/* Each cgroup above has a limit, too: the one with the least room counts. */
static void find_least(const struct cgroup_files *files, char *path, struct vt_model_around *around)
{
	uint64_t least = 0;

	for (;;) {
		uint64_t limit, used;
		char *slash;

		if (read_cgroup(files, path, &limit, &used) &&
		    (!around->memory_known || room(limit, used) < least)) {
			least = room(limit, used);
			around->memory_known = true;
			around->memory_limit_bytes = limit;
			around->memory_used_bytes = used;
		}
		slash = strrchr(path, '/');
		if (!slash)
			return;
		*slash = '\0';
	}
}

/* "0::/system.slice/job", or "9:memory:/job" of version 1. */
static void read_memory_limit(struct vt_collect *c)
{
	static const struct cgroup_files version_2 = { "/sys/fs/cgroup", "memory.max", "anon",
						       "shmem" },
					 version_1 = { "/sys/fs/cgroup/memory",
						       "memory.limit_in_bytes", "total_rss",
						       "total_shmem" };
	char name[48], text[MAX_CGROUP], *save = NULL;

	snprintf(name, sizeof(name), "/proc/%d/cgroup", (int)c->target.proc.pid);
	if (vt_task_slurp(AT_FDCWD, name, text, sizeof(text)) <= 0)
		return;
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *controllers = strchr(line, ':');
		char *path = controllers ? strchr(controllers + 1, ':') : NULL;

		if (!path || strstr(path, "/.."))
			continue;
		*path++ = '\0';
		if (!strcmp(path, "/"))
			*path = '\0';
		if (!controllers[1])
			find_least(&version_2, path, &c->model->around);
		else if (!strcmp(controllers + 1, "memory"))
			find_least(&version_1, path, &c->model->around);
	}
}

static void read_address_limit(struct vt_collect *c)
{
	static const char key[] = "Max address space";
	struct vt_model_around *around = &c->model->around;
	VT_FREE char *text = malloc(MAX_FILE);
	uint64_t kib = 0;
	char name[48], *line, *end = NULL;

	snprintf(name, sizeof(name), "/proc/%d/limits", (int)c->target.proc.pid);
	if (!text || vt_task_slurp(AT_FDCWD, name, text, MAX_FILE) <= 0)
		return;
	line = strstr(text, key);
	if (!line)
		return;
	errno = 0;
	around->address_limit_bytes = strtoull(line + sizeof(key) - 1, &end, 10);
	if (errno || end == line + sizeof(key) - 1)
		return; /* "unlimited" */
	snprintf(name, sizeof(name), "/proc/%d/status", (int)c->target.proc.pid);
	if (vt_task_slurp(AT_FDCWD, name, text, MAX_FILE) <= 0 ||
	    !find_number(text, "VmSize:", &kib) || kib > UNLIMITED / 1024)
		return;
	around->address_used_bytes = kib * 1024;
	around->address_limited = true;
}

static void read_machine(struct vt_model_around *around)
{
	char text[512];
	uint64_t kib = 0;

	if (vt_task_slurp(AT_FDCWD, "/proc/meminfo", text, sizeof(text)) > 0 &&
	    find_number(text, "MemTotal:", &kib) && kib < UNLIMITED / 1024)
		around->machine_bytes = kib * 1024;
}

void vt_collect_around(struct vt_collect *c)
{
	size_t index = 0;

	if (!c->target.live)
		return;
	vt_watchdog_arm(WATCH_NS, c->target.proc.pid, "what is around it is read");
	c->model->around.parent = c->target.proc.ppid;
	if (!vt_modules_by_name(&c->target.modules, "libcuda.so", &index))
		find_children(c);
	read_memory_limit(c);
	read_address_limit(c);
	read_machine(&c->model->around);
	vt_watchdog_disarm();
}
