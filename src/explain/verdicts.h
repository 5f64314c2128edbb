/* SPDX-License-Identifier: Apache-2.0 */
/* What a thread is in or waits for, by rules over the names in its stack (verdicts.c). */
#ifndef VT_EXPLAIN_VERDICTS_H
#define VT_EXPLAIN_VERDICTS_H

#include <stdbool.h>

#include "model/model.h"

/*
 * Sets thread->verdict and ->idle from thread->stack, ->kernel, ->wchan, ->syscall, ->name and ->state. blocked: it is in a system call that waits;
 * for_lock: that system call is a futex. Both stay as they are when no rule matches.
 */
void vt_find_verdict(struct vt_model_thread *thread, bool blocked, bool for_lock);

#endif
