/* SPDX-License-Identifier: Apache-2.0 */
/* Which entries of the virtual table of PyTorch's allocator allocate. They move from release to release. */
#ifndef VT_WALK_TORCH_SLOTS_H
#define VT_WALK_TORCH_SLOTS_H

#include "vramtap/recorder.h"
#include "walk/torch/torch.h"

/*
 * Fills *out for the allocator that was found. vptr: that of its class, also while something else stands in the object. Nothing
 * is guessed: VT_ERR_UNSUPPORTED says why it is not known.
 */
struct vt_error *vt_torch_slots(struct vt_modules *modules, const struct vt_maps *maps, struct vt_memsrc *src,
				const struct vt_torch_found *found, uint64_t vptr, struct vt_recorder_torch *out);

#endif
