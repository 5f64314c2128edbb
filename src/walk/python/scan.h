/* SPDX-License-Identifier: Apache-2.0 */
/* Looks through the writable data of an interpreter for what has no symbol. */
#ifndef VT_WALK_PYTHON_SCAN_H
#define VT_WALK_PYTHON_SCAN_H

#include "walk/python/python.h"

/* "3.9.18" and the like at text; *end is what follows. micro is -1 when it is not there. */
bool vt_py_parse_version(const char *text, const char **end, int version[3]);

/* The release that sys.version names. False when it is not found. */
bool vt_py_scan_version(const struct vt_modules *modules, const struct vt_module *module, struct vt_memsrc *src,
			int version[3]);

/*
 * Finds _PyRuntime in a module that does not export it (stripped static executables): by its cookie (3.13+) when layout is
 * NULL, else by what it points to when it has this layout. 0 when it is not there. The result is still to be proven.
 */
uint64_t vt_py_scan_runtime(const struct vt_modules *modules, const struct vt_module *module, struct vt_memsrc *src,
			    const struct vt_python_layout *layout);

#endif
