/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of registers that older headers do not name (include/uapi/linux/elf.h). */
#ifndef VT_TARGET_ARCH_AARCH64_KERNEL_H
#define VT_TARGET_ARCH_AARCH64_KERNEL_H

#include <elf.h>

#ifndef NT_ARM_TLS
#define NT_ARM_TLS 0x401
#endif
#ifndef NT_ARM_HW_BREAK
#define NT_ARM_HW_BREAK 0x402
#endif
#ifndef NT_ARM_SYSTEM_CALL
#define NT_ARM_SYSTEM_CALL 0x404
#endif
#ifndef NT_ARM_PAC_MASK
#define NT_ARM_PAC_MASK 0x406
#endif
#ifndef NT_ARM_SSVE
#define NT_ARM_SSVE 0x40b
#endif
#ifndef NT_ARM_ZA
#define NT_ARM_ZA 0x40c
#endif
#ifndef NT_ARM_POE
#define NT_ARM_POE 0x40f
#endif
#ifndef NT_ARM_GCS
#define NT_ARM_GCS 0x410
#endif

#endif
