/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allocator's blocks as PyTorch itself lists them: what we must know from outside before we may
 * ask PyTorch, and the check of its answer. Needs no layout.
 */
#ifndef VT_WALK_TORCH_TOLD_H
#define VT_WALK_TORCH_TOLD_H

#include <stdint.h>

#include "vramtap/mem.h"
#include "vramtap/torch.h"

/*
 * Finds the addresses of the devices' mutexes, in device order. Returns their number, 0 when not
 * found. It searches the allocator object for a vector of pointers that all lead to a recursive
 * mutex; every release from 2.0 on has one.
 */
int vt_torch_mutexes(struct vt_memsrc *src, uint64_t allocator,
		     uint64_t mutexes[VT_TORCH_MAX_DEVICES]);

/* The tid of a mutex's owner: 0 free, -1 unreadable. */
int32_t vt_torch_mutex_tid(struct vt_memsrc *src, uint64_t mutex);

/*
 * Checks one device's blocks. recs has n records and begins with those of this device. The
 * invariants are those of a walk: order, tiling, and sums that equal PyTorch's counters, which were
 * read before and after. Fills *result: complete; unstable when the counters changed between the
 * two reads; refused when they did not change but an invariant fails. Returns the number of blocks
 * of this device.
 */
uint64_t vt_torch_judge(const struct vt_block_rec *recs, uint64_t n, int device,
			const struct vt_torch_stats *before, const struct vt_torch_stats *after,
			struct vt_torch_device_result *result);

#endif
