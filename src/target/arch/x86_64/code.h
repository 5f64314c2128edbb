/* SPDX-License-Identifier: Apache-2.0 */
/* Machine code, and the kernel's signal frame. The contracts are those of struct vt_arch. */
#ifndef VT_TARGET_ARCH_X86_64_CODE_H
#define VT_TARGET_ARCH_X86_64_CODE_H

#include "target/arch/arch.h"

bool vt_x86_64_is_after_syscall(struct vt_memsrc *src, uint64_t pc);
bool vt_x86_64_is_after_call(struct vt_memsrc *src, uint64_t addr);
uint64_t vt_x86_64_called_before(struct vt_memsrc *src, uint64_t addr);
bool vt_x86_64_is_sigreturn(struct vt_memsrc *src, uint64_t pc);
bool vt_x86_64_leave_signal(struct vt_memsrc *src, struct vt_regs *regs);

#endif
