/* SPDX-License-Identifier: Apache-2.0 */
/* The memory map of a process as data, and the modules (mapped files) in it. */
#ifndef VT_TARGET_MAPS_H
#define VT_TARGET_MAPS_H

#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/vec.h"

enum {
	VT_MAP_READ = 1,
	VT_MAP_WRITE = 2,
	VT_MAP_EXEC = 4,
	VT_MAP_SHARED = 8,
};

struct vt_map_entry {
	uint64_t start; /* inclusive */
	uint64_t end;   /* exclusive */
	uint64_t offset;
	uint64_t inode;
	uint32_t dev_major, dev_minor;
	unsigned int flags; /* VT_MAP_* */
	/* "" for anonymous memory; "[stack]"; may end in " (deleted)"; hostile bytes */
	const char *path;
};

struct vt_maps {
	VT_VEC(struct vt_map_entry) entries; /* sorted by start */
	struct vt_arena arena;               /* owns the paths */
};

/*
 * Reads /proc/PID/task/PID/maps (fast on many-thread processes of old kernels). maps must be zeroed
 * or deinit'ed.
 */
struct vt_error *vt_maps_init(struct vt_maps *maps, pid_t pid);
void vt_maps_deinit(struct vt_maps *maps);

/* The entry that contains addr, or NULL. */
const struct vt_map_entry *vt_maps_find(const struct vt_maps *maps, uint64_t addr);

#endif
