/* SPDX-License-Identifier: Apache-2.0 */
/* Why a process has no directory in /proc: it need not be gone. */
#ifndef VRAMTAP_TARGET_ABSENT_H
#define VRAMTAP_TARGET_ABSENT_H

#include <sys/types.h>

#include "base/error.h"

/*
 * For a pid whose /proc/PID could not be found: VT_ERR_GONE when there is no such process,
 * VT_ERR_PERMISSION when it is alive and hidden, VT_ERR_NOTFOUND when /proc shows no processes or
 * those of another PID namespace.
 */
struct vt_error *vt_absent_error(pid_t pid);

/* For one that is there and may not be entered: VT_ERR_PERMISSION. */
struct vt_error *vt_hidden_error(pid_t pid);

#endif
