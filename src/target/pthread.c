/* SPDX-License-Identifier: Apache-2.0 */
#include "target/pthread.h"

/*
 * glibc's struct pthread on x86-64 begins with a tcbhead_t, whose words at 0 and 16 point to
 * itself; the tid, which the kernel itself wrote (CLONE_PARENT_SETTID, set_tid_address), is at
 * VT_PTHREAD_TID.
 */
enum {
	PTHREAD_TCB = 0,
	PTHREAD_SELF = 16,
	MAX_TID = 1 << 22, /* PID_MAX_LIMIT of 64-bit kernels */
};

pid_t vt_pthread_tid(struct vt_memsrc *src, uint64_t pthread)
{
	uint64_t tcb, self;
	uint32_t tid;

	if (!pthread || vt_mem_read_u64(src, pthread + PTHREAD_TCB, &tcb) || tcb != pthread ||
	    vt_mem_read_u64(src, pthread + PTHREAD_SELF, &self) || self != pthread ||
	    vt_mem_read_u32(src, pthread + VT_PTHREAD_TID, &tid))
		return 0;
	return tid <= MAX_TID ? (pid_t)tid : 0;
}
