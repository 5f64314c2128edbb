/* SPDX-License-Identifier: Apache-2.0 */
/* What a thread is in or waits for, by rules over the names in its stack (verdicts.c). */
#ifndef VT_EXPLAIN_VERDICTS_H
#define VT_EXPLAIN_VERDICTS_H

#include <stdbool.h>

#include "base/arena.h"
#include "model/model.h"

/* The verdict of a thread that waits for the GIL; who has it is not in its stack. */
#define VT_VERDICT_GIL "waits for the GIL"

/*
 * Sets thread->verdict and ->idle from thread->stack, ->kernel, ->wchan, ->syscall, ->name and ->state. blocked: it is in a system call that waits;
 * for_lock: that system call is a futex. Both stay as they are when no rule matches.
 */
void vt_verdict(struct vt_model_thread *thread, bool blocked, bool for_lock, struct vt_arena *arena);

#endif
