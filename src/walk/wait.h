/* SPDX-License-Identifier: Apache-2.0 */
/* What a thread waits for, in words: its system call with arguments, and verdict rules over its stack. */
#ifndef VT_WALK_WAIT_H
#define VT_WALK_WAIT_H

#include "base/arena.h"
#include "report/model.h"
#include "target/proc.h"
#include "vramtap/mem.h"

/*
 * Sets thread->syscall, ->waits, ->verdict and ->idle from info and from thread->stack (already filled). src reads the
 * target (the owner of a mutex behind a futex); pid is for /proc/PID/fd. Fields stay NULL where nothing is known.
 */
void vt_wait_describe(struct vt_model_thread *thread, const struct vt_thread_info *info, pid_t pid, struct vt_memsrc *src,
		      struct vt_arena *arena);

#endif
