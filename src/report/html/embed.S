/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a page, embedded into the tool. The paths are relative to the source directory. */
	.section .rodata
	.macro part name, file
	.globl	vt_html_part_\name, vt_html_part_\name\()_end
	.hidden	vt_html_part_\name, vt_html_part_\name\()_end
vt_html_part_\name:
	.incbin	"src/report/html/\file"
vt_html_part_\name\()_end:
	.byte	0
	.endm

	part	template, template.html
	part	style, style.css
#define SCRIPT(name) part name, name.js ;
#include "report/html/scripts.h"

	.section .note.GNU-stack, "", @progbits
