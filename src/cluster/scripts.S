/* SPDX-License-Identifier: Apache-2.0 */
/* The shell programs, embedded into the tool. The paths are relative to the source directory. */
	.macro	script name
	.globl	vt_cluster_\name, vt_cluster_\name\()_end
	.hidden	vt_cluster_\name, vt_cluster_\name\()_end
vt_cluster_\name:
	.incbin	"src/cluster/\name\().sh"
vt_cluster_\name\()_end:
	.byte	0
	.endm

	.section .rodata
	script	common
	script	node
	script	slurm
	script	kubectl
	script	mpirun
	script	clush

	.section .note.GNU-stack, "", @progbits
