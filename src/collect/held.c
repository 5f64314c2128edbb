/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/held.h"

struct vt_held_thread *vt_held_find(struct vt_held *held, uint64_t sp, uint64_t pc)
{
	for (size_t i = 0; i < held->threads.n; i++) {
		const struct vt_regs *regs = &held->threads.data[i].regs;

		if (regs->arch && vt_regs_sp(regs) == sp && vt_regs_pc(regs) == pc)
			return &held->threads.data[i];
	}
	return NULL;
}

void vt_held_match(struct vt_held *held, pid_t tid, uint64_t sp, uint64_t pc)
{
	struct vt_held_thread *thread = vt_held_find(held, sp, pc);

	if (thread)
		thread->tid = tid;
}

size_t vt_held_count_unknown(const struct vt_held *held)
{
	size_t known = 0;

	for (size_t i = 0; i < held->threads.n; i++)
		known += held->threads.data[i].tid != 0;
	return known < held->samples.n ? held->samples.n - known : 0;
}

struct vt_held_thread *vt_held_numbered(struct vt_held *held, int number)
{
	for (size_t i = 0; i < held->threads.n; i++)
		if (held->threads.data[i].number == number)
			return &held->threads.data[i];
	return NULL;
}

void vt_held_deinit(struct vt_held *held)
{
	vt_vec_deinit(&held->threads);
	vt_vec_deinit(&held->samples);
}
