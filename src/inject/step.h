/* SPDX-License-Identifier: Apache-2.0 */
/*
 * With --enable-fault-points only: a thread in the stub is stepped, one instruction at a time, so
 * that a test can have vramtap die before any of them.
 */
#ifndef VT_INJECT_STEP_H
#define VT_INJECT_STEP_H

#include <stdint.h>
#include <sys/types.h>

#ifdef VT_FAULT_POINTS
struct vt_steps {
	pid_t tid;     /* stopped, and traced by the calling thread */
	uint64_t stub; /* where the stub is */
	uint64_t end;  /* where the thread is back; 0: nowhere */
	uint64_t nth;  /* the instruction of the stub to stop before, counted from 0 */
	int log;       /* gets the offset of each in the stub (uint16_t); -1: nowhere */
};

enum vt_step_result {
	VT_STEP_REACHED, /* stopped before the nth instruction, and not stepped any more */
	VT_STEP_BACK,    /* at .end, and not stepped any more */
	VT_STEP_WAITS,   /* it sleeps in a system call, or ended; it is not held any more */
};

enum vt_step_result vt_step(struct vt_steps *steps);

/*
 * With VRAMTAP_FAULT="step:NAME:THREAD:NTH:FD" this kills vramtap when the thread has come to the
 * nth instruction of the stub, or is back from it. THREAD is "borrowed" (tid itself), "helper"
 * (which that one starts) or "file" (which the helper starts). FD gets the log.
 */
void vt_fault_steps(const char *name, pid_t tid, uint64_t stub, uint64_t end);
#else
static inline void vt_fault_steps(const char *name, pid_t tid, uint64_t stub, uint64_t end)
{
	(void)name;
	(void)tid;
	(void)stub;
	(void)end;
}
#endif

#endif
