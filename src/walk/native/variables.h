/* SPDX-License-Identifier: Apache-2.0 */
/* Names of static variables, by address: the symbols of data, as native.h has those of code. */
#ifndef VT_WALK_NATIVE_VARIABLES_H
#define VT_WALK_NATIVE_VARIABLES_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "target/elfsym.h"

struct vt_native_variable {
	uint64_t addr;         /* in the data of a module: set by the caller, */
	uint64_t module_start; /* and so is where that begins: .bss is in no mapping of its file */
	/* found out: */
	const struct vt_module *module; /* NULL: there is none */
	uint64_t module_offset;         /* address in the file (addr - bias) */
	const char *name;               /* demangled; NULL unknown. In the arena; hostile */
	const char *symbol;             /* as in the symbol table */
	uint64_t offset;                /* of addr in the variable */
};

/* Each module's symbols are read once. A module that cannot be read has no names. VT_ERR_NOMEM. */
struct vt_error *vt_native_variables(struct vt_modules *modules,
				     struct vt_native_variable *variables, size_t n,
				     struct vt_arena *arena);

#endif
