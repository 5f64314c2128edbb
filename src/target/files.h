/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the files of a target are, and the memory that can be read without these files. A live
 * process shows them under /proc. Those of a core lie on this machine, or under a directory with a
 * copy of the other machine's files (target/core/files.h).
 */
#ifndef VT_TARGET_FILES_H
#define VT_TARGET_FILES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "target/maps.h"
#include "vramtap/mem.h"

struct vt_module;
struct vt_files;

#define VT_FILES_END (-2)

struct vt_files_ops {
	/*
	 * Opens the file of the module whose first mapping is entry, at the nth place where it may
	 * be. Returns a descriptor of a regular file, -1 when there is none at this place,
	 * VT_FILES_END when there are no more places.
	 */
	int (*candidate)(struct vt_files *files, const struct vt_module *module,
			 const struct vt_map_entry *entry, unsigned int n);
	/*
	 * Whether that is the file that the target runs. module has its descriptor, image and build
	 * id; the reason for the answer goes to module->file.
	 */
	bool (*accepts)(struct vt_files *files, struct vt_module *module,
			const struct vt_map_entry *entry);
	/* The target's memory alone, for a module without a file; NULL when it cannot be read. */
	struct vt_memsrc *(*memory)(struct vt_files *files);
	/*
	 * Opens a regular file by the target's path, without leaving the target's root; -1 when
	 * there is none.
	 */
	int (*open)(struct vt_files *files, const char *path);
	/* A value of the auxiliary vector (AT_PHDR, ...), 0 when it is not there. */
	uint64_t (*auxv)(struct vt_files *files, uint64_t type);
	void (*destroy)(struct vt_files *files);
};

struct vt_files {
	const struct vt_files_ops *ops;
};

/* Those of a live process. */
struct vt_error *vt_files_live_create(pid_t pid, struct vt_files **ret);

/* NULL is fine. */
void vt_files_destroy(struct vt_files *files);

/*
 * Opens a regular file below the directory root, following no link out of it; -1 when there is
 * none.
 */
int vt_files_open_in(int root, const char *path);

#endif
