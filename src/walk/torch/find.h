/* SPDX-License-Identifier: Apache-2.0 */
/* The part of discovery that needs no modules: from the address of the allocator object to its layout. */
#ifndef VT_WALK_TORCH_FIND_H
#define VT_WALK_TORCH_FIND_H

#include "walk/torch/torch.h"

/*
 * Looks at the object at allocator and fills found->backend, ->layout, ->how, ->row and ->differs (when NATIVE) and ->why (when
 * UNKNOWN). found->version says which row of the table is expected. Never fails: what cannot be read is a reason for UNKNOWN.
 */
void vt_torch_find_layout(const struct vt_maps *maps, struct vt_memsrc *src, uint64_t allocator,
			  struct vt_torch_found *found);

/* Reads as many of len bytes as are mapped; returns how many. */
size_t vt_torch_read_some(struct vt_memsrc *src, uint64_t addr, void *buf, size_t len);

#define VT_RTTI_MAX 128

/* The mangled name of the class of the object at that address, as run-time type information has it; "" when it has none. */
void vt_torch_class_name(struct vt_memsrc *src, uint64_t object, char name[VT_RTTI_MAX]);

#endif
