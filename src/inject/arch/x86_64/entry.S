/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two ends of the stub: how the borrowed thread enters and how it returns. From the moment it
 * arrives here the thread depends on no other process: it finishes and continues where it was, even
 * if vramtap was killed by then.
 *
 * Position-independent, no data, and outside of xsave and xrstor nothing but integer registers.
 */
#include "inject/stub/stub.h"

#define NR_mmap 9
#define NR_munmap 11
#define NR_rt_sigprocmask 14
#define NR_clone 56
#define NR_exit 60
#define SIG_SETMASK 2
#define PROT_READ_WRITE 3
/* MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE */
#define MAP_FLAGS 0x104022

	.section .text.entry, "ax", @progbits
	.globl	vt_stub_start
	.hidden	vt_stub_start
	.type	vt_stub_start, @function
vt_stub_start:
	jmp	.Lborrowed
	.org	VT_STUB_THREAD
	jmp	vt_stub_thread

	/* rsp is the block; every register of the thread is already in it. */
.Lborrowed:
	cld
	mov	%rsp, %rbx

	/* Signals wait until the thread is back; the tracer has usually blocked them already. */
	mov	$NR_rt_sigprocmask, %eax
	mov	$SIG_SETMASK, %edi
	lea	VT_BLOCK_BLOCKED_MASK(%rbx), %rsi
	xor	%edx, %edx
	mov	$8, %r10d
	syscall

	mov	$NR_mmap, %eax
	mov	VT_BLOCK_REGION(%rbx), %rdi
	mov	$VT_REGION_SIZE, %esi
	mov	$PROT_READ_WRITE, %edx
	mov	$MAP_FLAGS, %r10d
	mov	$-1, %r8
	xor	%r9d, %r9d
	syscall
	mov	%rax, %r12
	cmp	VT_BLOCK_REGION(%rbx), %rax
	je	.Lmapped
	mov	%eax, %ebp
	neg	%ebp			/* the errno */
	cmp	$-4096, %rax
	ja	.Lleave
	mov	$17, %ebp		/* EEXIST: Linux before 4.17 does not know NOREPLACE and put it elsewhere */
	jmp	.Lunmap

	/* The XSAVE header must be zero: it is, in fresh memory. */
.Lmapped:
	mov	VT_FRAME_XSAVE_MASK(%rbx), %eax
	mov	VT_FRAME_XSAVE_MASK+4(%rbx), %edx
	xsave64	VT_REGION_XSAVE(%r12)
	lea	VT_REGION_SIZE-64(%r12), %rsp	/* off the thread's stack, which may be a small one */
	mov	%rbx, %rdi
	mov	%r12, %rsi
	call	vt_stub_main
	mov	%eax, %ebp
	mov	VT_FRAME_XSAVE_MASK(%rbx), %eax
	mov	VT_FRAME_XSAVE_MASK+4(%rbx), %edx
	xrstor64 VT_REGION_XSAVE(%r12)
	mov	%rbx, %rsp
	test	%ebp, %ebp
	jnz	.Lunmap			/* no helper's thread to do it */
	movl	$1, VT_CONTROL_BORROWER_DONE(%r12)	/* the last touch of the region */
	jmp	.Lleave

.Lunmap:
	mov	$NR_munmap, %eax
	mov	%r12, %rdi
	mov	$VT_REGION_SIZE, %esi
	syscall

	/* Integer registers only from here on. Restores the signal mask: handlers may run, below our stack pointer. */
.Lleave:
	mov	%rbx, %rdi
	mov	%ebp, %esi
	call	vt_stub_finish
	pushq	VT_FRAME_FLAGS(%rbx)
	popfq
	mov	0*8(%rbx), %r15
	mov	1*8(%rbx), %r14
	mov	2*8(%rbx), %r13
	mov	3*8(%rbx), %r12
	mov	4*8(%rbx), %rbp
	mov	5*8(%rbx), %r11
	mov	6*8(%rbx), %r10
	mov	7*8(%rbx), %r9
	mov	8*8(%rbx), %r8
	mov	9*8(%rbx), %rax
	mov	10*8(%rbx), %rcx
	mov	11*8(%rbx), %rdx
	mov	12*8(%rbx), %rsi
	mov	13*8(%rbx), %rdi
	/* A signal frame may overwrite the block from here on, but nothing from rsp - 128 up: not the slot. */
	mov	VT_FRAME_SLOT(%rbx), %rsp
	pop	%rbx
	ret	$VT_STUB_RET
	.size	vt_stub_start, . - vt_stub_start

	/*
	 * long vt_stub_start_file_thread(struct vt_stub_control *control): a thread with a table of descriptors of its own, which
	 * runs vt_stub_file(control) and ends. It shares our thread pointer, so nothing of the C library may run on it.
	 */
	.globl	vt_stub_start_file_thread
	.hidden	vt_stub_start_file_thread
	.type	vt_stub_start_file_thread, @function
vt_stub_start_file_thread:
	mov	%rdi, %r9
	lea	VT_REGION_FILE_STACK(%rdi), %rsi	/* the control page begins the region */
	lea	VT_CONTROL_FILE_BUSY(%rdi), %r10
	mov	$VT_FILE_THREAD_FLAGS, %edi
	xor	%edx, %edx
	xor	%r8d, %r8d
	mov	$NR_clone, %eax
	syscall
	test	%rax, %rax
	jz	.Lfile_thread
	ret
.Lfile_thread:
	xor	%ebp, %ebp
	mov	%r9, %rdi
	call	vt_stub_file
	xor	%edi, %edi
	mov	$NR_exit, %eax
	syscall
	ud2
	.size	vt_stub_start_file_thread, . - vt_stub_start_file_thread

	.section .note.GNU-stack, "", @progbits
