/* SPDX-License-Identifier: Apache-2.0 */
#include "target/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/regular.h"
#include "target/elfsym.h"
#include "target/in_root.h"
#include "target/live.h"
#include "target/proc.h"

#define PAGE UINT64_C(4096)

void vt_files_destroy(struct vt_files *files)
{
	if (files)
		files->ops->destroy(files);
}

int vt_files_open_in(int root, const char *path)
{
	VT_CLOSE int found = vt_in_root_find(root, path);
	char self[64];

	if (found < 0)
		return -1;
	/* The name is resolved already; the file is opened only if it is a regular one. */
	snprintf(self, sizeof(self), "/proc/self/fd/%d", found);
	return vt_open_regular(self);
}

/* ---- a live process ---- */

struct live_files {
	struct vt_files files; /* first, so that its address is ours */
	pid_t pid;
	pid_t view;           /* vt_proc_view() */
	struct vt_live *live; /* opened when it is needed */
};

static struct live_files *live_of(struct vt_files *files)
{
	return (struct live_files *)(void *)((char *)files - offsetof(struct live_files, files));
}

static int live_candidate(struct vt_files *files, const struct vt_module *module,
			  const struct vt_map_entry *entry, unsigned int n)
{
	const struct live_files *live = live_of(files);
	VT_FREE char *path = NULL;
	int len;

	switch (n) {
	/* needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE; finds deleted files and needs no path */
	case 0:
		len = asprintf(&path, "/proc/%d/map_files/%llx-%llx", (int)live->view,
			       (unsigned long long)entry->start, (unsigned long long)entry->end);
		break;
	case 1:
		len = asprintf(&path, "/proc/%d/root%s", (int)live->view, module->path);
		break;
	default:
		return VT_FILES_END;
	}
	if (len < 0)
		path = NULL; /* its contents are undefined */
	return path ? vt_open_regular(path) : -1;
}

static struct vt_memsrc *live_memory(struct vt_files *files)
{
	struct live_files *live = live_of(files);

	if (!live->live)
		vt_error_destroy(vt_live_create(live->pid, &live->live));
	return live->live ? vt_live_source(live->live) : NULL;
}

/*
 * Whether the file in image is the one that the target runs, when device and inode do not tell: the
 * start of the file (ELF header, program headers, mostly the build id) must equal what the target
 * has mapped of it.
 */
static bool is_same_in_memory(struct vt_files *files, const struct vt_module *module,
			      const struct vt_map_entry *entry)
{
	struct vt_memsrc *memory = live_memory(files);
	uint8_t start[PAGE];
	size_t n = module->image_size < PAGE ? (size_t)module->image_size : (size_t)PAGE;

	return entry->offset == 0 && memory && !vt_mem_read(memory, entry->start, start, n) &&
	       !memcmp(start, module->image, n);
}

/*
 * maps and stat() agree on device and inode, except that overlayfs (containers, before Linux 6.8)
 * shows the file below the overlay in maps, and btrfs a device of the subvolume in stat().
 */
static bool live_accepts(struct vt_files *files, struct vt_module *module,
			 const struct vt_map_entry *entry)
{
	struct stat st;

	if (fstat(module->fd, &st))
		return false;
	if (!(st.st_ino == entry->inode && major(st.st_dev) == entry->dev_major &&
	      minor(st.st_dev) == entry->dev_minor) &&
	    !is_same_in_memory(files, module, entry))
		return false;
	module->file = VT_FILE_RIGHT;
	return true;
}

static int live_open(struct vt_files *files, const char *path)
{
	char root_path[64];

	snprintf(root_path, sizeof(root_path), "/proc/%d/root", (int)live_of(files)->view);

	VT_CLOSE int root = open(root_path, O_PATH | O_DIRECTORY | O_CLOEXEC);

	return root < 0 ? -1 : vt_files_open_in(root, path);
}

static uint64_t live_auxv(struct vt_files *files, uint64_t type)
{
	uint64_t aux[2];
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/auxv", (int)live_of(files)->view);

	VT_FCLOSE FILE *file = fopen(path, "re");

	while (file && fread(aux, sizeof(aux), 1, file) == 1 && aux[0] != 0)
		if (aux[0] == type)
			return aux[1];
	return 0;
}

static void live_destroy(struct vt_files *files)
{
	vt_live_destroy(live_of(files)->live);
	free(live_of(files));
}

static const struct vt_files_ops live_ops = {
	.candidate = live_candidate,
	.accepts = live_accepts,
	.memory = live_memory,
	.open = live_open,
	.auxv = live_auxv,
	.destroy = live_destroy,
};

struct vt_error *vt_files_live_create(pid_t pid, struct vt_files **ret)
{
	struct live_files *live = calloc(1, sizeof(*live));

	if (!live)
		return &vt_enomem;
	*live = (struct live_files){ .files.ops = &live_ops,
				     .pid = pid,
				     .view = vt_proc_view(pid) };
	*ret = &live->files;
	return NULL;
}
