/* SPDX-License-Identifier: Apache-2.0 */
/* glibc's struct pthread. */
#ifndef VT_TARGET_ARCH_AARCH64_PTHREAD_H
#define VT_TARGET_ARCH_AARCH64_PTHREAD_H

#include "target/arch/arch.h"

extern const struct vt_arch_pthread vt_aarch64_pthread;

#endif
