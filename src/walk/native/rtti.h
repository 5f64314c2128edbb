/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The class of a C++ object by its virtual table, read from outside. The Itanium C++ ABI (2.9.5)
 * puts the offset to top and the address of the typeinfo before what an object's first word points
 * to; the typeinfo has the mangled name and the bases. No symbol is needed.
 */
#ifndef VT_WALK_NATIVE_RTTI_H
#define VT_WALK_NATIVE_RTTI_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/vec.h"
#include "target/maps.h"
#include "vramtap/mem.h"

#define VT_RTTI_NONE UINT32_MAX
#define VT_RTTI_MAX_BASES 16

struct vt_rtti_class {
	uint64_t typeinfo;
	const char *name;  /* mangled, as in the typeinfo: "N3c1010TensorImplE"; hostile */
	const char *brief; /* the last component: "TensorImpl", "MulBackward0"; hostile */
	uint32_t bases[VT_RTTI_MAX_BASES]; /* direct and indirect, without itself */
	uint8_t n_bases;
	uint32_t user; /* the caller's own; 0 at first */
};

struct vt_rtti {
	struct vt_memsrc *src;                /* not owned */
	const struct vt_maps *maps;           /* not owned */
	struct vt_map by_vtable, by_typeinfo; /* address → index in classes, or VT_RTTI_NONE */
	VT_VEC(struct vt_rtti_class) classes;
	struct vt_arena arena;
};

void vt_rtti_init(struct vt_rtti *rtti, struct vt_memsrc *src, const struct vt_maps *maps);
void vt_rtti_deinit(struct vt_rtti *rtti);

/*
 * The class whose virtual table is at this address (the first word of an object): an index in
 * rtti->classes, or VT_RTTI_NONE when that is no virtual table. Remembered for each address.
 */
uint32_t vt_rtti_of_vtable(struct vt_rtti *rtti, uint64_t vtable);

/* Whether a class is, or derives from, one with this mangled name. */
bool vt_rtti_is(const struct vt_rtti *rtti, uint32_t cls, const char *mangled);

#endif
