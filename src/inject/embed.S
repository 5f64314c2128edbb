/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code for the target, embedded into the tool. The paths are relative to the build directory.
 */
	.section .rodata
	.macro embed name, path
	.balign	16
	.globl	\name, \name\()_end
	.hidden	\name, \name\()_end
\name:
	.incbin	"\path"
\name\()_end:
	.endm

	embed	vt_stub_blob, src/inject/stub/stub.bin
	embed	vt_helper_elf, helper/vramtap-helper.so

	.section .note.GNU-stack, "", %progbits
