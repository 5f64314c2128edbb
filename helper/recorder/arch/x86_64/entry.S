/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entries in the copy of PyTorch's virtual table: each calls the original function with the same
 * arguments, then vt_rec_allocated(), and returns what the original returned.
 *
 * Their call frame information is exact at every instruction, and names a personality routine: the C++ runtime calls it
 * when an exception passes (oom.c). The frame, from the canonical frame address (CFA) downwards:
 *
 *	CFA -   8  return address
 *	CFA -  16  the caller's rbp, so that unwinding by frame pointers works, too
 *	CFA -  24  what the original returned
 *	CFA -  48  struct vt_rec_regs, of the caller
 *	CFA -  56  the bytes asked for: VT_REC_ENTRY_REQUESTED above the stack pointer
 *	CFA -  64  (unused: the stack is aligned for the calls)
 */
#define RESULT -8(%rbp)
#define SIZE 8(%rsp)
#define REGS 16

	.text

	/* size: the register that has the bytes asked for. in_memory: a DataPtr, returned in memory (rax: where), its first word. */
	.macro	entry name, slot, size, in_memory
	.balign	16
	.globl	\name
	.hidden	\name
	.type	\name, @function
\name:
	.cfi_startproc
	.cfi_personality 0x1b, vt_rec_personality	/* DW_EH_PE_pcrel | DW_EH_PE_sdata4 */
	endbr64
	push	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	mov	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	sub	$48, %rsp
	mov	\size, SIZE
	call	*(vt_rec_originals + 8 * \slot)(%rip)
	mov	%rax, RESULT
	.if	\in_memory
	mov	(%rax), %rdi
	.else
	mov	%rax, %rdi
	.endif
	test	%rdi, %rdi	/* no bytes were asked for: nothing was allocated */
	jz	.Lleave_\slot
	mov	SIZE, %rsi
	mov	8(%rbp), %rax
	lea	16(%rbp), %rcx
	mov	(%rbp), %r8
	mov	%rax, REGS + 0(%rsp)	/* pc */
	mov	%rcx, REGS + 8(%rsp)	/* sp */
	mov	%r8, REGS + 16(%rsp)	/* bp */
	lea	REGS(%rsp), %rdx
	call	vt_rec_allocated
.Lleave_\slot:
	mov	RESULT, %rax
	leave
	.cfi_def_cfa %rsp, 8
	.cfi_restore %rbp
	ret
	.cfi_endproc
	.size	\name, . - \name
	.endm

	/*
	 * In the order of enum vt_recorder_slot. The address for a DataPtr is the first argument,
	 * then the object.
	 */
	entry	vt_rec_entry_allocate, 0, %rdx, 1
	entry	vt_rec_entry_raw_alloc, 1, %rsi, 0
	entry	vt_rec_entry_raw_alloc_with_stream, 2, %rsi, 0
	entry	vt_rec_entry_allocate_with_address, 3, %rdx, 1

	.globl	vt_rec_entries_end
	.hidden	vt_rec_entries_end
vt_rec_entries_end:

	.section .note.GNU-stack, "", @progbits
