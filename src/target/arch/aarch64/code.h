/* SPDX-License-Identifier: Apache-2.0 */
/* Machine code, and the kernel's signal frame. The contracts are those of struct vt_arch. */
#ifndef VT_TARGET_ARCH_AARCH64_CODE_H
#define VT_TARGET_ARCH_AARCH64_CODE_H

#include "target/arch/arch.h"

#define VT_AARCH64_SVC_0 0xd4000001u

/* Whether it is at pc. */
bool vt_aarch64_is_syscall(struct vt_memsrc *src, uint64_t pc);

bool vt_aarch64_is_after_syscall(struct vt_memsrc *src, uint64_t pc);
bool vt_aarch64_is_after_call(struct vt_memsrc *src, uint64_t addr);
uint64_t vt_aarch64_called_before(struct vt_memsrc *src, uint64_t addr);
bool vt_aarch64_is_sigreturn(struct vt_memsrc *src, uint64_t pc);
bool vt_aarch64_leave_signal(struct vt_memsrc *src, struct vt_regs *regs);

#endif
