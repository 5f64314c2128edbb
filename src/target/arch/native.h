/* SPDX-License-Identifier: Apache-2.0 */
/* The architecture that this program runs on, and what asks its kernel. */
#ifndef VT_TARGET_ARCH_NATIVE_H
#define VT_TARGET_ARCH_NATIVE_H

#include <sys/types.h>

#include "target/arch/arch.h"
#include "vramtap/arch.h"

#define VT_NATIVE (&VT_ARCH_NATIVE)

/*
 * Whether a stop that ends a call with EINTR leaves nothing in the registers that says which call
 * it was: then it is asked for before (target/asleep.h).
 */
extern const bool vt_native_forgets_calls;

/* The number in the registers of a thread that is right behind a system call; -1 unknown. */
int64_t vt_native_last_call(const struct vt_regs *regs);

/*
 * For a thread that the calling thread holds stopped, after a system call that ended with EINTR,
 * whose number and arguments are in regs: has it restarted when the thread is let go, where that is
 * possible. Async-signal-safe.
 */
void vt_native_restart(pid_t tid, const struct vt_regs *regs);

#endif
