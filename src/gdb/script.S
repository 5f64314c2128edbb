/* SPDX-License-Identifier: Apache-2.0 */
/* gdb's commands, embedded into the tool. The path is relative to the source directory. */
	.section .rodata
	.globl	vt_gdb_script, vt_gdb_script_end
	.hidden	vt_gdb_script, vt_gdb_script_end
vt_gdb_script:
	.incbin	"gdbcmds/vramtap.gdb.in"
vt_gdb_script_end:
	.byte	0

	.section .note.GNU-stack, "", @progbits
