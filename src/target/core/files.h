/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files behind the modules of a core. They are looked for by name and by build id: the executable that the caller names, below
 * a directory with the other machine's files, and on this machine. One that is not the file that the process ran is not used.
 */
#ifndef VT_TARGET_CORE_FILES_H
#define VT_TARGET_CORE_FILES_H

#include "target/core/core.h"
#include "target/files.h"
#include "target/maps.h"

struct vt_core_places {
	const char *exe;     /* the executable; NULL: by the name in the core */
	const char *sysroot; /* a directory with the files of the machine of the core; NULL: it was this one */
};

/* core and maps must outlive it. Fails when a place does not exist. */
struct vt_error *vt_core_files_create(struct vt_core *core, const struct vt_maps *maps, const struct vt_core_places *places,
				      struct vt_files **ret);

/* Whether the search of the sysroot for files of the right name ended before it had seen all of it. */
bool vt_core_files_cut(const struct vt_files *files);

#endif
