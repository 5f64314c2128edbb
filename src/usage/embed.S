/* SPDX-License-Identifier: Apache-2.0 */
/* The asker, embedded into the tool. The path is relative to the build directory. */
	.section .rodata
	.balign	16
	.globl	vt_usage_asker, vt_usage_asker_end
	.hidden	vt_usage_asker, vt_usage_asker_end
vt_usage_asker:
	.incbin	"src/usage/asker/asker"
vt_usage_asker_end:

	.section .note.GNU-stack, "", @progbits
