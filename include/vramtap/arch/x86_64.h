/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VRAMTAP_ARCH_X86_64_H
#define VRAMTAP_ARCH_X86_64_H

#include <stddef.h>
#include <stdint.h>

#define VT_ARCH_NATIVE vt_arch_x86_64 /* src/target/arch */
#define VT_ARCH_PAGE UINT64_C(4096)   /* of every kernel */
#define VT_ARCH_AUDIT AUDIT_ARCH_X86_64
/* System call numbers from here on are of another table, x32's, under the same AUDIT_ARCH. */
#define VT_ARCH_OTHER_CALLS 0x40000000u

static inline __attribute__((always_inline)) long vt_sys6(long nr, long a, long b, long c, long d,
							  long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}

static inline __attribute__((always_inline)) long vt_sys4(long nr, long a, long b, long c, long d)
{
	register long r10 __asm__("r10") = d;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
	return ret;
}

/* Fast for all sizes that matter on every processor that can host a GPU of interest (ERMS). */
static inline __attribute__((always_inline)) void vt_bytes_copy(void *to, const void *from,
								size_t n)
{
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
}

static inline __attribute__((always_inline)) void vt_bytes_set(void *to, int c, size_t n)
{
	__asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(c) : "memory");
}

#define VT_ARCH_MAX_PAGE 4096 /* of all kernels */

/* glibc's struct pthread: from the thread pointer on. */
#define VT_ARCH_PTHREAD_AT 0
#define VT_ARCH_PTHREAD_BYTES 2304

/* The processor's own way to read it is not there on all; the ABI has a copy where it points to. */
static inline __attribute__((always_inline)) uint64_t vt_arch_thread_pointer(void)
{
	uint64_t self;

	__asm__("mov %%fs:0, %0" : "=r"(self));
	return self;
}

/*
 * Defines long start(long flags, void *stack, uint32_t *cleared_at_end): clone(2) of a thread that
 * runs main() and ends.
 */
#define VT_ARCH_START_THREAD(start, main)                             \
	__asm__("	.text\n"                                            \
		"	.hidden	" #start "\n"                         \
		"	.globl	" #start "\n"                         \
		"	.type	" #start ", @function\n" #start ":\n" \
		"	mov	%rdx, %r10\n"                                   \
		"	xor	%edx, %edx\n"                                   \
		"	xor	%r8d, %r8d\n"                                   \
		"	mov	$56, %eax\n" /* SYS_clone */          \
		"	syscall\n"                                          \
		"	test	%rax, %rax\n"                                  \
		"	jz	1f\n"                                            \
		"	ret\n"                                              \
		"1:	xor	%ebp, %ebp\n"                                 \
		"	call	" #main "\n"                          \
		"	xor	%edi, %edi\n"                                   \
		"	mov	$60, %eax\n" /* SYS_exit */           \
		"	syscall\n"                                          \
		"	ud2\n"                                              \
		"	.size	" #start ", . - " #start "\n")

/* A program's first instructions. The stack is aligned at the entry; a call needs it so, too. */
#define VT_ARCH_START(main)                  \
	__asm__(".globl _start\n"            \
		"_start:\n"                  \
		"	xorl	%ebp, %ebp\n"         \
		"	andq	$-16, %rsp\n"         \
		"	call	" #main "\n" \
		"	hlt\n")

#endif
