/* SPDX-License-Identifier: Apache-2.0 */
/* What must be known of the native architecture at compile time: one file each. */
#ifndef VRAMTAP_ARCH_H
#define VRAMTAP_ARCH_H

#if defined(__x86_64__)
#include "vramtap/arch/x86_64.h"
#elif defined(__aarch64__)
#include "vramtap/arch/aarch64.h"
#else
#error "this architecture has no file in include/vramtap/arch"
#endif

#endif
