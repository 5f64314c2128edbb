/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VRAMTAP_ARCH_AARCH64_H
#define VRAMTAP_ARCH_AARCH64_H

#include <stddef.h>
#include <stdint.h>

#define VT_ARCH_NATIVE vt_arch_aarch64 /* src/target/arch */
#define VT_ARCH_AUDIT AUDIT_ARCH_AARCH64
/* From here on there are no system calls. */
#define VT_ARCH_OTHER_CALLS 0x40000000u

/* The kernel preserves all registers but x0 (arch/arm64/kernel/entry.S). */
static inline __attribute__((always_inline)) long vt_sys6(long nr, long a, long b, long c, long d,
							  long e, long f)
{
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc #0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
}

static inline __attribute__((always_inline)) long vt_sys4(long nr, long a, long b, long c, long d)
{
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;

	__asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
	return x0;
}

/* The compiler must not make calls of memcpy() and memset() of these loops: it is for those. */
static inline __attribute__((always_inline)) void vt_bytes_copy(void *to, const void *from,
								size_t n)
{
	char *d = to;
	const char *s = from;

	while (n--) {
		*d++ = *s++;
		__asm__ volatile("" : : : "memory");
	}
}

static inline __attribute__((always_inline)) void vt_bytes_set(void *to, int c, size_t n)
{
	char *d = to;

	while (n--) {
		*d++ = (char)c;
		__asm__ volatile("" : : : "memory");
	}
}

#define VT_ARCH_MAX_PAGE 65536 /* of all kernels */

/* glibc's struct pthread: it ends at the thread pointer. */
#define VT_ARCH_PTHREAD_AT (-2304)
#define VT_ARCH_PTHREAD_BYTES 2304

static inline __attribute__((always_inline)) uint64_t vt_arch_thread_pointer(void)
{
	uint64_t self;

	__asm__("mrs %0, tpidr_el0" : "=r"(self));
	return self;
}

/*
 * Defines long start(long flags, void *stack, uint32_t *cleared_at_end): clone(2) of a thread that
 * runs main() and ends. (Here clone() takes the thread pointer before that address.)
 */
#define VT_ARCH_START_THREAD(start, main)                             \
	__asm__("	.text\n"                                            \
		"	.hidden	" #start "\n"                         \
		"	.globl	" #start "\n"                         \
		"	.type	" #start ", %function\n" #start ":\n" \
		"	mov	x4, x2\n"                                       \
		"	mov	x2, #0\n"                                       \
		"	mov	x3, #0\n"                                       \
		"	mov	x8, #220\n" /* SYS_clone */           \
		"	svc	#0\n"                                           \
		"	cbz	x0, 1f\n"                                       \
		"	ret\n"                                              \
		"1:	mov	x29, #0\n"                                    \
		"	mov	x30, #0\n"                                      \
		"	bl	" #main "\n"                          \
		"	mov	x0, #0\n"                                       \
		"	mov	x8, #93\n" /* SYS_exit */             \
		"	svc	#0\n"                                           \
		"	brk	#0\n"                                           \
		"	.size	" #start ", . - " #start "\n")

/* A program's first instructions. The kernel has aligned the stack. */
#define VT_ARCH_START(main)                  \
	__asm__(".globl _start\n"            \
		"_start:\n"                  \
		"	mov	x29, #0\n"             \
		"	mov	x30, #0\n"             \
		"	bl	" #main "\n" \
		"	brk	#0\n")

#endif
