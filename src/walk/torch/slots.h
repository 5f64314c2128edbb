/* SPDX-License-Identifier: Apache-2.0 */
/* The entries of the vtable of PyTorch's allocator that allocate. They differ between releases. */
#ifndef VT_WALK_TORCH_SLOTS_H
#define VT_WALK_TORCH_SLOTS_H

#include "vramtap/recorder.h"
#include "walk/torch/torch.h"

/*
 * Fills *out for the allocator in found. vptr: the vtable pointer of its class, even while the
 * object has another one. It never guesses: VT_ERR_UNSUPPORTED says why the entries are unknown.
 */
struct vt_error *vt_torch_slots(struct vt_modules *modules, const struct vt_maps *maps,
				struct vt_memsrc *src, const struct vt_torch_found *found,
				uint64_t vptr, struct vt_recorder_torch *out);

#endif
