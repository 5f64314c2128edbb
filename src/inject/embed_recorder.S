/* SPDX-License-Identifier: Apache-2.0 */
/* The recorder, embedded into the tool. The path is relative to the build directory. */
	.section .rodata
	.balign	16
	.globl	vt_recorder_elf, vt_recorder_elf_end
	.hidden	vt_recorder_elf, vt_recorder_elf_end
vt_recorder_elf:
	.incbin	"helper/vramtap-recorder.so"
vt_recorder_elf_end:

	.section .note.GNU-stack, "", %progbits
