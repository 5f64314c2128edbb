/* SPDX-License-Identifier: Apache-2.0 */
/* glibc's struct pthread. */
#ifndef VT_TARGET_ARCH_X86_64_PTHREAD_H
#define VT_TARGET_ARCH_X86_64_PTHREAD_H

#include "target/arch/arch.h"

extern const struct vt_arch_pthread vt_x86_64_pthread;

#endif
