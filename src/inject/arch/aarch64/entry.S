/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two ends of the stub: how the borrowed thread enters and how it returns. From the moment it
 * arrives here the thread depends on no other process: it finishes and continues where it was, even
 * if vramtap was killed by then.
 *
 * Position-independent and no data. The page may be one where indirect branches must land on bti
 * (the C library's): the tracer's is none, that of pthread_create() is one, and ret needs none.
 */
#include "inject/stub/stub.h"

#define NR_exit 93
#define NR_rt_sigprocmask 135
#define NR_rt_sigreturn 139
#define NR_munmap 215
#define NR_clone 220
#define NR_mmap 222
#define SIG_SETMASK 2
#define PROT_READ_WRITE 3
/* MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE */
#define MAP_FLAGS 0x104022
#define RESTART_BLOCK 4		/* VT_RESTART_BLOCK */
#define REGS_AT (VT_FRAME_REGS - 8)	/* aligned to 16, as the stack pointer must be */
#define REG(n) (8 + 8 * (n))
#define BTI_C hint #34

	.macro constant reg, value
	movz	\reg, #(\value) & 0xffff
	movk	\reg, #(\value) >> 16, lsl #16
	.endm

	.section .text.entry, "ax", %progbits
	.globl	vt_stub_start
	.hidden	vt_stub_start
	.type	vt_stub_start, %function
vt_stub_start:
	b	.Lborrowed
	.org	VT_STUB_THREAD
	BTI_C
	b	vt_stub_thread

	/* sp is the block; every register of the thread is already in it. */
.Lborrowed:
	mov	x19, sp

	/* Signals wait until the thread is back; the tracer has usually blocked them already. */
	mov	x8, #NR_rt_sigprocmask
	mov	x0, #SIG_SETMASK
	add	x1, x19, #VT_BLOCK_BLOCKED_MASK
	mov	x2, #0
	mov	x3, #8
	svc	#0

	mov	x8, #NR_mmap
	ldr	x22, [x19, #VT_BLOCK_REGION]
	mov	x0, x22
	mov	x1, #VT_REGION_SIZE
	mov	x2, #PROT_READ_WRITE
	constant x3, MAP_FLAGS
	mov	x4, #-1
	mov	x5, #0
	svc	#0
	mov	x20, x0
	cmp	x20, x22
	b.eq	.Lmapped
	neg	w21, w20		/* the errno */
	cmn	x20, #4095
	b.hs	.Lleave
	mov	w21, #17		/* EEXIST: Linux before 4.17 does not know NOREPLACE and put it elsewhere */
	b	.Lunmap

.Lmapped:
	add	x0, x20, #VT_REGION_SIZE	/* off the thread's stack, which may be a small one */
	mov	sp, x0
	mov	x29, #0
	mov	x30, #0
	mov	x0, x19
	mov	x1, x20
	bl	vt_stub_main
	mov	w21, w0
	mov	sp, x19
	cbnz	w21, .Lunmap		/* no helper's thread to do it */
	add	x1, x20, #VT_CONTROL_BORROWER_DONE
	mov	w0, #1
	stlr	w0, [x1]		/* the last touch of the region, after all others */
	b	.Lleave

.Lunmap:
	mov	x8, #NR_munmap
	mov	x0, x20
	mov	x1, #VT_REGION_SIZE
	svc	#0

.Lleave:
	mov	x0, x19
	mov	w1, w21
	bl	vt_stub_finish
	ldr	x0, [x19, #VT_BLOCK_RESTART]
	cmp	x0, #RESTART_BLOCK
	b.eq	.Lresume
	mov	x8, #NR_rt_sigreturn	/* sp is the block, which begins with the frame */
	svc	#0
	brk	#0

	/*
	 * A sleep goes on. Handlers may run from here on, below our stack pointer: sp moves up only past what is not needed any
	 * more.
	 */
.Lresume:
	add	x2, x19, #VT_FRAME_FPSR
	ldp	w0, w1, [x2]
	msr	fpsr, x0
	msr	fpcr, x1
	ldr	x0, [x19, #VT_FRAME_PSTATE]
	and	x0, x0, #0xf0000000
	msr	nzcv, x0
	add	x2, x19, #VT_FRAME_VECTORS
	ldp	q0, q1, [x2]
	ldp	q2, q3, [x2, #32]
	ldp	q4, q5, [x2, #64]
	ldp	q6, q7, [x2, #96]
	ldp	q8, q9, [x2, #128]
	ldp	q10, q11, [x2, #160]
	ldp	q12, q13, [x2, #192]
	ldp	q14, q15, [x2, #224]
	ldp	q16, q17, [x2, #256]
	ldp	q18, q19, [x2, #288]
	ldp	q20, q21, [x2, #320]
	ldp	q22, q23, [x2, #352]
	ldp	q24, q25, [x2, #384]
	ldp	q26, q27, [x2, #416]
	ldp	q28, q29, [x2, #448]
	ldp	q30, q31, [x2, #480]
	ldr	x0, [x19, #VT_FRAME_SLOT]
	add	sp, x19, #REGS_AT
	ldp	x2, x3, [sp, #REG(2)]
	ldp	x4, x5, [sp, #REG(4)]
	ldp	x6, x7, [sp, #REG(6)]
	ldp	x8, x9, [sp, #REG(8)]
	ldp	x10, x11, [sp, #REG(10)]
	ldp	x12, x13, [sp, #REG(12)]
	ldp	x14, x15, [sp, #REG(14)]
	ldp	x16, x17, [sp, #REG(16)]
	ldp	x18, x19, [sp, #REG(18)]
	ldp	x20, x21, [sp, #REG(20)]
	ldp	x22, x23, [sp, #REG(22)]
	ldp	x24, x25, [sp, #REG(24)]
	ldp	x26, x27, [sp, #REG(26)]
	ldp	x28, x29, [sp, #REG(28)]
	ldr	x30, [sp, #REG(30)]
	mov	sp, x0
	ldp	x1, x0, [sp], #VT_STUB_SLOT_SIZE
	ret	x0
	.size	vt_stub_start, . - vt_stub_start

	/*
	 * long vt_stub_start_file_thread(struct vt_stub_control *control): a thread with a table of descriptors of its own, which
	 * runs vt_stub_file(control) and ends. It shares our thread pointer, so nothing of the C library may run on it.
	 */
	.globl	vt_stub_start_file_thread
	.hidden	vt_stub_start_file_thread
	.type	vt_stub_start_file_thread, %function
vt_stub_start_file_thread:
	mov	x9, x0
	constant x0, VT_FILE_THREAD_FLAGS
	add	x1, x9, #VT_REGION_FILE_STACK	/* the control page begins the region */
	mov	x2, #0
	mov	x3, #0
	add	x4, x9, #VT_CONTROL_FILE_BUSY	/* here the last argument: CONFIG_CLONE_BACKWARDS */
	mov	x8, #NR_clone
	svc	#0
	cbz	x0, .Lfile_thread
	ret
.Lfile_thread:
	mov	x29, #0
	mov	x30, #0
	mov	x0, x9
	bl	vt_stub_file
	mov	x0, #0
	mov	x8, #NR_exit
	svc	#0
	brk	#0
	.size	vt_stub_start_file_thread, . - vt_stub_start_file_thread

	.section .note.GNU-stack, "", %progbits
