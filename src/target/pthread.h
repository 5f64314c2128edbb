/* SPDX-License-Identifier: Apache-2.0 */
/* What glibc knows about a thread. */
#ifndef VT_TARGET_PTHREAD_H
#define VT_TARGET_PTHREAD_H

#include <sys/types.h>

#include "vramtap/mem.h"

/* Where in its struct pthread glibc keeps the thread's id, in all releases since 2.4 on x86-64. */
#define VT_PTHREAD_TID 720

/*
 * The tid, in its own pid namespace, of the thread with this pthread_t (on x86-64 its fs base); 0
 * when there is no struct pthread of glibc.
 */
pid_t vt_pthread_tid(struct vt_memsrc *src, uint64_t pthread);

#endif
