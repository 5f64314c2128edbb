/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Separate debug files: the symbols and the DWARF that were stripped from a program. Distributions
 * install them by build id (/usr/lib/debug/.build-id) or by the name in .gnu_debuglink. The search
 * covers the target's root first, then ours. Then it asks debuginfod, if the caller has set
 * modules->debuginfod_until_ns.
 */
#ifndef VT_WALK_NATIVE_DEBUGFILE_H
#define VT_WALK_NATIVE_DEBUGFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "target/elfsym.h"
#include "walk/native/symfile.h"

struct vt_debugfile {
	int fd;
	uint64_t size;
	char *path; /* where it was found: in the target's root or in ours */
};

/*
 * Finds the debug file of an open module. Its build id equals the module's; for a module without a
 * build id, its checksum equals that in .gnu_debuglink. False when there is none. Release it with
 * vt_debugfile_close().
 */
bool vt_debugfile_find(const struct vt_modules *modules, const struct vt_module *module,
		       struct vt_debugfile *found);

/*
 * Finds the file that several debug files share (dwz -m). .gnu_debugaltlink of `of` names it; path
 * is where `of` lies. False when `of` names no file, or the file does not exist.
 */
bool vt_debugfile_find_shared(const struct vt_modules *modules, const struct vt_symfile *of,
			      const char *path, struct vt_debugfile *found);

/* Also accepts a struct with fd -1 and path NULL. */
void vt_debugfile_close(struct vt_debugfile *file);

#endif
