/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of discovery that needs no modules: it starts from the allocator object's address and
 * finds its layout.
 */
#ifndef VT_WALK_TORCH_FIND_H
#define VT_WALK_TORCH_FIND_H

#include "walk/torch/torch.h"

/*
 * Reads the object at allocator and fills found->backend, ->layout, ->how, ->row and ->differs
 * (when NATIVE) and ->why (when UNKNOWN). found->version tells which row of the table to expect.
 * Never fails: unreadable memory leads to UNKNOWN.
 */
void vt_torch_find_layout(const struct vt_maps *maps, struct vt_memsrc *src, uint64_t allocator,
			  struct vt_torch_found *found);

/* Reads as many of len bytes as are mapped; returns how many. */
size_t vt_torch_read_some(struct vt_memsrc *src, uint64_t addr, void *buf, size_t len);

#define VT_RTTI_MAX 128

/*
 * The mangled class name of the object at that address, from its run-time type information; "" when
 * it has none.
 */
void vt_torch_class_name(struct vt_memsrc *src, uint64_t object, char name[VT_RTTI_MAX]);

#endif
