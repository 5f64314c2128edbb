/* SPDX-License-Identifier: Apache-2.0 */
/* The addresses in a target of the functions that the helper calls. */
#ifndef VT_INJECT_CUDA_IMPORTS_H
#define VT_INJECT_CUDA_IMPORTS_H

#include "target/elfsym.h"
#include "vramtap/helper_abi.h"

/*
 * Fills imports; a function stays 0 when the target has not loaded it or its file cannot be read.
 * Call again when more was loaded: every field is looked up anew.
 */
void vt_cuda_imports(struct vt_modules *modules, struct vt_helper_imports *imports);

#endif
