/* SPDX-License-Identifier: Apache-2.0 */
/* Where the functions that the helper calls are in a target. */
#ifndef VT_INJECT_CUDA_IMPORTS_H
#define VT_INJECT_CUDA_IMPORTS_H

#include "target/elfsym.h"
#include "vramtap/helper_abi.h"

/*
 * Fills imports; what the target has not loaded, or a file that cannot be read, leaves a 0. Call again when more was loaded:
 * every field is looked up anew.
 */
void vt_cuda_imports(struct vt_modules *modules, struct vt_helper_imports *imports);

#endif
