/* SPDX-License-Identifier: Apache-2.0 */
/*
 * long victim_probe_*(const struct probe *in, struct probe *out): makes the system call in->call through syscall() of the
 * C library with every register, the red zone and the extended state set from *in, and stores what is in them when it
 * returns. Two forms: AVX-512 (zmm0 to zmm31, k0 to k7) and AVX (ymm0 to ymm15).
 *
 * struct probe: call[7] at 0; kept[6] (rbx, rbp, r12 to r15) at 56; after[9] (rdi, rsi, rdx, r10, r8, r9, rcx, r11, rsp) at
 * 104; red zone[16] at 176; masks[8] at 304; vectors[32][8] at 384 (64-byte aligned).
 *
 * syscall() pushes nothing: inside, rsp is ours - 8, and the 128 bytes below that are the red zone.
 */
#ifdef __x86_64__
#define CALL 0
#define KEPT 56
#define AFTER 104
#define RED_ZONE 176
#define MASKS 304
#define VECTORS 384


	.macro vector_one name, reg, number, load, ptr
	.if	\load
	\name	VECTORS + 64 * \number(\ptr), %\reg\number
	.else
	\name	%\reg\number, VECTORS + 64 * \number(\ptr)
	.endif
	.endm

	.macro vectors16 name, reg, load, ptr
	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
	vector_one \name, \reg, \n, \load, \ptr
	.endr
	.endm

	.macro vectors32 name, reg, load, ptr
	vectors16 \name, \reg, \load, \ptr
	.irp	n, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
	vector_one \name, \reg, \n, \load, \ptr
	.endr
	.endm

	.macro masks load, ptr
	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7
	.if	\load
	kmovq	MASKS + 8 * \n(\ptr), %k\n
	.else
	kmovq	%k\n, MASKS + 8 * \n(\ptr)
	.endif
	.endr
	.endm

	/* The part before the vectors are loaded: out is kept on the stack, in is in rdi. */
	.macro begin
	push	%rbx
	push	%rbp
	push	%r12
	push	%r13
	push	%r14
	push	%r15
	push	%rdi
	push	%rsi
	.endm

	.macro make_call
	pushq	CALL + 48(%rdi)			/* the sixth argument; rsp is 16-byte aligned again */
	/* red zone of syscall(): [rsp - 136, rsp - 8) */
	xor	%ecx, %ecx
1:	mov	RED_ZONE(%rdi, %rcx, 8), %rax
	mov	%rax, -136(%rsp, %rcx, 8)
	inc	%ecx
	cmp	$16, %ecx
	jne	1b
	mov	KEPT + 0(%rdi), %rbx
	mov	KEPT + 8(%rdi), %rbp
	mov	KEPT + 16(%rdi), %r12
	mov	KEPT + 24(%rdi), %r13
	mov	KEPT + 32(%rdi), %r14
	mov	KEPT + 40(%rdi), %r15
	mov	CALL + 8(%rdi), %rsi
	mov	CALL + 16(%rdi), %rdx
	mov	CALL + 24(%rdi), %rcx
	mov	CALL + 32(%rdi), %r8
	mov	CALL + 40(%rdi), %r9
	mov	CALL + 0(%rdi), %rdi
	stc
	call	*syscall@GOTPCREL(%rip)
	/* rsp is as before the call; the sixth argument, out and in lie there. */
	push	%rbx
	mov	16(%rsp), %rbx
	popq	KEPT + 0(%rbx)
	mov	%rbp, KEPT + 8(%rbx)
	mov	%r12, KEPT + 16(%rbx)
	mov	%r13, KEPT + 24(%rbx)
	mov	%r14, KEPT + 32(%rbx)
	mov	%r15, KEPT + 40(%rbx)
	mov	%rdi, AFTER + 0(%rbx)
	mov	%rsi, AFTER + 8(%rbx)
	mov	%rdx, AFTER + 16(%rbx)
	mov	%r10, AFTER + 24(%rbx)
	mov	%r8, AFTER + 32(%rbx)
	mov	%r9, AFTER + 40(%rbx)
	mov	%rcx, AFTER + 48(%rbx)
	mov	%r11, AFTER + 56(%rbx)
	mov	%rsp, AFTER + 64(%rbx)
	/* "push rbx" has used the word at rsp - 8, which the return address had used before it. */
	xor	%ecx, %ecx
2:	mov	-136(%rsp, %rcx, 8), %rdx
	mov	%rdx, RED_ZONE(%rbx, %rcx, 8)
	inc	%ecx
	cmp	$16, %ecx
	jne	2b
	.endm

	.macro finish
	vzeroupper
	add	$24, %rsp
	pop	%r15
	pop	%r14
	pop	%r13
	pop	%r12
	pop	%rbp
	pop	%rbx
	ret
	.endm

	.text
	.globl	victim_probe_avx512
	.type	victim_probe_avx512, @function
victim_probe_avx512:
	begin
	vectors32 vmovdqu64, zmm, 1, %rdi
	masks	1, %rdi
	make_call
	vectors32 vmovdqu64, zmm, 0, %rbx
	masks	0, %rbx
	finish

	.globl	victim_probe_avx
	.type	victim_probe_avx, @function
victim_probe_avx:
	begin
	vectors16 vmovdqu, ymm, 1, %rdi
	make_call
	vectors16 vmovdqu, ymm, 0, %rbx
	finish
#endif

	.section .note.GNU-stack, "", %progbits
