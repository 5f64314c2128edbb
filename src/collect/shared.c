/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared memory of the process and its descendants: files in /dev/shm, and memfds. A batch that
 * waits for its reader is mapped by nobody: with PyTorch's strategy file_descriptor its worker has
 * a descriptor of it (the file was removed from the directory at once), with file_system its file
 * is in the directory, with the pid of its maker in the name. All is read from /proc; nothing is
 * asked of a process.
 */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "collect/collect.h"
#include "collect/watchdog.h"
#include "target/children.h"

#define MAX_PROCESSES 256
#define MAX_MAPPINGS 100000
#define MAX_DESCRIPTORS 65536        /* of one process */
#define MAX_FILE (UINT64_C(1) << 44) /* more is a sparse file, by its mapping */
#define BUDGET_NS (100 * VT_NS_PER_MS)
#define WATCH_NS (20 * VT_NS_PER_S)
#define MAX_MOUNTS (1 << 20) /* bytes of text */
#define TMPFS 0x01021994     /* TMPFS_MAGIC of linux/magic.h */
#define SHM "/dev/shm"

struct mapping {
	uint64_t dev, inode;
	uint64_t most;       /* of the file: the end of what is mapped */
	uint64_t start, end; /* in the process; 0: it is not mapped, but most is its size */
	pid_t pid;
	enum vt_shared_kind kind;
};

struct shared {
	VT_VEC(struct mapping) list;
	VT_VEC(pid_t) makers; /* the processes, as they call themselves */
	uint64_t deadline_ns;
	bool whole;
};

static bool begins(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

/* Ours are not the target's. */
static bool is_shared_path(const char *path)
{
	return begins(path, SHM "/") ||
	       (begins(path, "/memfd:") && !begins(path, "/memfd:vramtap"));
}

static bool is_shared_file(const struct vt_map_entry *e)
{
	return (e->flags & VT_MAP_SHARED) && e->inode && is_shared_path(e->path);
}

static enum vt_shared_kind kind_of(const char *path)
{
	if (!begins(path, SHM "/"))
		return VT_SHARED_OTHER;
	path += strlen(SHM "/");
	return begins(path, "torch_") ? VT_SHARED_TORCH :
	       begins(path, "nccl-")  ? VT_SHARED_NCCL :
					VT_SHARED_OTHER;
}

/* Of the file, what the mapping goes to. */
static uint64_t end_of(const struct vt_map_entry *e)
{
	uint64_t end;

	return __builtin_add_overflow(e->end - e->start, e->offset, &end) ? UINT64_MAX : end;
}

static bool add(struct shared *shared, struct mapping what)
{
	struct mapping *m = shared->list.n < MAX_MAPPINGS ? vt_vec_append(&shared->list) : NULL;

	if (m)
		*m = what;
	else
		shared->whole = false;
	return m;
}

/* As the kernel has it: a file system that does not answer is not asked. */
static bool ask_size(int dir, const char *path, struct statx *st)
{
	return !statx(dir, path, AT_STATX_DONT_SYNC, STATX_INO | STATX_BLOCKS | STATX_TYPE, st) &&
	       S_ISREG(st->stx_mode);
}

static bool add_file(struct shared *shared, int dir, const char *name, const char *path)
{
	struct statx st;

	return !ask_size(dir, name, &st) ||
	       add(shared, (struct mapping){
				   .dev = (uint64_t)st.stx_dev_major << 32 | st.stx_dev_minor,
				   .inode = st.stx_ino,
				   .most = st.stx_blocks * 512,
				   .kind = kind_of(path),
			   });
}

/* Those that are not mapped. */
static void add_descriptors(struct shared *shared, pid_t pid)
{
	char path[64], target[256];
	size_t left = MAX_DESCRIPTORS;
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	if (!dir)
		shared->whole = false;
	while (dir && (entry = readdir(dir))) {
		ssize_t n = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);

		target[n < 0 ? 0 : n] = '\0';
		if (is_shared_path(target) && !add_file(shared, dirfd(dir), entry->d_name, target))
			break;
		if (!--left || vt_now_ns() > shared->deadline_ns) {
			shared->whole = false;
			break;
		}
	}
	if (dir)
		closedir(dir);
}

/* Its number in its own pid namespace, which is in the names of its files: "NSpid:\t4711\t12" */
static void add_maker(struct shared *shared, pid_t pid)
{
	char path[48], line[256];
	pid_t *maker = vt_vec_append(&shared->makers);
	VT_FCLOSE FILE *file = NULL;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	file = fopen(path, "re");
	if (maker)
		*maker = pid;
	while (maker && file && fgets(line, sizeof(line), file)) {
		char *last = strrchr(line, '\t');

		if (begins(line, "NSpid:") && last)
			*maker = (pid_t)strtol(last, NULL, 10);
	}
}

static void add_mappings(struct shared *shared, pid_t pid, const struct vt_maps *maps)
{
	for (size_t i = 0; i < maps->entries.n; i++) {
		const struct vt_map_entry *e = &maps->entries.data[i];

		if (is_shared_file(e) &&
		    !add(shared, (struct mapping){
					 .dev = (uint64_t)e->dev_major << 32 | e->dev_minor,
					 .inode = e->inode,
					 .most = end_of(e),
					 .start = e->start,
					 .end = e->end,
					 .pid = pid,
					 .kind = kind_of(e->path),
				 }))
			break;
	}
}

/* Returns whether the process has any. known: its map; NULL: it is to be read. */
static bool add_process(struct shared *shared, pid_t pid, const struct vt_maps *known)
{
	struct vt_maps maps = { 0 };
	VT_ERROR struct vt_error *err = known ? NULL : vt_maps_init(&maps, pid);
	size_t had = shared->list.n;

	if (err)
		shared->whole = false; /* not permitted, or gone */
	add_mappings(shared, pid, known ? known : &maps);
	vt_maps_deinit(&maps);
	add_descriptors(shared, pid);
	add_maker(shared, pid);
	return shared->list.n > had;
}

/* Of a file, what the kernel has counted first, then the largest mapping. */
static int compare(const void *pa, const void *pb)
{
	const struct mapping *a = pa, *b = pb;

	if (a->dev != b->dev)
		return a->dev < b->dev ? -1 : 1;
	if (a->inode != b->inode)
		return a->inode < b->inode ? -1 : 1;
	if (!a->end != !b->end)
		return a->end ? 1 : -1;
	return (a->most < b->most) - (a->most > b->most);
}

/* What of it is in memory; this needs CAP_CHECKPOINT_RESTORE, as root has it. */
static bool size_in_memory(const struct mapping *m, uint64_t *bytes)
{
	char path[96];
	struct statx st;

	if (!m->end)
		return true;
	snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int)m->pid,
		 m->start, m->end);
	if (!ask_size(AT_FDCWD, path, &st) || st.stx_ino != m->inode)
		return false;
	*bytes = st.stx_blocks * 512;
	return true;
}

static void sum_up(struct shared *shared, struct vt_model_host *host)
{
	if (shared->list.n)
		qsort(shared->list.data, shared->list.n, sizeof(*shared->list.data), compare);
	for (size_t i = 0; i < shared->list.n; i++) {
		const struct mapping *m = &shared->list.data[i];
		uint64_t bytes = m->most;

		if (i && m[-1].dev == m->dev && m[-1].inode == m->inode)
			continue;
		if (!size_in_memory(m, &bytes))
			host->shared_mapped = true;
		if (bytes > MAX_FILE) {
			shared->whole = false;
			continue;
		}
		host->shared_bytes[m->kind] += bytes;
		host->shared_files++;
	}
}

/* "torch_4711_12_0": of one of the processes */
static bool is_made_by_one(const struct shared *shared, const char *name)
{
	long pid = begins(name, "torch_") ? strtol(name + strlen("torch_"), NULL, 10) : 0;

	for (size_t i = 0; pid > 0 && i < shared->makers.n; i++)
		if (shared->makers.data[i] == pid)
			return true;
	return false;
}

static void add_directory(struct shared *shared, pid_t pid)
{
	char path[64], full[512];
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/root" SHM, (int)pid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		snprintf(full, sizeof(full), SHM "/%s", entry->d_name);
		if (is_made_by_one(shared, entry->d_name) &&
		    !add_file(shared, dirfd(dir), entry->d_name, full))
			break;
		if (vt_now_ns() > shared->deadline_ns) {
			shared->whole = false;
			break;
		}
	}
	if (dir)
		closedir(dir);
}

static void read_processes(struct vt_collect *c)
{
	struct vt_model_host *host = &c->model->host;
	struct shared shared = { .deadline_ns = vt_now_ns() + BUDGET_NS, .whole = true };
	VT_FREE pid_t *pids = calloc(MAX_PROCESSES, sizeof(*pids));
	bool whole = false,
	     is_recent = c->target.maps_ns && vt_now_ns() - c->target.maps_ns < VT_MAPS_AGE_NS;
	size_t n;

	if (!pids)
		return;
	add_process(&shared, c->target.proc.pid, is_recent ? &c->target.maps : NULL);
	n = vt_children_list(c->target.proc.pid, pids, MAX_PROCESSES, &whole);
	for (size_t i = 0; i < n; i++) {
		if (vt_now_ns() > shared.deadline_ns) {
			whole = false;
			break;
		}
		host->shared_processes += add_process(&shared, pids[i], NULL);
	}
	if (host->shm_known)
		add_directory(&shared, c->target.proc.pid);
	sum_up(&shared, host);
	host->shared_known = true;
	host->shared_whole = shared.whole && whole;
	vt_vec_deinit(&shared.list);
	vt_vec_deinit(&shared.makers);
}

/* ---- the file system ---- */

/*
 * "36 35 98:0 /root /mount/point options - type source": whether /dev/shm is one in memory. Any
 * other may not answer.
 */
static bool is_in_memory(pid_t pid)
{
	VT_FREE char *text = malloc(MAX_MOUNTS);
	char path[48], *save = NULL;
	bool found = false;
	VT_FCLOSE FILE *file = NULL;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/mountinfo", (int)pid);
	file = fopen(path, "re");
	if (!text || !file)
		return false;
	n = fread(text, 1, MAX_MOUNTS - 1, file);
	text[n] = '\0';
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char point[16] = "", *type = strstr(line, " - ");

		if (sscanf(line, "%*s %*s %*s %*s %15s", point) != 1)
			continue;
		if (!strcmp(point, SHM))
			found = type && begins(type, " - tmpfs ");
		else if (!strcmp(point, "/dev") || !strcmp(point, "/"))
			found = false; /* what is mounted later hides it */
	}
	return found;
}

static void read_file_system(struct vt_collect *c)
{
	struct vt_model_host *host = &c->model->host;
	char path[48];
	struct statfs fs;

	snprintf(path, sizeof(path), "/proc/%d/root" SHM, (int)c->target.proc.pid);
	if (!is_in_memory(c->target.proc.pid) || statfs(path, &fs) || fs.f_type != TMPFS ||
	    fs.f_bsize <= 0 || fs.f_blocks > UINT64_MAX / (uint64_t)fs.f_bsize ||
	    fs.f_bfree > fs.f_blocks)
		return;
	host->shm_known = fs.f_blocks > 0; /* 0: without a limit */
	host->shm_total_bytes = fs.f_blocks * (uint64_t)fs.f_bsize;
	host->shm_used_bytes = (fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize;
}

void vt_collect_shared(struct vt_collect *c)
{
	/* A look at memory alone, and one rank of many, whose workers are read by themselves. */
	if (!c->target.live || !(c->options->want & VT_WANT_THREADS) || c->options->together)
		return;
	vt_watchdog_arm(WATCH_NS, c->target.proc.pid, "its shared memory is read");
	read_file_system(c);
	read_processes(c);
	vt_watchdog_disarm();
}
