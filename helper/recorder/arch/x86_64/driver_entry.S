/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where calls of the driver enter: the callback that CUPTI calls, and the entries that patched
 * global offset tables point to. Both save the registers of their caller, from which unwinding
 * starts (struct vt_rec_regs). All code has call frame information: threads may be cancelled in the
 * driver, and debuggers unwind through here.
 */
#define R_PC 0
#define R_SP 8
#define R_BP 16

	.text

/*
 * void vt_rec_cupti_entry(user_data, domain, cbid, data): vt_rec_cupti_callback() with the
 * registers as one more argument.
 */
	.globl vt_rec_cupti_entry
	.hidden vt_rec_cupti_entry
	.type vt_rec_cupti_entry, @function
	.p2align 4
vt_rec_cupti_entry:
	.cfi_startproc
	sub $24, %rsp
	.cfi_adjust_cfa_offset 24
	mov 24(%rsp), %rax
	mov %rax, R_PC(%rsp)
	lea 32(%rsp), %rax
	mov %rax, R_SP(%rsp)
	mov %rbp, R_BP(%rsp)
	mov %rsp, %r8
	call vt_rec_cupti_callback
	add $24, %rsp
	.cfi_adjust_cfa_offset -24
	ret
	.cfi_endproc
	.size vt_rec_cupti_entry, . - vt_rec_cupti_entry

/*
 * The frame of a call through a patched entry, struct vt_rec_got_frame of got.c: registers, the six
 * arguments in registers (none is anything else than an integer), the serial
 * before the call; then the slot and the return address.
 */
#define F_ARGS 24
#define F_SIZE 96
#define F_SLOT F_SIZE
#define F_RETURN (F_SIZE + 8)
#define F_CALLER_SP (F_SIZE + 16)

	.macro save_call
	sub $F_SIZE, %rsp
	.cfi_adjust_cfa_offset F_SIZE
	mov F_RETURN(%rsp), %rax
	mov %rax, R_PC(%rsp)
	lea F_CALLER_SP(%rsp), %rax
	mov %rax, R_SP(%rsp)
	mov %rbp, R_BP(%rsp)
	mov %rdi, F_ARGS(%rsp)
	mov %rsi, F_ARGS+8(%rsp)
	mov %rdx, F_ARGS+16(%rsp)
	mov %rcx, F_ARGS+24(%rsp)
	mov %r8, F_ARGS+32(%rsp)
	mov %r9, F_ARGS+40(%rsp)
	mov %rsp, %rdi
	mov F_SLOT(%rsp), %rsi
	.endm

	.macro restore_arguments above
	mov F_ARGS+\above(%rsp), %rdi
	mov F_ARGS+\above+8(%rsp), %rsi
	mov F_ARGS+\above+16(%rsp), %rdx
	mov F_ARGS+\above+24(%rsp), %rcx
	mov F_ARGS+\above+32(%rsp), %r8
	mov F_ARGS+\above+40(%rsp), %r9
	.endm

	/* \leave(the frame, the slot, the result of the call), and back to the caller */
	.macro leave_call leave
	mov %rsp, %rdi
	mov F_SLOT(%rsp), %rsi
	mov %eax, %edx
	call \leave
	add $(F_SIZE + 8), %rsp
	.cfi_adjust_cfa_offset -(F_SIZE + 8)
	ret
	.endm

	.type got_common, @function
	.p2align 4
got_common:
	.cfi_startproc
	.cfi_def_cfa_offset 16 /* the slot was pushed */
	save_call
	call vt_rec_got_enter
	restore_arguments 0
	call *%rax
	leave_call vt_rec_got_leave
	.cfi_endproc
	.size got_common, . - got_common

/*
 * The same for launches, which have up to five arguments more (cuLaunchKernel; structs that are
 * passed by value are integers in registers here): six words of the caller's stack are copied, if
 * the function has such arguments. Otherwise the stack may end there.
 */
#define F_MORE 48

	.type launch_common, @function
	.p2align 4
launch_common:
	.cfi_startproc
	.cfi_def_cfa_offset 16
	save_call
	call vt_rec_launch_enter
	sub $F_MORE, %rsp
	.cfi_adjust_cfa_offset F_MORE
	test %edx, %edx
	jz 1f
	.set word, 0
	.rept F_MORE / 8
	mov F_CALLER_SP+F_MORE+word(%rsp), %r11
	mov %r11, word(%rsp)
	.set word, word + 8
	.endr
1:
	restore_arguments F_MORE
	call *%rax
	add $F_MORE, %rsp
	.cfi_adjust_cfa_offset -F_MORE
	leave_call vt_rec_launch_leave
	.cfi_endproc
	.size launch_common, . - launch_common

/* VT_REC_GOT_SLOTS entries of 16 bytes each: number n goes to the common part with n. */
	.macro entries name, common
	.globl \name
	.hidden \name
	.type \name, @function
	.p2align 4
\name:
	.set slot, 0
	.rept 128
	.p2align 4
	.cfi_startproc
	push $slot
	.cfi_adjust_cfa_offset 8
	jmp \common
	.cfi_endproc
	.set slot, slot + 1
	.endr
	.size \name, . - \name
	.endm

	entries vt_rec_got_entries, got_common
	entries vt_rec_launch_entries, launch_common

	.section .note.GNU-stack, "", @progbits
