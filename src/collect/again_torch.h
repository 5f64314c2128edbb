/* SPDX-License-Identifier: Apache-2.0 */
/* Private to collect/again.c: whether PyTorch hands out memory between two looks. */
#ifndef VT_COLLECT_AGAIN_TORCH_H
#define VT_COLLECT_AGAIN_TORCH_H

#include "collect/target.h"

struct vt_again_torch {
	struct vt_target target; /* open as long as known is set */
	struct vt_torch_found found;
	bool known;
	uint64_t first; /* the count at the begin */
};

/* Not known: there is no native allocator whose layout is, or the process cannot be read. */
void vt_again_torch_begin(struct vt_again_torch *torch, const struct vt_subject *subject);

/* How many blocks were handed out and given back since the begin, on all devices. */
bool vt_again_torch_count(const struct vt_again_torch *torch, uint64_t *count);

void vt_again_torch_end(struct vt_again_torch *torch);

#endif
