/* SPDX-License-Identifier: Apache-2.0 */
#include "target/pthread.h"

#define MAX_TID (1 << 22) /* PID_MAX_LIMIT of 64-bit kernels */

/* The kernel itself wrote the tid (CLONE_PARENT_SETTID, set_tid_address). */
pid_t vt_pthread_tid(struct vt_memsrc *src, const struct vt_arch *arch, uint64_t pthread)
{
	uint32_t tid;

	if (!pthread || !arch->pthread->is_one(src, pthread) ||
	    vt_mem_read_u32(src, pthread + arch->pthread->tid, &tid))
		return 0;
	return tid <= MAX_TID ? (pid_t)tid : 0;
}
