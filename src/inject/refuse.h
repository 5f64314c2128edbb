/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VT_INJECT_REFUSE_H
#define VT_INJECT_REFUSE_H

#include "base/error.h"
#include "target/proc.h"

/*
 * Why nothing may be injected into this process, as far as /proc shows it; NULL when there is no
 * reason.
 */
struct vt_error *vt_inject_refusal(const struct vt_proc *proc);

#endif
