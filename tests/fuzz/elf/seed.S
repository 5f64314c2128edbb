/* SPDX-License-Identifier: Apache-2.0 */
/* Call frame information of every kind, for the seeds of fuzz_elf (seeds.sh). */
	.text
	.globl odd
	.type odd, @function
odd:
.Lodd:
	.cfi_startproc
	.cfi_personality 0x9b, DW.ref.nothing
	.cfi_lsda 0x1b, .Lodd
	.cfi_signal_frame
	push %rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	mov %rsp, %rbp
	.cfi_def_cfa_register %rbp
	.cfi_remember_state
	.cfi_escape 0x10, 3, 3, 0x76, 0x70, 0x06
	.cfi_escape 0x16, 12, 4, 0x91, 0x10, 0x31, 0x22
	.cfi_escape 0x0f, 5, 0x77, 0x08, 0x06, 0x23, 0x08	/* def_cfa_expression */
	nop
	.cfi_restore_state
	.cfi_register %r13, %r14
	.cfi_val_offset %r12, -8
	.cfi_same_value %r15
	.cfi_undefined %rbx
	.cfi_escape 0x2e, 16	/* GNU_args_size */
	.cfi_escape 0x12, 7, 0x7e	/* def_cfa_sf */
	.cfi_escape 0x13, 0x7e
	.cfi_escape 0x11, 3, 2
	.cfi_escape 0x05, 14, 2
	.cfi_escape 0x06, 14
	.cfi_escape 0x15, 3, 1
	.cfi_escape 0x2f, 3, 1
	nop
	.cfi_restore %rbp
	ret
	.cfi_endproc
	.size odd, .-odd
	.globl alone
	.type alone, @gnu_indirect_function
alone:
	ret
	.size alone, .-alone
	.data
DW.ref.nothing:
	.quad 0
	.section .note.GNU-stack,"",@progbits
