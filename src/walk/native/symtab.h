/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Static variables by name: the other way round of walk/native/variables.h, for variables that no
 * library exports but whose file still has its symbol table.
 */
#ifndef VT_WALK_NATIVE_SYMTAB_H
#define VT_WALK_NATIVE_SYMTAB_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "target/elfsym.h"

struct vt_native_static {
	const char *name; /* as in the symbol table: set by the caller */
	/* found out: */
	uint64_t addr; /* at run time; 0: there is none of that name */
	uint64_t size; /* in bytes, as the file says */
};

/* A file without a symbol table has none. VT_ERR_NOMEM, or the module cannot be opened. */
struct vt_error *vt_native_statics(struct vt_modules *modules, struct vt_module *module,
				   struct vt_native_static *variables, size_t n);

#endif
