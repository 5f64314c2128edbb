/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symbol names as people read them. What tells one frame from another stays (namespaces, class, function, short template
 * arguments); what only fills the line goes: parameter lists, return types, long template arguments, symbol versions and
 * the suffixes of compiler clones.
 */
#ifndef VT_WALK_NATIVE_DEMANGLE_H
#define VT_WALK_NATIVE_DEMANGLE_H

#include <stddef.h>

#include "base/arena.h"

/*
 * The readable form of a symbol of n bytes: C++ (Itanium ABI), Rust (both manglings) or plain. Hostile input is fine: what
 * does not parse, or would grow without bound, is returned as it is. NULL only when out of memory.
 */
const char *vt_demangle(struct vt_arena *arena, const char *symbol, size_t n);

#endif
