/* SPDX-License-Identifier: Apache-2.0 */
/* Demangled C++ names in the short form that people use. */
#ifndef VT_MODEL_CXXNAME_H
#define VT_MODEL_CXXNAME_H

#include <stddef.h>

#include "base/str.h"

/*
 * Adds name without its return type and parameters, and with <…> for template arguments: "void
 * c10::f<int>(int) const" becomes "c10::f<…>". Names that are not C++ or have unbalanced brackets
 * are added unchanged. ellipsis: "…" or "...".
 */
void vt_cxx_short_name(struct vt_str *out, const char *name, size_t n, const char *ellipsis);

#endif
