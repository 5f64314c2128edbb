/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VT_INJECT_ARCH_X86_64_CAUGHT_H
#define VT_INJECT_ARCH_X86_64_CAUGHT_H

#include <sys/user.h>

struct vt_caught {
	struct user_regs_struct found;
	struct user_regs_struct sent;
};

#endif
