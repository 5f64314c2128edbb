/* SPDX-License-Identifier: Apache-2.0 */
#include "target/processes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "target/proc.h"
#include "target/processes_probe.h"
#include "target/task.h"

#define MAX_PROCESSES (1 << 22) /* the largest pid_max */
#define MAX_COMMAND 4096
#define MAX_CGROUP 8192
#define MAX_ENVIRON (1 << 20)
#define MAX_DESCRIPTORS 65536
#define MAX_MAPS (64 << 20) /* bytes of text: far more than any process has */
/* No libcuda.so.1 is smaller. The map of a smaller process need not be read. */
#define LIBRARY_BYTES (8 << 20)
#define PF_KTHREAD 0x00200000u /* include/linux/sched.h; in the flags of /proc/PID/stat */

/* ---- the pass ---- */

/*
 * "pid (comm) S ppid ...": comm may contain anything, so it ends at the last parenthesis. Numbers
 * of fields as in proc(5).
 */
static bool parse_stat(char *text, struct vt_process *process)
{
	char *open = strchr(text, '('), *close = strrchr(text, ')'), *save = NULL;
	int field = 3;

	if (!open || !close || close < open)
		return false;
	*close = '\0';
	snprintf(process->name, sizeof(process->name), "%s", open + 1);
	for (char *word = strtok_r(close + 1, " \n", &save); word && field <= 23;
	     word = strtok_r(NULL, " \n", &save), field++) {
		if (field == 3)
			process->state = word[0];
		else if (field == 4)
			process->ppid = (pid_t)strtol(word, NULL, 10);
		else if (field == 9)
			process->kernel_thread = strtoul(word, NULL, 10) & PF_KTHREAD;
		else if (field == 22)
			process->start_ticks = strtoull(word, NULL, 10);
		else if (field == 23)
			process->size = strtoull(word, NULL, 10);
	}
	return field > 23;
}

static const char *read_command(struct vt_processes *processes, int dir)
{
	char text[MAX_COMMAND];
	ssize_t n = vt_task_slurp(dir, "cmdline", text, sizeof(text));

	while (n > 0 && text[n - 1] == '\0')
		n--;
	for (ssize_t i = 0; i < n; i++)
		if (text[i] == '\0')
			text[i] = ' ';
	return n > 0 ? vt_arena_strndup(&processes->arena, text, (size_t)n) : "";
}

static int open_process(pid_t pid)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* False when the process is gone by now. */
static bool read_process(struct vt_processes *processes, pid_t pid, bool blocks,
			 struct vt_process *process)
{
	VT_CLOSE int dir = open_process(pid);
	char text[1024];
	struct stat st;

	if (dir < 0 || fstat(dir, &st) || vt_task_slurp(dir, "stat", text, sizeof(text)) <= 0)
		return false;
	*process = (struct vt_process){
		.pid = pid, .uid = st.st_uid, .parent = VT_NO_PROCESS, .blocks = blocks
	};
	if (!parse_stat(text, process))
		return false;
	process->command = process->kernel_thread || blocks ? "" : read_command(processes, dir);
	return true;
}

static struct vt_error *read_all(struct vt_processes *processes, const pid_t *pids, size_t n)
{
	VT_FREE bool *blocks = calloc(n + 1, sizeof(*blocks));

	if (!blocks)
		return &vt_enomem;
	vt_processes_probe(pids, n, blocks);
	for (size_t i = 0; i < n; i++) {
		struct vt_process process, *added;

		if (!read_process(processes, pids[i], blocks[i], &process))
			continue;
		added = process.command ? vt_vec_append(&processes->list) : NULL;
		if (!added)
			return &vt_enomem;
		*added = process;
		if (!vt_map_put(&processes->by_pid, (uint64_t)process.pid, processes->list.n - 1))
			return &vt_enomem;
	}
	for (size_t i = 0; i < processes->list.n; i++)
		processes->list.data[i].parent =
			vt_processes_find(processes, processes->list.data[i].ppid);
	return NULL;
}

struct vt_error *vt_processes_init(struct vt_processes *processes)
{
	VT_CLOSE int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	VT_FREE pid_t *pids = NULL;
	size_t n = 0;
	int ret = proc < 0 ? -errno : vt_task_list(proc, MAX_PROCESSES, &pids, &n);

	return ret ? vt_error_create_os(-ret, "cannot list the processes in /proc") :
		     read_all(processes, pids, n);
}

void vt_processes_deinit(struct vt_processes *processes)
{
	vt_vec_deinit(&processes->list);
	vt_map_deinit(&processes->by_pid);
	vt_arena_deinit(&processes->arena);
}

void vt_processes_system(char *text, size_t size)
{
	char boot[40], space[48];
	ssize_t boot_n =
		vt_task_slurp(AT_FDCWD, "/proc/sys/kernel/random/boot_id", boot, sizeof(boot));
	ssize_t space_n = readlink("/proc/self/ns/pid", space, sizeof(space));

	text[0] = '\0';
	if (boot_n > 0 && space_n > 0 && (size_t)space_n < sizeof(space))
		snprintf(text, size, "%.*s %.*s", (int)strcspn(boot, "\n"), boot, (int)space_n,
			 space);
}

size_t vt_processes_find(const struct vt_processes *processes, pid_t pid)
{
	const uint64_t *index = pid > 0 ? vt_map_get(&processes->by_pid, (uint64_t)pid) : NULL;

	return index ? (size_t)*index : VT_NO_PROCESS;
}

bool vt_process_is_there(const struct vt_processes *processes, size_t process)
{
	const struct vt_process *p = &processes->list.data[process];
	VT_CLOSE int dir = open_process(p->pid);
	struct vt_process now = { 0 };
	char text[1024];

	return dir >= 0 && vt_task_slurp(dir, "stat", text, sizeof(text)) > 0 &&
	       parse_stat(text, &now) && now.start_ticks == p->start_ticks;
}

/* Processes come and go during the pass, so the parents may form a ring: numbers are used again. */
bool vt_processes_descends(const struct vt_processes *processes, size_t process, size_t ancestor)
{
	size_t at = processes->list.data[process].parent;

	for (size_t hops = 0; at != VT_NO_PROCESS && hops < processes->list.n; hops++) {
		if (at == ancestor)
			return true;
		at = processes->list.data[at].parent;
	}
	return false;
}

/* ---- what is read on demand ---- */

/* /proc/X/file of a process whose main thread may have ended before the others. */
static int open_view(pid_t pid, const char *file, int flags)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)vt_proc_view(pid), file);
	return open(path, flags | O_CLOEXEC);
}

const char *vt_process_cgroup(struct vt_processes *processes, size_t process)
{
	struct vt_process *p = &processes->list.data[process];
	char path[64], text[MAX_CGROUP];

	if (p->cgroup)
		return p->cgroup;
	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)p->pid);

	ssize_t n = vt_task_slurp(AT_FDCWD, path, text, sizeof(text));

	p->cgroup = n > 0 ? vt_arena_strndup(&processes->arena, text, (size_t)n) : NULL;
	if (!p->cgroup)
		p->cgroup = "";
	return p->cgroup;
}

/* The whole file, which ends with a NUL here. */
static void read_variables(struct vt_processes *processes, struct vt_process *p)
{
	VT_CLOSE int fd = p->blocks ? -1 : open_view(p->pid, "environ", O_RDONLY);
	VT_FREE char *text = malloc(MAX_ENVIRON);
	size_t n = 0;

	p->variables = "";
	if (fd < 0 || !text)
		return;
	for (ssize_t got; n < MAX_ENVIRON && (got = read(fd, text + n, MAX_ENVIRON - n)) > 0;)
		n += (size_t)got;

	const char *copy = n ? vt_arena_strndup(&processes->arena, text, n) : NULL;

	if (copy) {
		p->variables = copy;
		p->n_variables = n;
	}
}

const char *vt_process_variable(struct vt_processes *processes, size_t process, const char *name)
{
	struct vt_process *p = &processes->list.data[process];
	size_t len = strlen(name);

	if (!p->variables)
		read_variables(processes, p);
	for (const char *v = p->variables; v < p->variables + p->n_variables; v += strlen(v) + 1)
		if (!strncmp(v, name, len) && v[len] == '=')
			return v + len + 1;
	return NULL;
}

/*
 * "/dev/nvidia3" is device 3; MIG's and the unified memory's are of a device that is not known.
 * False for all else.
 */
static bool is_device_file(const char *path, uint64_t *devices)
{
	static const char prefix[] = "/dev/nvidia";
	const char *rest = path + sizeof(prefix) - 1;
	char *end;

	if (strncmp(path, prefix, sizeof(prefix) - 1) != 0)
		return false;
	if (!strcmp(rest, "-uvm"))
		return true;
	if (*rest < '0' || *rest > '9')
		return false;

	unsigned long number = strtoul(rest, &end, 10);

	if (!*end && number < 64)
		*devices |= UINT64_C(1) << number;
	return !*end;
}

bool vt_devices_open(pid_t pid, uint64_t *devices)
{
	VT_CLOSE int dir = open_view(pid, "fd", O_RDONLY | O_DIRECTORY);
	VT_FREE pid_t *numbers = NULL;
	size_t n = 0;
	bool found = false;

	if (dir < 0 || vt_task_list(dir, MAX_DESCRIPTORS, &numbers, &n))
		return false;
	for (size_t i = 0; i < n; i++) {
		char name[16], path[64];

		snprintf(name, sizeof(name), "%d", (int)numbers[i]);

		ssize_t len = readlinkat(dir, name, path, sizeof(path) - 1);

		if (len <= 0)
			continue;
		path[len] = '\0';
		found = is_device_file(path, devices) || found;
	}
	return found;
}

/* Reads in pieces; each starts with the end of the one before. */
static bool has_library_mapped(pid_t pid)
{
	static const char library[] = "/libcuda.so.";
	enum { PIECE = 65536, OVERLAP = sizeof(library) };
	VT_CLOSE int fd = open_view(pid, "maps", O_RDONLY);
	VT_FREE char *text = malloc(OVERLAP + PIECE);
	size_t kept = 0;

	if (fd < 0 || !text)
		return false;
	for (size_t all = 0; all < MAX_MAPS;) {
		ssize_t got = read(fd, text + kept, PIECE);
		size_t n;

		if (got <= 0)
			return false;
		n = kept + (size_t)got;
		if (memmem(text, n, library, sizeof(library) - 1))
			return true;
		kept = n < OVERLAP ? n : OVERLAP;
		memmove(text, text + n - kept, kept);
		all += (size_t)got;
	}
	return false;
}

/* 0: its main thread has ended, and the others' size is not known. */
static bool may_have_library(const struct vt_process *p)
{
	return !p->size || p->size >= LIBRARY_BYTES;
}

enum vt_gpu_use vt_process_gpu(struct vt_processes *processes, size_t process, uint64_t *devices)
{
	struct vt_process *p = &processes->list.data[process];

	if (!p->gpu_known && !p->kernel_thread && p->state != 'X') {
		if (vt_devices_open(p->pid, &p->gpu_devices))
			p->gpu = VT_GPU_DEVICE;
		else if (!p->blocks && may_have_library(p) && has_library_mapped(p->pid))
			p->gpu = VT_GPU_LIBRARY;
	}
	p->gpu_known = true;
	if (devices)
		*devices = p->gpu_devices;
	return p->gpu;
}

/* ---- cgroups ---- */

static bool is_below(const char *path, size_t n, const char *parent, size_t parent_n)
{
	return n >= parent_n && !memcmp(path, parent, parent_n) &&
	       (n == parent_n || path[parent_n] == '/');
}

/*
 * In version 1 each controller has its own tree below /sys/fs/cgroup: /sys/fs/cgroup/memory/slurm
 * is /slurm of memory.
 */
static bool line_is_below(const char *line, size_t n, const char *parent, size_t parent_n)
{
	const char *controllers = memchr(line, ':', n);
	const char *path =
		controllers ? memchr(controllers + 1, ':', n - (size_t)(controllers + 1 - line)) :
			      NULL;
	size_t controllers_n;

	if (!path)
		return false;
	controllers++;
	controllers_n = (size_t)(path - controllers);
	path++;
	n -= (size_t)(path - line);
	if (is_below(path, n, parent, parent_n))
		return true;
	return controllers_n && parent_n > controllers_n + 1 &&
	       !memcmp(parent + 1, controllers, controllers_n) &&
	       parent[controllers_n + 1] == '/' &&
	       is_below(path, n, parent + controllers_n + 1, parent_n - controllers_n - 1);
}

bool vt_cgroup_is_below(const char *cgroup, const char *path)
{
	static const char mount[] = "/sys/fs/cgroup";
	size_t n;

	if (!strncmp(path, mount, sizeof(mount) - 1))
		path += sizeof(mount) - 1;
	n = strlen(path);
	while (n > 0 && path[n - 1] == '/')
		n--;
	for (const char *line = cgroup; *line;) {
		size_t len = strcspn(line, "\n");

		if (line_is_below(line, len, path, n))
			return true;
		line += len + (line[len] == '\n');
	}
	return false;
}

bool vt_cgroup_slurm_job(const char *cgroup, char *id, size_t size)
{
	static const char component[] = "/job_";
	const char *at = strstr(cgroup, component);

	for (; at; at = strstr(at + 1, component)) {
		const char *digits = at + sizeof(component) - 1;
		size_t n = strspn(digits, "0123456789");

		if (!n || n >= size || (digits[n] && digits[n] != '/' && digits[n] != '\n'))
			continue;
		snprintf(id, size, "%.*s", (int)n, digits);
		return true;
	}
	return false;
}
