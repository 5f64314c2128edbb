/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel shows a tracer, and its public headers do not name. */
#ifndef VT_TARGET_ARCH_X86_64_KERNEL_H
#define VT_TARGET_ARCH_X86_64_KERNEL_H

/* Results of an interrupted system call (include/linux/errno.h). */
#define ERESTARTSYS 512
#define ERESTARTNOINTR 513
#define ERESTARTNOHAND 514
#define ERESTART_RESTARTBLOCK 516

/* The code segment of 64-bit code (__USER_CS, arch/x86/include/asm/segment.h). */
#define USER_CS 0x33

#endif
