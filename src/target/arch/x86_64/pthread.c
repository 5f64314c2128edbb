/* SPDX-License-Identifier: Apache-2.0 */
#include "target/arch/x86_64/pthread.h"

/* It begins with a tcbhead_t (sysdeps/x86_64/nptl/tls.h), two words of which point to itself. */
#define TCB 0
#define SELF 16

static bool is_one(struct vt_memsrc *src, uint64_t pthread)
{
	uint64_t tcb, self;

	return !vt_mem_read_u64(src, pthread + TCB, &tcb) && tcb == pthread &&
	       !vt_mem_read_u64(src, pthread + SELF, &self) && self == pthread;
}

const struct vt_arch_pthread vt_x86_64_pthread = { .tid = 720, .is_one = is_one };
