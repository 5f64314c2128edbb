/* SPDX-License-Identifier: Apache-2.0 */
/* PyTorch's own totals of a device, without its blocks. */
#include "walk/torch/abi.h"
#include "walk/torch/torch.h"

#define MAX_BYTES (INT64_C(1) << 48)

bool vt_torch_totals(struct vt_memsrc *src, const struct vt_torch_layout *layout, uint64_t dca,
		     uint64_t *allocated, uint64_t *reserved)
{
	struct vt_torch_stat stats[2];
	uint64_t at = dca + layout->stats;
	struct vt_memvec vec[2] = {
		{ .addr = at + 4 * VT_STATS_ARRAY, .buf = &stats[0], .len = sizeof(stats[0]) },
		{ .addr = at + 5 * VT_STATS_ARRAY, .buf = &stats[1], .len = sizeof(stats[1]) },
	};

	if (vt_mem_readv(src, vec, 2))
		return false;
	for (int i = 0; i < 2; i++)
		if (stats[i].current < 0 || stats[i].current > MAX_BYTES ||
		    stats[i].peak < stats[i].current)
			return false;
	*allocated = (uint64_t)stats[0].current;
	*reserved = (uint64_t)stats[1].current;
	return *allocated <= *reserved;
}
