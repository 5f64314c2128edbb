/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workspaces that PyTorch gives to cuBLAS and cuBLASLt: blocks of its allocator that no tensor
 * holds, but a map by handle and stream (aten/src/ATen/cuda/CublasHandlePool.cpp, 1.11 to 2.15).
 */
#ifndef VT_WALK_TORCH_WORKSPACES_H
#define VT_WALK_TORCH_WORKSPACES_H

#include <stddef.h>
#include <stdint.h>

#include "target/elfsym.h"
#include "vramtap/mem.h"

struct vt_torch_workspace {
	uint64_t data;       /* address of the block */
	const char *library; /* ours: "cuBLAS" */
};

/*
 * At most max of them, in no order; how many. 0 also where the maps cannot be found. What is in a
 * map of a process that runs may be torn: an address counts only if it is that of a block.
 */
size_t vt_torch_workspaces(struct vt_modules *modules, struct vt_memsrc *src,
			   struct vt_torch_workspace *workspaces, size_t max);

#endif
