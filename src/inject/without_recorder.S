/* SPDX-License-Identifier: Apache-2.0 */
/* Where there is no recorder to embed (embed_recorder.S). */
	.section .rodata
	.globl	vt_recorder_elf, vt_recorder_elf_end
	.hidden	vt_recorder_elf, vt_recorder_elf_end
vt_recorder_elf:
vt_recorder_elf_end:

	.section .note.GNU-stack, "", %progbits
