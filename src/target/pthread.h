/* SPDX-License-Identifier: Apache-2.0 */
/* What glibc knows about a thread. */
#ifndef VT_TARGET_PTHREAD_H
#define VT_TARGET_PTHREAD_H

#include <sys/types.h>

#include "target/arch/arch.h"

/*
 * The tid, in its own pid namespace, of the thread with this pthread_t (on x86-64 that is its
 * thread pointer); 0 when there is no struct pthread of glibc.
 */
pid_t vt_pthread_tid(struct vt_memsrc *src, const struct vt_arch *arch, uint64_t pthread);

#endif
