/* SPDX-License-Identifier: Apache-2.0 */
/* What a thread does or waits for: rules over the names in its stack decide (verdicts.c). */
#ifndef VT_EXPLAIN_VERDICTS_H
#define VT_EXPLAIN_VERDICTS_H

#include <stdbool.h>

#include "model/model.h"

/*
 * Sets thread->verdict and ->idle from thread->stack, ->kernel, ->wchan, ->syscall, ->name and
 * ->state. They stay unchanged when no rule matches. blocked: the thread waits in a system call;
 * for_lock: that system call is futex.
 */
void vt_find_verdict(struct vt_model_thread *thread, bool blocked, bool for_lock);

#endif
