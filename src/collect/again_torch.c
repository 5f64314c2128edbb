/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/again_torch.h"

/*
 * The sum of what each device's allocator has ever handed out and taken back: the first of its
 * statistics. Read while the process runs: each is one word, and only counts up.
 */
static bool count_all(const struct vt_again_torch *torch, uint64_t *count)
{
	struct vt_memsrc *src = torch->target.mem;
	uint64_t dcas[VT_TORCH_MAX_DEVICES], sum = 0;
	int n = vt_torch_devices(src, &torch->found.layout, torch->found.allocator, dcas);

	for (int i = 0; i < n; i++) {
		struct vt_torch_stat stat;

		if (vt_mem_read(src, dcas[i] + torch->found.layout.stats, &stat, sizeof(stat)))
			return false;
		sum += (uint64_t)stat.allocated + (uint64_t)stat.freed;
	}
	*count = sum;
	return n > 0;
}

void vt_again_torch_begin(struct vt_again_torch *torch, const struct vt_subject *subject)
{
	VT_ERROR struct vt_error *err = vt_target_open(&torch->target, subject);

	if (!err)
		vt_target_find_torch(&torch->target, &torch->found);
	torch->known = !err && torch->found.backend == VT_TORCH_NATIVE &&
		       count_all(torch, &torch->first);
	if (!torch->known)
		vt_target_close(&torch->target);
}

bool vt_again_torch_count(const struct vt_again_torch *torch, uint64_t *count)
{
	uint64_t now;

	/* A counter that was reset (reset_accumulated_memory_stats) tells nothing. */
	if (!torch->known || !count_all(torch, &now) || now < torch->first)
		return false;
	*count = now - torch->first;
	return true;
}

void vt_again_torch_end(struct vt_again_torch *torch)
{
	if (torch->known)
		vt_target_close(&torch->target);
	torch->known = false;
}
