/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files behind the modules of a core. They are found by name and by build id: the executable
 * that the caller names, files below a directory with the other machine's files, and files of this
 * machine. A file is used only if it is the one that the process ran.
 */
#ifndef VT_TARGET_CORE_FILES_H
#define VT_TARGET_CORE_FILES_H

#include "target/core/core.h"
#include "target/files.h"
#include "target/maps.h"

struct vt_core_paths {
	const char *exe; /* the executable; NULL: by the name in the core */
	/* a directory with the files of the machine of the core; NULL: it was this one */
	const char *sysroot;
};

/* core and maps must outlive it. Fails when a location does not exist. */
struct vt_error *vt_core_files_create(struct vt_core *core, const struct vt_maps *maps,
				      const struct vt_core_paths *paths, struct vt_files **ret);

/* Whether the search of the sysroot for files of the right name stopped before its end. */
bool vt_core_files_cut(const struct vt_files *files);

#endif
