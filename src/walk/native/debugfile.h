/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Separate debug files: the symbols and the DWARF that were stripped from a program, as distributions install them, by
 * build id (/usr/lib/debug/.build-id) or by the name in .gnu_debuglink. They are looked for in the target's root first,
 * then in ours, and then, if the caller has set modules->debuginfod_until_ns, debuginfod is asked.
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
 * The debug file of an open module. It is the right one: its build id equals the module's or, for a module without one, its
 * checksum is that in .gnu_debuglink. False when there is none. Release it with vt_debugfile_close().
 */
bool vt_debugfile_find(const struct vt_modules *modules, const struct vt_module *module, struct vt_debugfile *found);

/*
 * The file that several debug files share (dwz -m), named in .gnu_debugaltlink of `of`, which is read through symbols and
 * lies at path. False when it refers to none, or there is none.
 */
bool vt_debugfile_find_shared(const struct vt_modules *modules, const struct vt_symfile *of, const char *path,
			      struct vt_debugfile *found);

/* Also of a struct whose fd is -1 and whose path is NULL. */
void vt_debugfile_close(struct vt_debugfile *file);

#endif
