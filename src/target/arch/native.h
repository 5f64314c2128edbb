/* SPDX-License-Identifier: Apache-2.0 */
/* The architecture that this program runs on, and what asks its kernel. */
#ifndef VT_TARGET_ARCH_NATIVE_H
#define VT_TARGET_ARCH_NATIVE_H

#include <sys/types.h>

#include "target/arch/arch.h"
#include "vramtap/arch.h"

#define VT_NATIVE (&VT_ARCH_NATIVE)

/*
 * For a thread that the calling thread holds stopped, in a system call that ended with EINTR: has
 * it restarted when the thread is let go, where that is possible. Async-signal-safe.
 */
void vt_native_restart(pid_t tid);

#endif
