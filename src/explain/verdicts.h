/* SPDX-License-Identifier: Apache-2.0 */
/* What a thread does or waits for: rules over the names in its stack decide (verdicts.c). */
#ifndef VT_EXPLAIN_VERDICTS_H
#define VT_EXPLAIN_VERDICTS_H

#include <stdbool.h>

#include "model/model.h"

/* Whether the recorder's trap keeps a thread for vramtap watch. */
enum vt_kept {
	VT_KEPT_UNKNOWN, /* the trap cannot be read: frames and the kernel's word decide */
	VT_KEPT_NO,
	VT_KEPT_YES,
};

/*
 * Whether the thread can be in the recorder: it has a frame there, or not all of its native frames
 * are known. The latter when it did not stop, or is in the stub that starts the helper on it: the
 * only thread of a process is kept and borrowed at once. An event whose thread could not say that
 * it went on is of a thread elsewhere by now.
 */
bool vt_may_be_in_recorder(const struct vt_model_thread *thread);

/*
 * Sets thread->verdict and ->idle from thread->stack, ->kernel, ->wchan, ->syscall, ->name and
 * ->state. They stay unchanged when no rule matches. blocked: the thread waits in a system call;
 * for_lock: that system call is futex.
 */
void vt_find_verdict(struct vt_model_thread *thread, bool blocked, bool for_lock,
		     enum vt_kept kept);

#endif
