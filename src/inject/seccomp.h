/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a seccomp filter lets the stub and the helper make their system calls. Nearly every
 * container has a filter (Docker's and containerd's default profile), so refusing all of them would
 * refuse Kubernetes; guessing would get the target killed. So the filters are read and evaluated.
 */
#ifndef VT_INJECT_SECCOMP_H
#define VT_INJECT_SECCOMP_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"

/* The users of the calls. */
enum vt_seccomp_use {
	VT_SECCOMP_HELPER,   /* the stub and the helper */
	VT_SECCOMP_RECORDER, /* and the loader, the recorder */
};

/*
 * The thread must be stopped by the calling thread (ptrace). NULL when all calls are allowed;
 * VT_ERR_UNSUPPORTED names the call that is not, or says that the filters may not be read.
 */
struct vt_error *vt_seccomp_check(pid_t tid, enum vt_seccomp_use use);

/*
 * The answer of one filter: SECCOMP_RET_*; SECCOMP_RET_KILL_PROCESS for a program that the kernel
 * would not load.
 */
uint32_t vt_seccomp_run(const struct sock_filter *program, size_t n,
			const struct seccomp_data *data);

/* The name of the first call that this filter does not allow; NULL: it allows all. */
const char *vt_seccomp_forbidden(const struct sock_filter *program, size_t n,
				 enum vt_seccomp_use use);

#endif
