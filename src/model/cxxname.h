/* SPDX-License-Identifier: Apache-2.0 */
/* Demangled C++ names as people speak of them. */
#ifndef VT_MODEL_CXXNAME_H
#define VT_MODEL_CXXNAME_H

#include <stddef.h>

#include "base/str.h"

/*
 * Adds name without its return type and parameters and with template arguments as <…>: "void
 * c10::f<int>(int) const" becomes "c10::f<…>". Names that are not C++, and those that do not
 * balance, are added as they are. ellipsis: "…" or "...".
 */
void vt_cxx_short_name(struct vt_str *out, const char *name, size_t n, const char *ellipsis);

#endif
