/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symbol names for people. The parts that distinguish frames stay: namespaces, class, function,
 * short template arguments. The parts that only fill the line go: parameter lists, return types,
 * long template arguments, symbol versions and the suffixes of compiler clones.
 */
#ifndef VT_WALK_NATIVE_DEMANGLE_H
#define VT_WALK_NATIVE_DEMANGLE_H

#include <stddef.h>

#include "base/arena.h"

/*
 * The readable form of a symbol of n bytes: C++ (Itanium ABI), Rust (both manglings) or plain.
 * Hostile input is safe: a symbol that does not parse, or would grow without bound, comes back
 * unchanged. NULL only when out of memory.
 */
const char *vt_demangle(struct vt_arena *arena, const char *symbol, size_t n);
/*
 * The same with all template arguments, which vt_demangle() leaves out where they are long: kernels
 * are told from each other by them.
 */
const char *vt_demangle_whole(struct vt_arena *arena, const char *symbol, size_t n);

#endif
