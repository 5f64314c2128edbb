/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VT_INJECT_ARCH_AARCH64_CAUGHT_H
#define VT_INJECT_ARCH_AARCH64_CAUGHT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/user.h>

#include "inject/stub/stub.h"

struct vt_caught {
	struct user_regs_struct found;
	struct user_regs_struct sent;
	struct user_fpsimd_struct vectors;
	uint64_t thread_pointer;
	uint64_t por_el0;
	bool has_overlay;
	uint64_t switches; /* before it was interrupted: how often it had begun to sleep */
	uint64_t first;    /* and the first argument of its call */
	bool ended;        /* the call ended with EINTR: it is not restarted yet */
	enum vt_stub_restart restart;
};

#endif
