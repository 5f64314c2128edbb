/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allocator as PyTorch itself tells it: what must be known from outside before it may be asked, and whether what it
 * told holds. It needs no layout.
 */
#ifndef VT_WALK_TORCH_TOLD_H
#define VT_WALK_TORCH_TOLD_H

#include <stdint.h>

#include "vramtap/mem.h"
#include "vramtap/torch.h"

/*
 * The addresses of the devices' mutexes, in device order; returns how many there are, 0 when they are not found: the
 * vector in the allocator's object whose pointers all lead to a recursive mutex, as every release from 2.0 on has it.
 */
int vt_torch_mutexes(struct vt_memsrc *src, uint64_t allocator, uint64_t mutexes[VT_TORCH_MAX_DEVICES]);

/* The owner of a mutex: 0 it is free, -1 unreadable. */
int32_t vt_torch_mutex_tid(struct vt_memsrc *src, uint64_t mutex);

/*
 * Judges the first device's blocks among recs, which are n and begin with those of that device, by the same invariants as
 * a walk's: order, tiling, and sums that equal PyTorch's counters, which were read before and after. Fills *result:
 * complete; unstable when the counters moved meanwhile; refused when they did not and something is wrong. Returns how
 * many blocks are the device's.
 */
uint64_t vt_torch_judge(const struct vt_block_rec *recs, uint64_t n, int device, const struct vt_torch_stats *before,
			const struct vt_torch_stats *after, struct vt_torch_device_result *result);

#endif
