/* SPDX-License-Identifier: Apache-2.0 */
#include "target/sleepers.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "target/proc.h"
#include "target/task.h"

#define POLL_NS (500 * VT_NS_PER_US)

static void keep_asleep(struct vt_sleepers *sleepers, int task_dir)
{
	size_t kept = 0;

	for (size_t i = 0; i < sleepers->n; i++)
		if (vt_task_state(task_dir, sleepers->tids[i]) == 'D')
			sleepers->tids[kept++] = sleepers->tids[i];
	sleepers->n = kept;
}

void vt_sleepers_init(struct vt_sleepers *sleepers, pid_t pid, uint64_t wait_ns)
{
	VT_CLOSE int task_dir = vt_task_dir(pid);
	uint64_t deadline = vt_now_ns() + wait_ns;

	*sleepers = (struct vt_sleepers){ 0 };
	if (task_dir < 0 || vt_task_list(task_dir, VT_MAX_THREADS, &sleepers->tids, &sleepers->n))
		return;
	for (keep_asleep(sleepers, task_dir); sleepers->n && !vt_deadline_passed(deadline);
	     keep_asleep(sleepers, task_dir))
		vt_sleep_ns(POLL_NS);
}

void vt_sleepers_deinit(struct vt_sleepers *sleepers)
{
	free(sleepers->tids);
	*sleepers = (struct vt_sleepers){ 0 };
}

bool vt_sleepers_has(const struct vt_sleepers *sleepers, pid_t tid)
{
	return sleepers->n &&
	       bsearch(&tid, sleepers->tids, sleepers->n, sizeof(tid), vt_task_compare_tids);
}
